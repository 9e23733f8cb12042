"""`./dev deb`: build covey_VERSION_all.deb from the tree. Needs dpkg-deb, no root. ADR 13 says why.

What goes where: the program into the private folder /usr/lib/covey, with the packages that Debian lacks or has too
old; the client of the local API among the machine's Python modules; the rest where Debian looks for it.
What is drawn from the program (manual, completions) is drawn now.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import tomllib
from email.utils import formatdate
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from covey.app import shipped_files
from covey.cli.completions import SHELLS
from covey.cli.manual import manual

_TREE = Path(__file__).parents[1]
_HERE = Path(__file__).parent
_MAINTAINER = "The maintainers of Covey <maintainers@covey.invalid>"
_PACKAGES = ("agent/covey", "firmware_bridge/covey_boards")
CARRIED = {
    "mnemonic": "mnemonic",
    "mpremote": "mpremote",
    "paho-mqtt": "paho",
    "segno": "segno",
    "spake2": "spake2",
}
"""Distribution and import package of what Debian 12 lacks or has too old; all of it is pure Python."""

CLIENT = (
    *("__init__.py", "client.py", "client_async.py", "client_calls.py", "client_connection.py", "client_content.py"),
    *("errors.py", "py.typed"),
)
"""What of `covey` every program on the machine may import. It asks for the standard library alone."""

_PUBLIC = "usr/lib/python3/dist-packages/covey"
_SHARED = "usr/share/covey"
_UNITS = (
    "covey.service",
    "covey-collector.service",
    "covey-alert.service",
    "covey-door.service",
    "covey-relay.service",
    "covey-action.socket",
    "covey-action@.service",
)
_BOARD_RULES = "99-covey-boards.rules"
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/covey",
    "fish": "usr/share/fish/vendor_completions.d/covey.fish",
    "zsh": "usr/share/zsh/vendor-completions/_covey",
}
_NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", "files", "test", "tests", _BOARD_RULES)


def main() -> None:
    """Build the package and print where it is."""
    parser = argparse.ArgumentParser(prog="./dev deb", description="Build the Debian package from the tree.")
    parser.add_argument("--output", metavar="DIR", type=Path, default=_TREE / "build", help="default: build")
    parser.add_argument("--version", default=tree_version(), help="default: the version in pyproject.toml")
    options = parser.parse_args()
    print(build(options.output, options.version))


def build(output: Path, version: str) -> Path:
    """Build the package into a folder, under a version, and return its path. The same tree gives the same bytes."""
    output.mkdir(parents=True, exist_ok=True)
    package = output / f"covey_{version}_all.deb"
    born = tree_time()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        _program(root, version)
        _machine(root)
        _words(root, version, born)
        _control(root, version)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(package)],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(born)},
        )
    return package


def tree_version() -> str:
    return str(tomllib.loads((_TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def tree_time() -> int:
    """Return the time of the tree: as the environment says, of the last commit, or of its description."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    said = subprocess.run(
        ["git", "-C", str(_TREE), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False
    )
    return int(said.stdout) if said.returncode == 0 else int((_TREE / "pyproject.toml").stat().st_mtime)


def _program(root: Path, version: str) -> None:
    private = root / "usr/lib/covey"
    for name in _PACKAGES:
        shutil.copytree(_TREE / name, private / Path(name).name, ignore=_NOT_SHIPPED)
    for name, package in CARRIED.items():
        found = distribution(name)
        shutil.copytree(Path(str(found.locate_file(package))), private / package, ignore=_NOT_SHIPPED)
        _metadata(private, name, found.version)
    for module in private.rglob("*.py"):  # a module is no program, whatever its first line says
        content = module.read_bytes()
        if content.startswith(b"#!"):
            module.write_bytes(content.partition(b"\n")[2])
    _metadata(private, "covey", version)
    for name in CLIENT:
        _install(_TREE / "agent/covey" / name, root / _PUBLIC / name)
    _install(_HERE / "migrate", private / "migrate", 0o755)
    _install(_HERE / "launcher", root / "usr/bin/covey", 0o755)
    _install(_HERE / "covey.rtupdate", root / "usr/share/python3/runtime.d/covey.rtupdate", 0o755)


def _metadata(private: Path, name: str, version: str) -> None:
    """Say which version lies here, where importlib.metadata looks."""
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    _write(private / f"{name.replace('-', '_')}-{version}.dist-info/METADATA", text.encode())


def _machine(root: Path) -> None:
    """Units, user, folders, settings, and what brokers are configured from."""
    units = _TREE / "agent/systemd"
    for unit in _UNITS:
        _install(units / unit, root / "usr/lib/systemd/system" / unit)
    _install(units / "covey.sysusers", root / "usr/lib/sysusers.d/covey.conf")
    _install(_TREE / f"firmware_bridge/covey_boards/{_BOARD_RULES}", root / "usr/lib/udev/rules.d" / _BOARD_RULES)
    _install(_HERE / "covey.preset", root / "usr/lib/systemd/system-preset/80-covey.preset")
    _install(_HERE / "config.toml", root / "etc/covey/config.toml")
    (root / "etc/covey/conf.d").mkdir()
    for name in shipped_files.names():
        content = shipped_files.read(name).encode()
        _write(root / _SHARED / name, content, 0o755 if content.startswith(b"#!") else 0o644)
    (root / "usr/lib/covey/covey/files").symlink_to("../../../share/covey")


def _words(root: Path, version: str, born: int) -> None:
    """The manual, completions, and documents."""
    _write(root / "usr/share/man/man1/covey.1.gz", _gzipped(manual().encode()))
    for shell, place in _COMPLETIONS.items():
        _write(root / place, SHELLS[shell]().encode())
    documents = root / "usr/share/doc/covey"
    for path in sorted((_TREE / "docs").rglob("*")):
        if path.is_file() and path.suffix in {".md", ".json"} and "adr" not in path.parts:
            _install(path, documents / path.relative_to(_TREE / "docs"))
    _install(_HERE / "copyright", documents / "copyright")
    _write(documents / "CHANGELOG.md.gz", _gzipped((_TREE / "CHANGELOG.md").read_bytes()))
    entry = f"covey ({version}) stable; urgency=medium\n\n  * CHANGELOG.md.gz tells.\n\n"
    entry += f" -- {_MAINTAINER}  {formatdate(born)}\n"
    _write(documents / "changelog.gz", _gzipped(entry.encode()))


def _control(root: Path, version: str) -> None:
    installed_kib = sum(-(-path.stat().st_size // 1024) if path.is_file() else 1 for path in root.rglob("*"))
    control = root / "DEBIAN"
    text = (_HERE / "control").read_text(encoding="utf-8")
    fields = {"version": version, "maintainer": _MAINTAINER, "installed_kib": installed_kib}
    _write(control / "control", text.format(**fields).encode())
    _write(control / "conffiles", b"/etc/covey/config.toml\n")
    for script in ("postinst", "prerm", "postrm"):
        _install(_HERE / script, control / script, 0o755)
    files = sorted(path for path in root.rglob("*") if path.is_file() and control not in path.parents)
    sums = [f"{_md5(path)}  {path.relative_to(root)}\n" for path in files]
    _write(control / "md5sums", "".join(sums).encode())
    for path in root.rglob("*"):
        if path.is_symlink():
            continue
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _md5(path: Path) -> str:
    """Return what dpkg --verify compares; it guards against bad disks, not against people."""
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _install(source: Path, path: Path, mode: int = 0o644) -> None:
    _write(path, source.read_bytes(), mode)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


if __name__ == "__main__":
    main()
