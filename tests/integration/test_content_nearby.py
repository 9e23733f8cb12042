"""Files from places nearby: a peer of the same network, while no relay is reached; an object store that is shared."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker_conf.mosquitto.broker import free_port
from tests.integration.gateway import Gateway
from tests.integration.s3_server import S3Server, s3_server  # noqa: F401 - a fixture
from tests.integration.test_first_minutes import Machine, machine, prefixes  # noqa: F401 - fixtures
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.broker

_SIZE = 3_000_000


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "model v2.bin"
    path.write_bytes(random.Random(2).randbytes(_SIZE))
    return path


@pytest.mark.slow
# accepts: 002.23, 003.71
def test_a_file_crosses_a_network_on_which_no_relay_is_left(
    prefixes: tuple[list[str], list[str]],  # noqa: F811
    machine: Callable[[str, Sequence[str]], Machine],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    original: Path,
    tmp_path: Path,
) -> None:
    """Two network namespaces with a cable; found by mDNS, asked for by HTTP ranges."""
    monkeypatch.setenv("COVEY_CONTENT_LAN", "true")
    hub, shed = machine("hub", prefixes[0]), machine("shed", prefixes[1])
    hub.begins("relay", "serve", "--label", "hub", "--port", str(free_port()))
    wait_until(lambda: "serving the relay" in hub.log.read_text(), "the relay is served")
    hub.begins("collect", "--new-group")
    wait_until(lambda: "relay: connected" in hub.log.read_text(), "the hub collects")
    invitation = hub.answers("invite", "--yes", "--no-wait", "--json")
    shed.begins("join", invitation["join"], "--run")
    hub_put = hub.answers("file", "put", str(original), "--json")
    assert hub_put["state"] == "here"
    wait_until(lambda: bool(shed.answers("file", "list", "--json")), "it is offered there")
    hub.end_first()
    target = tmp_path / "of shed"
    wait_until(lambda: bool(shed.answers("file", "get", original.name, "-o", str(target), "--json")), "it is fetched")
    assert target.read_bytes() == original.read_bytes()
    where = "192.168.77.1" if prefixes[0] else "127.0.0.1"
    assert f"bytes from {where}" in shed.log.read_text() or not prefixes[0]


@pytest.fixture
def pair(new_gateway: Callable[[str], Gateway]) -> tuple[Gateway, Gateway]:
    """Two devices of one group, whose agents do not run yet."""
    hub, shed = new_gateway("hub"), new_gateway("shed")
    hub.ok("group", "create")
    hub.start("run", "--no-sensors")
    hub.invite(shed)
    hub.kill()
    return hub, shed


def _by_store(pair: tuple[Gateway, Gateway], location: str, original: Path, target: Path) -> None:
    hub, shed = pair
    for each in pair:
        each.ok("config", "set", "content.store", location)
    hub.start("run", "--no-sensors")
    shed.start("run", "--no-sensors")
    put = hub.json("file", "put", str(original))
    wait_until(lambda: original.name in shed.ok("file", "list"), "it is offered there")
    wait_until(lambda: "is in the object store" in hub.log.read_text(), "it is in the store")
    hub.kill()
    shed.ok("file", "get", put["id"][:8], "-o", str(target))
    assert target.read_bytes() == original.read_bytes()
    assert "bytes from the object store" in shed.log.read_text()


def test_a_folder_that_members_share_brings_a_file_while_its_author_is_away(
    pair: tuple[Gateway, Gateway], original: Path, tmp_path: Path
) -> None:
    store = tmp_path / "shared"
    _by_store(pair, str(store), original, tmp_path / "got")

    def files() -> list[Path]:
        return [path for path in store.rglob("*") if path.is_file() and not path.name.startswith(".")]

    stored = files()
    assert len(stored) == 4, "three parts, and an index"
    assert not any(original.read_bytes()[:64] in path.read_bytes() for path in stored), "sealed"
    hub, shed = pair
    hub.start("run", "--no-sensors")
    hub.ok("file", "put", str(original), "--name", "damaged")
    wait_until(lambda: "damaged" in shed.ok("file", "list"), "it is offered there")
    wait_until(lambda: len(files()) == 8, "it is in the store")
    hub.kill()
    for path in {*files()} - {*stored}:
        path.write_bytes(bytes(path.stat().st_size))
    got = tmp_path / "got past the store"
    getting = shed.start_beside("file", "get", "damaged", "-o", str(got))
    complaint = "sent data that is not part of the file; the file is not requested there again"
    wait_until(lambda: complaint in shed.log.read_text(), "what is wrong there is said")
    hub.start("run", "--no-sensors")
    assert getting.wait(GUARD_S) == 0
    assert got.read_bytes() == original.read_bytes()
    assert shed.log.read_text().count(complaint) == 1


def test_an_object_store_brings_a_file_while_its_author_is_away(
    pair: tuple[Gateway, Gateway],
    original: Path,
    tmp_path: Path,
    s3_server: S3Server,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    _by_store(pair, s3_server.make_bucket("files"), original, tmp_path / "got")


@pytest.fixture
def site(new_gateway: Callable[[str], Gateway]) -> list[Gateway]:
    """Give an author and four devices of one network, which know each other's ports."""
    devices = [new_gateway(name) for name in ("hub", "one", "two", "three", "four")]
    devices[0].ok("group", "create")
    devices[0].start("run", "--no-sensors")
    ports = [free_port() for _ in devices[1:]]
    for each, port in zip(devices[1:], ports, strict=True):
        devices[0].invite(each)
        each.ok("config", "set", "content.lan", "true")
        each.ok("config", "set", "content.lan_listen", f"127.0.0.1:{port}")
        each.ok(
            "config", "set", "content.lan_peers", ",".join(f"127.0.0.1:{other}" for other in ports if other != port)
        )
        each.start("run", "--no-sensors")
    return devices


