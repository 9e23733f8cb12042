"""The OCI image: its form, its size, and the programs in it, run in a chroot as the image's user; and the add-on for
Home Assistant, which is made of it: its form, and its life on a machine with a Supervisor and a broker."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import struct
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import deb.image
from deb.__main__ import tree_time, tree_version
from deb.add_on import build_add_on
from deb.image import ARCHITECTURES, PACKAGE_LIST, build_image, layer_of, unpack
from deb.release import bill_of_materials, build_python
from demo.device import COVEY, Device
from tests.house_api import TOKEN
from tests.integration.add_on_machine import SUPERVISOR, AddOn, Supervisor, in_own_network, own_network_missing
from tests.integration.debian_root import need
from tests.proof import begins
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.processes

_MOST_BYTES = 80_000_000
_ELF_MACHINES = {"amd64": 62, "arm64": 183}
_SUPERVISORS = {"amd64": "amd64", "arm64": "aarch64"}
"""What the Supervisor calls an architecture."""
_OURS = "amd64"


@pytest.fixture(scope="module", autouse=True)
def _fetched_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fetch the packages of an architecture once."""
    folder, fetch = tmp_path_factory.mktemp("packages"), deb.image._fetch

    @cache
    def fetched(architecture: str, suite: str) -> list[Path]:
        return fetch(folder / f"{architecture}-{suite}", architecture, suite)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deb.image, "_fetch", lambda _, architecture, suite: fetched(architecture, suite))
        yield


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of this architecture alone: to fetch, unpack and compress the other takes as long once more."""
    return _built(tmp_path_factory.mktemp("image"), _OURS)


def _built(folder: Path, *architectures: str) -> Path:
    need(None if shutil.which("apt-get") and shutil.which("dpkg-deb") else "no apt-get here")
    return build_image(folder, architectures)


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


def test_an_image_in_the_oci_layout(image: Path, layers: dict[str, bytes]) -> None:
    _holds(image, layers, [_OURS])


@pytest.mark.proof
def test_an_image_and_an_add_on_for_each_architecture(tmp_path: Path) -> None:
    begins()
    assert set(ARCHITECTURES) == _ELF_MACHINES.keys()
    image = _built(tmp_path, *ARCHITECTURES)
    layers = _Opened(image).layers()
    _holds(image, layers, ARCHITECTURES)
    _says_what_is_in(image, *ARCHITECTURES)
    _has_the_layers(_files_of(build_add_on(tmp_path, image)), layers)


def _holds(image: Path, layers: dict[str, bytes], architectures: Iterable[str]) -> None:
    """Check the form of an image, and that each layer is of its architecture."""
    assert _Opened(image).json("oci-layout") == {"imageLayoutVersion": "1.0.0"}
    assert [*layers] == [*architectures]
    assert image.stat().st_size <= _MOST_BYTES / len(_ELF_MACHINES) * len(layers)
    for architecture, layer in layers.items():
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            program = archive.extractfile("usr/bin/python3.11")
            assert program is not None
            assert struct.unpack_from("<H", program.read(20), 18)[0] == _ELF_MACHINES[architecture]
            owners = {each.name: each.uid for each in archive if each.uid != 0}
            assert owners.keys() == {"run/covey", "var/lib/covey"}


def test_the_same_tree_gives_the_same_image_and_wheel(layers: dict[str, bytes], archives: Path, tmp_path: Path) -> None:
    assert layer_of(unpack(tmp_path, _OURS), tree_time()) == layers[_OURS]
    (tmp_path / "twice").mkdir()
    build_python(tmp_path / "twice")
    once, twice = (
        {each.name: each.read_bytes() for each in folder.iterdir()} for folder in (archives, tmp_path / "twice")
    )
    assert sorted(name.rpartition(".")[2] for name in once) == ["gz", "whl"]
    assert once == twice


def test_the_programs_run_as_the_images_user(layers: dict[str, bytes], tmp_path: Path) -> None:
    need(None if os.geteuid() == 0 else "chroot needs root")
    root = tmp_path / "root"
    with tarfile.open(fileobj=io.BytesIO(layers[_OURS])) as archive:
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


@pytest.mark.proof
def test_the_package_runs_with_the_packages_of_debian_13(tmp_path: Path) -> None:
    need(None if os.geteuid() == 0 else "chroot needs root")
    begins()
    root = unpack(tmp_path, "amd64", "trixie")
    state = root / "var/lib/covey"
    shutil.chown(state, 64_646, 64_646)
    state.chmod(0o700)
    found = {}
    for words in (("init", "--label", "hub"), ("group", "create"), ("status", "--json"), ("check",)):
        found[words[0]] = subprocess.run(
            ["chroot", "--userspec=64646:64646", str(root), "/usr/bin/covey", *words],
            env={"PATH": "/usr/sbin:/usr/bin", "COVEY_STATE": "/var/lib/covey", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
    assert found["init"].returncode == found["group"].returncode == 0, found
    assert json.loads(found["status"].stdout)["label"] == "hub", found
    assert "Python 3.13" in found["check"].stdout


def test_the_bill_of_materials_names_what_is_in_the_image(image: Path) -> None:
    _says_what_is_in(image, _OURS)


def _says_what_is_in(image: Path, *architectures: str) -> None:
    bill = json.loads(bill_of_materials(image))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    places = [each["purl"] for each in bill["components"]]
    assert len(places) == len(set(places))
    brokers = [each for each in places if each.startswith("pkg:deb/debian/mosquitto@2.")]
    assert sorted(each.rpartition("arch=")[2] for each in brokers) == sorted(architectures)
    assert any(each.startswith("pkg:pypi/paho-mqtt@") for each in places)
    assert "pkg:pypi/pynacl" in places
    assert bill_of_materials(image) == json.dumps(bill, indent=1, sort_keys=True) + "\n"


# -- the Home Assistant add-on ----------------------------------------------------------------------------------------

_OPTIONS: dict[str, Any] = {
    "hosts": ["localhost"],
    "label": "hub",
    "forward": True,
    "history": True,
    "read_only": False,
    "settings": [{"name": "alerts.silent_minutes", "value": "30"}],
}

_ELEMENT = r"(bool|str(\(\d*,\d*\))?|int(\(-?\d*,-?\d*\))?|list\(.+\))\??"
"""What an option may be, of what the Supervisor knows (supervisor/apps/options.py)."""

_BOOLEANS = ("init", "stdin", "ingress", "panel_admin", "homeassistant_api")
_KEYS = {
    **dict.fromkeys(_BOOLEANS, "True|False"),
    "name": ".+",
    "version": r"\d+\.\d+\.\d+",
    "slug": "[-_.A-Za-z0-9]+",
    "description": ".+",
    "url": "https://[^ ]+",
    "arch": r"\['amd64', 'aarch64'\]",
    "startup": "initialize|system|services|application|once",
    "timeout": "[1-9][0-9]|[12][0-9][0-9]|300",
    "backup": "hot|cold",
    "backup_exclude": r"\['.+'\]",
    "ingress_port": "[1-9][0-9]{0,4}",
    "panel_icon": "mdi:[a-z-]+",
    "panel_title": ".+",
    "services": r"\['mqtt:want'\]",
    "ports": r"\{'\d+/(tcp|udp)': \d+\}",
    "watchdog": r"(https?|\[PROTO:\w+\]|tcp)://\[HOST\]:(\[PORT:\d+\]|\d+).*",
    "options": r"\{.*\}",
    "schema": r"\{.*\}",
}
"""The keys that the add-on has, as the Supervisor checks them (supervisor/apps/validate.py): it drops unknown ones."""


@pytest.fixture(scope="module")
def add_on_files(image: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The add-on's archive, unpacked."""
    return _files_of(build_add_on(tmp_path_factory.mktemp("add-on"), image))


