"""`./dev release`: all files of a release, built from the tree into one folder.

The wheel and the source archive, the Debian package, the OCI image, a compose file for a hub, the Home Assistant
add-on, a software bill of materials (CycloneDX 1.5, JSON) and SHA256SUMS. All files have the same bytes whenever they
are built from the same tree and the same Debian packages, as `--check` shows: it builds them twice.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deb.__main__ import CARRIED, build, tree_time, tree_version
from deb.add_on import build_add_on
from deb.image import PACKAGE_LIST, build_image, packed_layers

_TREE = Path(__file__).parents[1]
_BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
_NOT_BUILT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".cache", ".hypothesis", "*.egg-info", "build", "dist", "__pycache__"
)


def main() -> int:
    """Build a release and print its files."""
    parser = argparse.ArgumentParser(prog="./dev release", description="Build all files of a release from the tree.")
    parser.add_argument(
        "--output", metavar="DIR", type=Path, default=_TREE / "build/release", help="default: build/release"
    )
    parser.add_argument("--check", action="store_true", help="build everything twice, and fail if the bytes differ")
    options = parser.parse_args()
    build_release(options.output)
    for line in (options.output / "SHA256SUMS").read_text().splitlines():
        print(line)
    if not options.check:
        return 0
    with TemporaryDirectory(prefix="covey-release-") as folder:
        build_release(Path(folder))
        differ = [
            each.name
            for each in sorted(options.output.iterdir())
            if each.read_bytes() != (Path(folder) / each.name).read_bytes()
        ]
    print(f"error: built twice, and not the same: {', '.join(differ)}" if differ else "built twice: the same bytes")
    return 1 if differ else 0


def build_release(output: Path) -> None:
    """Build all files of a release into a folder, whose earlier content goes.

    Raises:
        subprocess.CalledProcessError: a builder failed, and has said why.
    """
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    version = tree_version()
    build_python(output)
    build(output, version)
    image = build_image(output)
    build_add_on(output, image)
    compose = (Path(__file__).parent / "compose.yaml").read_text(encoding="utf-8")
    (output / "compose.yaml").write_text(compose.format(version=version), encoding="utf-8")
    (output / f"covey-{version}.cdx.json").write_text(bill_of_materials(image), encoding="utf-8")
    sums = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}" for each in sorted(output.iterdir())]
    (output / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def build_python(output: Path) -> None:
    """Build the source archive, and from it the wheel."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(tree_time())}

    def run(tree: Path, what: str) -> str:
        words = [sys.executable, "-c", _BUILD, what, str(output)]
        done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            done.check_returncode()
        return done.stdout.split()[-1]

    with TemporaryDirectory(prefix="covey-wheel-") as folder:
        tree = Path(folder, "tree")
        shutil.copytree(_TREE, tree, symlinks=True, ignore=_NOT_BUILT)
        sdist = output / run(tree, "build_sdist")
        with tarfile.open(sdist) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # the Python of Debian 12 has none
            archive.extractall(folder)  # noqa: S202 - written a moment ago
        _repack(sdist)
        run(Path(folder, sdist.name.removesuffix(".tar.gz")), "build_wheel")


def _repack(archive: Path) -> None:
    """Rewrite a source archive with the tree's time and no owner: setuptools writes the current ones."""
    written, time = BytesIO(), tree_time()
    with tarfile.open(archive) as old, tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as new:
        for entry in sorted(old.getmembers(), key=lambda each: each.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = (
                time,
                0,
                0,
                "",
                "",
                {},
            )
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    archive.write_bytes(gzip.compress(written.getvalue(), 9, mtime=0))


# -- the bill of materials --------------------------------------------------------------------------------------------


def bill_of_materials(image: Path) -> str:
    """Return what a release consists of: the wheel's dependencies, what the packages carry, and Debian's packages."""
    version = tree_version()
    components = sorted(_unique(_components(image)), key=lambda each: str(each["bom-ref"]))
    seen = hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.UUID(seen[:32])}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(tree_time(), UTC).isoformat(),
            "component": _component("application", "covey", version, f"pkg:pypi/covey@{version}", "Apache-2.0"),
        },
        "components": components,
    }
    return json.dumps(bill, indent=1, sort_keys=True) + "\n"


def _components(image: Path) -> Iterator[dict[str, Any]]:
    project = tomllib.loads((_TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        name = re.split(r"[^A-Za-z0-9._-]", requirement)[0]
        yield _component("library", name, "", f"pkg:pypi/{name.lower()}", "", range=requirement[len(name) :].strip())
    for name in CARRIED:
        found = distribution(name)
        licence = str(found.metadata["License-Expression"]) if "License-Expression" in found.metadata else ""
        yield _component("library", name, found.version, f"pkg:pypi/{name.lower()}@{found.version}", licence)
    for package in debian_packages(image):
        name, version, architecture = package["Package"], package["Version"], package["Architecture"]
        where = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
        yield _component("library", name, version, where, "")


def _component(kind: str, name: str, version: str, where: str, licence: str, **more: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": kind, "bom-ref": where, "name": name, "purl": where}
    if version:
        found["version"] = version
    if licence:
        found["licenses"] = [{"expression": licence}]
    if more:
        found["properties"] = [{"name": f"covey:{key}", "value": value} for key, value in more.items()]
    return found


def _unique(components: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({each["bom-ref"]: each for each in components}.values())


def debian_packages(image: Path) -> Iterator[dict[str, str]]:
    """Yield what each layer of an image says of Debian's packages in it."""
    for packed in packed_layers(image).values():
        with tarfile.open(fileobj=BytesIO(gzip.decompress(packed))) as layer:
            listed = layer.extractfile(PACKAGE_LIST)
            assert listed is not None
            yield from json.load(listed)


if __name__ == "__main__":
    sys.exit(main())
