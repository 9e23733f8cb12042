"""`./dev image`: an OCI image of the agent, the hub and the relay, from the tree and Debian's packages.

It needs apt and dpkg-deb, and neither a daemon nor root: packages are unpacked, and their scripts are not run. apt
verifies each package by Debian's keys. The same tree and the same versions of the packages give the same bytes:
files are ordered and owned by root, times are those of the tree, and documentation is left out.

The file holds an image index of both architectures in the OCI layout (image-spec 1.1), as `docker load`, `podman load`
and `skopeo copy oci-archive:` read it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deb.__main__ import build, tree_time, tree_version

ARCHITECTURES = ("amd64", "arm64")
SUITE = "bookworm"
_MIRROR, _SECURITY = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PACKAGES = (
    *(
        "python3",
        "python3-cbor2",
        "python3-cffi-backend",
        "python3-cryptography",
        "python3-nacl",
        "python3-psutil",
        "python3-serial",
    ),
    *("python3-tomlkit", "python3-websocket", "mosquitto", "ca-certificates", "netbase", "tzdata"),
)
_NOT_UNPACKED = {
    "perl-base",
    "dpkg",
    "tar",
    "debconf",
    "adduser",
    "passwd",
    "systemd",
    "init-system-helpers",
    "lsb-base",
}
"""What only maintainer scripts need, which do not run."""

_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/bug",
)
PACKAGE_LIST = "usr/share/covey/packages.json"
"""In an image: Debian's packages that were unpacked into it."""

_USER = 64_646
_STATE, _RUN = "var/lib/covey", "run/covey"
_LABELS = {
    "org.opencontainers.image.title": "covey",
    "org.opencontainers.image.description": "End-to-end encrypted sync and telemetry for fleets of small devices",
    "org.opencontainers.image.licenses": "Apache-2.0",
}


def main() -> None:
    """Build the image and print where it is."""
    parser = argparse.ArgumentParser(prog="./dev image", description="Build the OCI image from the tree.")
    parser.add_argument("--output", metavar="DIR", type=Path, default=Path("build"), help="default: build")
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append", help="one architecture alone; default: both")
    options = parser.parse_args()
    print(build_image(options.output, options.arch or ARCHITECTURES))


def build_image(output: Path, architectures: Iterable[str] = ARCHITECTURES) -> Path:
    """Build the image into a folder and return its path.

    Raises:
        subprocess.CalledProcessError: apt could not fetch or verify the packages, and has said why.
    """
    version = tree_version()
    output.mkdir(parents=True, exist_ok=True)
    blobs: dict[str, bytes] = {}
    manifests = []
    for architecture in architectures:
        with TemporaryDirectory(prefix="covey-image-") as folder:
            root = unpack(Path(folder), architecture)
            manifests.append(_manifest(blobs, layer_of(root, tree_time()), architecture, version))
    index = {"schemaVersion": 2, "mediaType": _type("index"), "manifests": manifests}
    image = output / f"covey-{version}-oci.tar"
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    files |= {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    image.write_bytes(archive_of(files))
    return image


def packed_layers(image: Path) -> dict[str, bytes]:
    """Return the layer of each architecture of an image, as it is in there: packed by gzip."""
    with tarfile.open(image) as archive:

        def content(digest: str) -> bytes:
            found = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert found is not None
            return found.read()

        listed = archive.extractfile("index.json")
        assert listed is not None
        layers = {}
        for each in json.load(listed)["manifests"]:
            [layer] = json.loads(content(each["digest"]))["layers"]
            layers[str(each["platform"]["architecture"])] = content(layer["digest"])
    return layers


def unpack(folder: Path, architecture: str, suite: str = SUITE) -> Path:
    """Unpack packages of a suite of Debian and Covey's own into a root, and return it; `PACKAGE_LIST` names them."""
    root = folder / "root"
    for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "tmp", "var/tmp", _RUN, _STATE):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    packages = _fetch(folder / "apt", architecture, suite)
    for package in (*packages, build(folder, tree_version())):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as content:
            options = ["--keep-directory-symlink", "--no-same-owner", "--no-same-permissions"]
            subprocess.run(["tar", "--extract", *options, "--directory", str(root)], stdin=content.stdout, check=True)
        if content.returncode != 0:
            raise subprocess.CalledProcessError(content.returncode, content.args)
    (root / PACKAGE_LIST).parent.mkdir(parents=True, exist_ok=True)
    (root / PACKAGE_LIST).write_bytes(_json([_identity(each) for each in packages]))
    for name in _LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(each.read_bytes() for each in certificates))
    users = f"root:x:0:0:root:/root:/usr/sbin/nologin\ncovey:x:{_USER}:{_USER}::/{_STATE}:/usr/sbin/nologin\n"
    (root / "etc/passwd").write_text(users)
    (root / "etc/group").write_text(f"root:x:0:\ncovey:x:{_USER}:\n")
    return root