def _files_of(add_on: Path) -> dict[str, bytes]:
    with tarfile.open(add_on) as archive:
        return {each.name: _content(archive, each) for each in archive if each.isfile()}


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(entry)
    assert content is not None
    return content.read()


def _elements(schema: object) -> Iterator[str]:
    if isinstance(schema, str):
        yield schema
    else:
        for each in schema.values() if isinstance(schema, dict) else schema:  # type: ignore[attr-defined]
            yield from _elements(each)


def test_the_add_on_is_what_the_supervisor_takes(add_on_files: dict[str, bytes], layers: dict[str, bytes]) -> None:
    files = {name.removeprefix("covey-home-assistant/"): content for name, content in add_on_files.items()}
    assert yaml.safe_load(files["repository.yaml"]).keys() == {"name", "url", "maintainer"}
    config = yaml.safe_load(files["covey/config.yaml"])
    assert config["version"] == tree_version()
    assert not [key for key, value in config.items() if not re.fullmatch(_KEYS[key], str(value), re.DOTALL)]
    assert config["options"].keys() == config["schema"].keys()
    assert all(re.fullmatch(_ELEMENT, each) for each in _elements(config["schema"]))
    translated = yaml.safe_load(files["covey/translations/en.yaml"])
    assert translated["configuration"].keys() == config["schema"].keys()
    assert translated["network"].keys() == config["ports"].keys()
    _has_the_layers(add_on_files, layers)
    assert files["covey/icon.png"][16:24] == struct.pack(">II", 128, 128)
    documentation = files["covey/DOCS.md"].decode()
    assert "](" not in re.sub(r"\]\(https?:", "", documentation), "Home Assistant has none of our pages"
    assert all(f"`{option}`" in documentation for option in config["options"])
    assert files["covey/CHANGELOG.md"].startswith(b"# Changelog")


