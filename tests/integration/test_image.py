"""The OCI image: its form, its size, and the programs in it, run in a chroot as the image's user."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from deb.__main__ import tree_time
from deb.image import PACKAGE_LIST, build_image, layer_of, unpack
from deb.release import bill_of_materials, build_python
from tests.integration.debian_root import need
from tests.waiting import GUARD_S

pytestmark = pytest.mark.processes

_MOST_BYTES = 80_000_000
_ELF_MACHINES = {"amd64": 62, "arm64": 183}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(None if shutil.which("apt-get") and shutil.which("dpkg-deb") else "no apt-get here")
    return build_image(tmp_path_factory.mktemp("image"))


class _Opened:
    """An image as its index describes it; each blob is what its digest says."""

    def __init__(self, image: Path) -> None:
        self._archive = tarfile.open(image)  # noqa: SIM115 - as long as the test

    def json(self, name: str) -> Any:
        return json.loads(self._file(name))

    def blob(self, descriptor: dict[str, Any]) -> bytes:
        kind, _, digest = descriptor["digest"].partition(":")
        content = self._file(f"blobs/{kind}/{digest}")
        assert (len(content), hashlib.sha256(content).hexdigest()) == (descriptor["size"], digest)
        return content

    def layers(self) -> dict[str, bytes]:
        """Return the only layer of each architecture, unpacked."""
        found = {}
        for each in self.json("index.json")["manifests"]:
            manifest = json.loads(self.blob(each))
            config = json.loads(self.blob(manifest["config"]))
            [layer] = manifest["layers"]
            content = gzip.decompress(self.blob(layer))
            assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
            assert config["architecture"] == each["platform"]["architecture"]
            found[config["architecture"]] = content
        return found

    def _file(self, name: str) -> bytes:
        content = self._archive.extractfile(name)
        assert content is not None
        return content.read()


@pytest.fixture(scope="module")
def layers(image: Path) -> dict[str, bytes]:
    return _Opened(image).layers()


def test_an_image_for_each_architecture_in_the_oci_layout(image: Path, layers: dict[str, bytes]) -> None:
    opened = _Opened(image)
    assert opened.json("oci-layout") == {"imageLayoutVersion": "1.0.0"}
    assert layers.keys() == _ELF_MACHINES.keys()
    assert image.stat().st_size <= _MOST_BYTES
    for architecture, layer in layers.items():
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            program = archive.extractfile("usr/bin/python3.11")
            assert program is not None
            assert struct.unpack_from("<H", program.read(20), 18)[0] == _ELF_MACHINES[architecture]
            owners = {each.name: each.uid for each in archive if each.uid != 0}
            assert owners.keys() == {"run/covey", "var/lib/covey"}


def test_the_same_tree_gives_the_same_image_and_wheel(layers: dict[str, bytes], tmp_path: Path) -> None:
    assert layer_of(unpack(tmp_path, "amd64"), tree_time()) == layers["amd64"]
    for folder in ("once", "twice"):
        (tmp_path / folder).mkdir()
        build_python(tmp_path / folder)
    once, twice = ({each.name: each.read_bytes() for each in (tmp_path / name).iterdir()} for name in ("once", "twice"))
    assert sorted(name.rpartition(".")[2] for name in once) == ["gz", "whl"]
    assert once == twice


def test_the_programs_run_as_the_images_user(layers: dict[str, bytes], tmp_path: Path) -> None:
    need(None if os.geteuid() == 0 else "chroot needs root")
    root = tmp_path / "root"
    with tarfile.open(fileobj=io.BytesIO(layers["amd64"])) as archive:
        archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        archive.extractall(root)

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            ["chroot", "--userspec=64646:64646", str(root), *words],
            env={"PATH": "/usr/sbin:/usr/bin", "COVEY_STATE": "/var/lib/covey", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    assert run("/usr/bin/covey", "--version").startswith("covey ")
    run("/usr/bin/covey", "init", "--label", "hub")
    assert json.loads(run("/usr/bin/covey", "key", "show", "--json"))["device"]
    assert "hub" in run("/usr/bin/covey", "status")
    assert run("/usr/sbin/mosquitto", "-h", code=3).startswith("mosquitto version")
    certificates = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(run("/usr/bin/python3", "-I", "-c", certificates)) > 100
    assert json.loads((root / PACKAGE_LIST).read_text())


def test_the_bill_of_materials_names_what_is_in_the_image(image: Path) -> None:
    bill = json.loads(bill_of_materials(image))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    places = [each["purl"] for each in bill["components"]]
    assert len(places) == len(set(places))
    assert any(each.startswith("pkg:deb/debian/mosquitto@2.") and each.endswith("arch=arm64") for each in places)
    assert any(each.startswith("pkg:pypi/paho-mqtt@") for each in places)
    assert "pkg:pypi/pynacl" in places
    assert bill_of_materials(image) == json.dumps(bill, indent=1, sort_keys=True) + "\n"
