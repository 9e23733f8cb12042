"""Pack the page: `python -m docs.site.break_it.build FOLDER`. Exit code 78 where npm is missing.

1. Pyodide and libsodium come from npm, at the versions and digests below. The page loads nothing from elsewhere.
2. It has those modules of Python's library and of Covey that it imports, without docstrings and comments.
3. Each file is compressed by gzip, and inflated by the browser (`DecompressionStream`). All of it takes 5 MB at most.
"""

from __future__ import annotations

import ast
import base64
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[2]
_CACHE = _ROOT / ".cache" / "npm"
_PACKAGES = {
    "pyodide-314.0.7": "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==",
    "libsodium-0.8.4": "lMcYaRi0zcs7tarATsQUYC7rstliIXZuoq0c6zXSgNtSNtdvBgkSegjWhpMJAXzKX3SUSwIp7+zEsob+j3LuRw==",
    "libsodium-wrappers-0.8.4": (
        "mu8aAWucZjTB5O/BtGXtW4e1agy7uHxNYG7zPthmmD1jU43LCDmSWZLN4JhflbdPXj3yDO4lxM1O9hLDgIOXDw=="
    ),
}
"""The tarballs of npm, and their SHA-512 as npm writes it."""
MAXIMUM_BYTES = 5_000_000
_NO_CONFIGURATION = 78


def build(folder: Path) -> int:
    """Write the page into a folder; return how many bytes it has.

    Raises:
        SystemExit: npm is missing, or what it brought is something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pyodide, sodium, wrappers = (_files_of(name) for name in _PACKAGES)
    files = {
        "pyodide.mjs": pyodide["pyodide.mjs"],
        "pyodide.asm.mjs": pyodide["pyodide.asm.mjs"],
        "pyodide.asm.wasm": pyodide["pyodide.asm.wasm"],
        "pyodide-lock.json": _lock(pyodide["pyodide-lock.json"]),
        "python_stdlib.zip": _library(pyodide["python_stdlib.zip"]),
        "libsodium.mjs": sodium["dist/modules-esm/libsodium.mjs"],
        "libsodium-wrappers.mjs": wrappers["dist/modules-esm/libsodium-wrappers.mjs"],
        "covey.zip": _covey(),
    }
    for name, content in files.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, 9, mtime=0))
    shutil.copyfile(_HERE / "page.html", folder / "index.html")
    size = sum(each.stat().st_size for each in folder.iterdir())
    if size > MAXIMUM_BYTES:
        raise SystemExit(f"error: the page has {size:,} bytes; it may have {MAXIMUM_BYTES:,}")
    return size


def is_fetched() -> bool:
    """Whether the packages are here."""
    return all((_CACHE / f"{name}.tgz").exists() for name in _PACKAGES)


def _files_of(name: str) -> dict[str, bytes]:
    """Return the files of a package, fetched once."""
    tarball = _CACHE / f"{name}.tgz"
    if not tarball.exists():
        npm = shutil.which("npm")
        if npm is None:
            print("error: no npm here\nhint: sudo apt-get install npm", file=sys.stderr)
            raise SystemExit(_NO_CONFIGURATION)
        _CACHE.mkdir(parents=True, exist_ok=True)
        package, _, version = name.rpartition("-")
        words = [npm, "pack", "--silent", "--pack-destination", str(_CACHE), f"{package}@{version}"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    content = tarball.read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != _PACKAGES[name]:
        raise SystemExit(f"error: {tarball} is not the package that was examined")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [each for each in archive.getmembers() if each.isfile()]
        return {each.name.removeprefix("package/"): _read(archive, each) for each in members}


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def _lock(content: bytes) -> bytes:
    """Return the list of Pyodide's packages, without the packages: the page loads none."""
    lock = json.loads(content)
    lock["packages"] = {}
    return json.dumps(lock).encode()


def _library(content: bytes) -> bytes:
    """Return those modules of Python's library that `modules.txt` names, bare; Pyodide's own need their docstrings."""
    wanted = set((_HERE / "modules.txt").read_text(encoding="ascii").split())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if name in wanted}
    own = {name: content for name, content in found.items() if "pyodide/" in name}
    return _stored({**_bare_sources(found), **own})


def _bare_sources(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return files with those of Python bare."""
    return {name: _bare(content).encode() if name.endswith(".py") else content for name, content in files.items()}


def _covey() -> bytes:
    """Return what the page imports of Covey, and the page's own modules."""
    found = "import sys, world; print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'covey'))"
    path = {"PYTHONPATH": f"{_HERE}:{_ROOT / 'agent'}"}
    printed = subprocess.run([sys.executable, "-c", found], check=True, capture_output=True, text=True, env=path).stdout
    sources = [Path(each) for each in printed.split()]
    schema = _ROOT / "agent/covey/adapters/sqlite/schema"
    files = {str(each.relative_to(_ROOT / "agent")): each.read_bytes() for each in [*sources, *schema.glob("*.sql")]}
    own = {name: (_HERE / name).read_bytes() for name in ("world.py", "modules.py")}
    return _stored(_bare_sources({**files, **own}))


def _stored(files: Mapping[str, bytes]) -> bytes:
    """Return an archive that is not compressed, so that gzip finds what files have in common."""
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, content in sorted(files.items()):
            information = zipfile.ZipInfo(name)  # of 1980: the same sources make the same page
            archive.writestr(information, content)
    return result.getvalue()


def _bare(source: bytes) -> str:
    """Return a module without docstrings, and without comments but those at its top, which name its authors."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # of a Python that is newer than this one
        return source.decode()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [*_without_texts(body)] or [ast.Pass()]  # type: ignore[attr-defined]
    lines = source.decode().splitlines(keepends=True)
    return "".join(takewhile(lambda line: line.startswith("#"), lines)) + ast.unparse(ast.fix_missing_locations(tree))


def _without_texts(statements: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    for each in statements:
        is_text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and type(each.value.value) is str
        if not is_text:
            yield each


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(f"{folder}/index.html: {build(folder):,} bytes", file=sys.stderr)