def _identity(package: Path) -> dict[str, str]:
    """Return a package's name, version and architecture."""
    fields = ("Package", "Version", "Architecture")
    said = subprocess.run(["dpkg-deb", "--field", str(package), *fields], check=True, capture_output=True, text=True)
    return dict(sorted(line.split(": ", 1) for line in said.stdout.splitlines()))


def _fetch(folder: Path, architecture: str, suite: str) -> list[Path]:
    """Have apt fetch the packages of an architecture and what they depend on, apart from this machine's own."""
    for name in ("state/lists/partial", "cache/archives/partial", "etc"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    mirror = os.environ.get("DEBIAN_MIRROR", _MIRROR)
    security = os.environ.get("DEBIAN_SECURITY_MIRROR", _SECURITY)
    lines = ((mirror, suite), (mirror, f"{suite}-updates"), (security, f"{suite}-security"))
    sources = "".join(f"deb [signed-by={_KEYS}] {where} {name} main\n" for where, name in lines)
    (folder / "etc/sources.list").write_text(sources)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Dir::State": str(folder / "state"),
        "Dir::State::status": str(folder / "status"),
        "Dir::Cache": str(folder / "cache"),
        "Dir::Etc::sourcelist": str(folder / "etc/sources.list"),
        "Dir::Etc::sourceparts": "-",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "--quiet=2", "--yes", *(f"--option={name}={value}" for name, value in settings.items())]
    subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*apt, "--download-only", "install", *_PACKAGES], check=True, stdout=subprocess.DEVNULL)
    fetched = sorted((folder / "cache/archives").glob("*.deb"))
    return [each for each in fetched if each.name.partition("_")[0] not in _NOT_UNPACKED]


def layer_of(root: Path, time: int) -> bytes:
    """Return a root as a tar file whose bytes follow from its content."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            entry = archive.gettarinfo(str(path), name)
            entry.mtime, entry.uname, entry.gname = time, "", ""
            entry.uid = entry.gid = _USER if name in {_STATE, _RUN} else 0
            entry.mode = _mode(entry, name)
            if entry.isfile():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return written.getvalue()


def _mode(entry: tarfile.TarInfo, name: str) -> int:
    if name in {"tmp", "var/tmp"}:
        return 0o1777
    if name in {_STATE, _RUN}:
        return 0o700
    if entry.issym():
        return 0o777
    return 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644


def _manifest(blobs: dict[str, bytes], layer: bytes, architecture: str, version: str) -> dict[str, Any]:
    """Add an image of one layer to the blobs; return its descriptor."""
    created = datetime.fromtimestamp(tree_time(), UTC).isoformat()
    config = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": "covey",
            "Env": ["PATH=/usr/sbin:/usr/bin", "LANG=C.UTF-8", f"COVEY_STATE=/{_STATE}", "PYTHONDONTWRITEBYTECODE=1"],
            "Entrypoint": ["/usr/bin/covey"],
            "Cmd": ["run"],
            "Volumes": {f"/{_STATE}": {}},
            "WorkingDir": f"/{_STATE}",
            "StopSignal": "SIGTERM",
            "Labels": _LABELS | {"org.opencontainers.image.version": version},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "./dev image"}],
    }
    packed = gzip.compress(layer, 6, mtime=0)
    manifest = {
        "schemaVersion": 2,
        "mediaType": _type("manifest"),
        "config": _described(blobs, _json(config), "config"),
        "layers": [_described(blobs, packed, "layer.v1.tar+gzip", suffix="")],
    }
    return _described(blobs, _json(manifest), "manifest") | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {
            "org.opencontainers.image.ref.name": version,
            "io.containerd.image.name": f"docker.io/library/covey:{version}",  # what docker load calls it
        },
    }


def _described(blobs: dict[str, bytes], content: bytes, kind: str, suffix: str = ".v1+json") -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": _type(kind, suffix), "digest": f"sha256:{digest}", "size": len(content)}


def _type(kind: str, suffix: str = ".v1+json") -> str:
    return f"application/vnd.oci.image.{kind}{suffix}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def archive_of(files: dict[str, bytes]) -> bytes:
    """Return files as a tar file, whose bytes follow from their names and contents and the tree's time."""
    written, time = io.BytesIO(), tree_time()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in _with_folders(files):
            entry = tarfile.TarInfo(name)
            entry.mtime = time
            if name in files:
                entry.size, entry.mode = len(files[name]), 0o644
                archive.addfile(entry, io.BytesIO(files[name]))
            else:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
    return written.getvalue()


def _with_folders(files: Iterable[str]) -> Iterator[str]:
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    yield from sorted({*files, *folders})


if __name__ == "__main__":
    main()