def _has_the_layers(add_on_files: dict[str, bytes], layers: dict[str, bytes]) -> None:
    names = {f"covey-home-assistant/covey/root-{_SUPERVISORS[each]}.tar.gz": layers[each] for each in layers}
    packed = {name: content for name, content in add_on_files.items() if name.endswith(".tar.gz")}
    assert {name: gzip.decompress(content) for name, content in packed.items()} == names


@pytest.mark.broker
@pytest.mark.slow
def test_the_add_on_pairs_a_device_and_shows_its_readings_in_home_assistant(
    add_on_files: dict[str, bytes], tmp_path: Path
) -> None:
    need(own_network_missing())
    in_own_network(partial(_use_add_on, add_on_files, tmp_path))


def _use_add_on(files: dict[str, bytes], folder: Path) -> None:
    own = {name.removeprefix("covey-home-assistant/covey/"): content for name, content in files.items()}
    machine, add_on, shed = Supervisor(folder), AddOn(folder, own), Device(folder, "shed")
    try:
        add_on.start(_OPTIONS)
        add_on.said("serving the relay mqtts://localhost:8893")
        wait_until(lambda: _page(SUPERVISOR) == 200, "the page is served")
        assert _page("127.0.0.1") is None, "nobody but the Supervisor sees the page"
        _admit(add_on, shed)
        shed.start("run", "--no-sensors")
        wait_until(lambda: _publishes(shed), "the agent takes a reading")
        wait_until(lambda: _shown(machine), "Home Assistant has the reading")
        add_on.covey("door", "test")
        assert set(machine.house.paths) == {"/core/websocket"}, "late readings go by the Supervisor"
        assert add_on.covey("config", "get", "alerts.silent_minutes").startswith("30")
        assert "covey-sign-" in add_on.covey("config", "get", "operations.operators"), "the hub may order"
        add_on.send("devices")
        add_on.said("unknown command; known are: invite, cancel, check, fleet")
        assert add_on.stop() == 0
        _holds_files_alone_and_no_secret_of_home_assistant(add_on, machine)
        _restarts_with_other_options(add_on, machine)
    finally:
        shed.end()
        add_on.kill()
        machine.close()


def _page(source: str) -> int | None:
    """Return how the page answers a client with this address."""
    connection = http.client.HTTPConnection(SUPERVISOR, 8099, timeout=GUARD_S, source_address=(source, 0))
    try:
        connection.request("GET", "/fleet", headers={"Host": "home.example:8123"})
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def _admit(add_on: AddOn, device: Device) -> None:
    """Pair as the how-to says."""
    add_on.send("invite")
    code = add_on.said(r"code: (\S+)")
    words = (*COVEY, "join", "--state", str(device.state), code, "--relay", "mqtts://localhost:8893", "--obey")
    with subprocess.Popen(
        [*words, "--label", "shed"], stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as join:
        assert join.stderr is not None
        line = next(each for each in join.stderr if "verifier words" in each)
        assert add_on.said("verifier words: +(.+)") == line.partition(":")[2].strip()
        add_on.send("yes")
        _, said = join.communicate(timeout=GUARD_S)
    assert join.returncode == 0, said
    add_on.said("joined: .*shed")


def _publishes(device: Device) -> bool:
    feed = '{"n": "air", "u": "Cel", "v": 21.5}\n'
    return device.covey("publish", "-", feed=feed).returncode == 0


def _shown(machine: Supervisor) -> bool:
    retained = machine.broker.retained()
    return any(name.endswith("/config") for name in retained) and any(b"21.5" in each for each in retained.values())


def _holds_files_alone_and_no_secret_of_home_assistant(add_on: AddOn, machine: Supervisor) -> None:
    left_out = yaml.safe_load(add_on.files["config.yaml"])["backup_exclude"]
    for path in (add_on.root / "data").rglob("*"):
        is_left_out = any(path.match(each) for each in left_out)
        assert path.is_dir() or path.is_file() or is_left_out, f"{path}: a backup takes files"
        if path.is_file():
            content = path.read_bytes()
            assert TOKEN.encode() not in content
            assert machine.broker.password.encode() not in content


def _restarts_with_other_options(add_on: AddOn, machine: Supervisor) -> None:
    machine.port = 18893
    add_on.start({**_OPTIONS, "hosts": ["relay.test", "localhost"], "forward": False, "settings": []})
    add_on.said("devices cannot connect: .* enter 8893")
    add_on.said("serving the relay mqtts://relay.test:8893")
    add_on.said("relay: connected")
    assert json.loads(add_on.covey("door", "list", "--json") or "[]") == []
    assert "30" not in add_on.covey("config", "get", "alerts.silent_minutes")
    assert "shed" in add_on.covey("group", "show")
    assert add_on.stop() == 0
    for wrong in ({"name": "alerts.silent_minute", "value": "1"}, {"name": "alerts.silent_minutes", "value": "x"}):
        add_on.start({**_OPTIONS, "settings": [wrong]})
        assert add_on.ended() == 78
        assert "hint: " in add_on.said("error: .*alerts.silent_minute(?s:.*)")