def test_of_many_that_want_a_file_at_once_one_asks_at_the_relay(site: list[Gateway], original: Path) -> None:
    hub, *others = site
    hub.ok("file", "put", str(original))
    for each in others:
        wait_until(lambda each=each: original.name in each.ok("file", "list"), "it is offered there")
    with ThreadPoolExecutor(len(others)) as at_once:
        ask = ("file", "fetch", original.name, "--wait", "0s")
        [*at_once.map(lambda each: each.fails(*ask, code=124), others)]
    for each in others:
        wait_until(lambda each=each: each.json("file", "list")[0]["state"] == "here", "it is here")
    by_relay = [each for each in others if "bytes from 127.0.0.1" not in each.log.read_text()]
    assert len(by_relay) == 1
    near = next(each for each in others if each not in by_relay)
    files = near.json("status")["content"]
    assert (files["here"], files["wanted"], files["wrong"], files["peers"]) == (1, 0, 0, len(others) - 1)
    assert "1 file here; 3 peers on this network" in near.ok("status")
    assert 'covey_content_files{state="here"} 1' in near.ok("metrics")
    assert f"covey_content_nearby_bytes_total {_SIZE + 16}" in near.ok("metrics")
    assert "1 file here" in near.covey("check", "--offline").stdout


def test_a_copy_that_the_disk_has_damaged_is_noticed_when_a_peer_asks_for_it(
    new_gateway: Callable[[str], Gateway], original: Path, tmp_path: Path
) -> None:
    hub, shed, barn = (new_gateway(name) for name in ("hub", "shed", "barn"))
    hub.ok("group", "create")
    hub.start("run", "--no-sensors")
    port = free_port()
    for each, setting in ((shed, ("lan_listen", f"127.0.0.1:{port}")), (barn, ("lan_peers", f"127.0.0.1:{port}"))):
        hub.invite(each)
        each.ok("config", "set", f"content.{setting[0]}", setting[1])
        each.ok("config", "set", "content.lan", "true")
        each.start("run", "--no-sensors")
    put = hub.json("file", "put", str(original))
    for each in (shed, barn):
        wait_until(lambda each=each: original.name in each.ok("file", "list"), "it is offered there")
    shed.ok("file", "get", original.name, "-o", str(tmp_path / "of shed"))
    sealed = shed.state / "state.content" / put["hash"]
    good = sealed.read_bytes()
    sealed.write_bytes(bytes(100) + good[100:])
    barn.ok("file", "get", original.name, "-o", str(tmp_path / "of barn"))
    assert (tmp_path / "of barn").read_bytes() == original.read_bytes()
    wait_until(lambda: sealed.exists() and sealed.read_bytes() == good, "the damaged copy is replaced")
    assert "was damaged; it is fetched again" in shed.log.read_text()
    assert "the disk has damaged 1 file" in shed.covey("check").stdout
