"""A lost hub: another machine adopts its recovery file and continues, and no gateway is visited."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_conf.mosquitto.broker import find_mosquitto, free_port
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_GREET = """
summary = "say something"
argv = ["/bin/echo", "hello"]
"""


class Machine(Gateway):
    """A machine that is no device yet; where it is a hub, another process of it serves the relay."""

    def set_up(self, broker: object = None, url: str = "") -> None:
        """Leave that to commands."""

    def findings(self) -> list[dict[str, str]]:
        """Return what `covey check` finds."""
        found: list[dict[str, str]] = json.loads(self.covey("check", "--json").stdout)["findings"]
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Machine]]:
    """Make machines that have mosquitto; what runs on them is ended at the end."""
    program, environment = find_mosquitto()
    monkeypatch.setenv("PATH", f"{environment.get('PATH', os.defpath)}{os.pathsep}{program.parent}")
    if libraries := environment.get("LD_LIBRARY_PATH"):
        monkeypatch.setenv("LD_LIBRARY_PATH", libraries)
    made: list[Machine] = []

    def make(name: str) -> Machine:
        made.append(Machine(tmp_path, name))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def password(tmp_path: Path) -> Path:
    """A file with the recovery file's passphrase."""
    path = tmp_path / "passphrase"
    path.touch(0o600)
    path.write_text("correct horse battery staple\n")
    return path


def _serve(machine: Callable[[str], Machine], name: str, *words: str) -> Machine:
    """Serve a relay on a machine; return the process that does."""
    server = machine(name)
    server.log = server.log.with_name(f"{name}-relay.log")
    server.start("relay", "serve", *words)
    wait_until(lambda: server.log.exists() and "serving the relay" in server.log.read_text(), "the relay is served")
    return server


def _publish(gateway: Machine, *values: int) -> None:
    lines = "".join(json.dumps({"n": "level", "v": value}) + "\n" for value in values)
    gateway.ok("publish", "-", feed=lines)


def _values(hub: Machine) -> dict[int, int]:
    """Return how often each value of the series `level` has landed."""
    found = [json.loads(line) for line in hub.ok("vault", "readings", "--json").splitlines()]
    return dict(Counter(int(each["value"]) for each in found if each["name"] == "level"))


@pytest.mark.parametrize("named", [False, True])
def test_gateways_follow_to_another_address(
    machine: Callable[[str], Machine], tmp_path: Path, password: Path, *, named: bool
) -> None:
    port = str(free_port())
    server = _serve(machine, "hub", "--label", "hub", "--host", "127.0.0.2", "--port", str(free_port()))
    hub = machine("hub")
    hub.ok("group", "create", "--capability", "collector")
    hub.ok("invite", "--batch", "1", "-o", str(tmp_path))
    hub.start("collect", "--no-sensors")
    gateway = machine("gateway")
    gateway.start("join", str(tmp_path / "gateway-1.covey"), "--run")
    wait_until(lambda: gateway.covey("group", "show").returncode == 0, "the gateway has joined")
    file = tmp_path / "hub.recovery"
    hub.ok("hub", "save", str(file), "--password-file", str(password))
    if named:  # on another network, where nobody answers
        gateway.end()
        gateway.ok("config", "set", "relay.search", "false")
        gateway.ok("config", "set", "relay.addresses", f"127.0.0.3:{port}")
        gateway.start("run")
    hub.kill()
    server.kill()
    _publish(gateway, 1)

    second = machine("second")
    words = "--host", "127.0.0.3", "--port", port
    adopted = second.json("hub", "adopt", str(file), "--password-file", str(password), *words)
    assert adopted["relay"].startswith("mqtts://127.0.0.3:")
    _serve(machine, "second")
    second.start("collect", "--no-sensors")
    wait_until(lambda: _values(second) == {1: 1}, "the gateway has found the relay, and its reading has landed")
    assert gateway.json("config", "get", "relay.url")["value"].startswith("mqtts://127.0.0.2:"), "nobody told it"
    (found,) = [each for each in gateway.findings() if each["check"] == "relay"]
    assert (found["level"], f":{port}, which has the same authority" in found["line"]) == ("warning", True)


@pytest.mark.parametrize("by_file", [False, True])
def test_a_newcomer_finds_the_relay_at_a_further_address_of_its_invite(
    machine: Callable[[str], Machine], tmp_path: Path, *, by_file: bool
) -> None:
    port = free_port()
    _serve(machine, "hub", "--label", "hub", "--host", "127.0.0.2", "--port", str(port))
    hub = machine("hub")
    hub.ok("config", "set", "relay.url", f"mqtts://127.0.0.2:{free_port()}")  # nobody is there
    hub.ok("config", "set", "relay.addresses", f"hub.invalid:8883,127.0.0.2:{port}")
    hub.ok("group", "create", "--capability", "collector")
    hub.start("collect", "--no-sensors")
    gateway = machine("gateway")
    if by_file:
        hub.ok("invite", "--batch", "1", "-o", str(tmp_path))
        gateway.start("join", str(tmp_path / "gateway-1.covey"), "--run")
    else:
        gateway.start("join", hub.json("invite", "--no-wait", "--yes")["uri"], "--run")
    wait_until(lambda: gateway.covey("group", "show").returncode == 0, "the gateway has joined")
    _publish(gateway, 1)
    wait_until(lambda: _values(hub) == {1: 1}, "its reading has landed")
    assert gateway.json("config", "get", "relay.addresses")["value"] == ["hub.invalid:8883", f"127.0.0.2:{port}"]


def test_another_machine_becomes_the_hub_and_gateways_are_not_visited(
    machine: Callable[[str], Machine], tmp_path: Path, password: Path
) -> None:
    port = str(free_port())
    server, hub = _serve(machine, "hub", "--label", "hub", "--port", port), machine("hub")
    hub.ok("group", "create", "--capability", "collector")
    key = hub.json("key", "show")["signing_key"]
    hub.ok("config", "set", "operations.operators", key)
    hub.ok("invite", "--batch", "1", "-o", str(tmp_path), "--operator", key, "--command", "greet")
    hub.start("collect", "--no-sensors")
    gateway = machine("gateway")
    folder = gateway.state / "operations.d"
    folder.mkdir(mode=0o700, parents=True)
    gateway.state.chmod(0o700)
    (folder / "greet.toml").write_text(_GREET)
    gateway.start("join", str(tmp_path / "gateway-1.covey"), "--run")
    wait_until(lambda: gateway.covey("group", "show").returncode == 0, "the gateway has joined")
    _publish(gateway, 1)
    wait_until(lambda: _values(hub) == {1: 1}, "its reading has landed")

    wait_until(lambda: bool(hub.ok("history", "log", "--type", "obeying")), "the hub knows that it obeys")

    file = tmp_path / "hub.recovery"
    hub.ok("hub", "save", str(file), "--password-file", str(password))
    assert file.stat().st_mode & 0o777 == 0o600
    _publish(gateway, 2)
    wait_until(lambda: _values(hub) == {1: 1, 2: 1}, "so has one that came after the file was saved")
    hub.kill()
    server.kill()
    _publish(gateway, 3)

    second = machine("second")
    second.state.mkdir(mode=0o700)
    (hub.state / "vault").rename(second.state / "vault")  # a disk of its own
    shutil.rmtree(hub.state)
    adopted = second.json("hub", "adopt", str(file), "--password-file", str(password))
    assert adopted["label"] == "hub"
    assert adopted["relay"] == adopted["relay_before"]
    assert second.json("key", "show")["signing_key"] == key
    _serve(machine, "second")
    second.start("collect", "--no-sensors")
    wait_until(lambda: _values(second) == {1: 1, 2: 1, 3: 1}, "the gateway continues, and each reading is there once")
    wait_until(lambda: bool(second.ok("history", "log", "--type", "obeying")), "members send the history again")
    ended = second.covey("order", "run", "greet", "--for", "label:gateway-1", "--wait")
    assert (ended.returncode, "1 done" in ended.stdout) == (0, True), (ended.stdout, ended.stderr)
    second.ok("invite", "--batch", "1", "-o", str(tmp_path / "more"))
    newcomer = machine("newcomer")
    newcomer.start("join", str(tmp_path / "more" / "gateway-1.covey"), "--run")
    wait_until(lambda: newcomer.covey("group", "show").returncode == 0, "the new hub lets others in")


def test_a_gateway_with_a_new_card_takes_the_place_of_the_old_one(
    machine: Callable[[str], Machine], tmp_path: Path
) -> None:
    _serve(machine, "hub", "--label", "hub", "--port", str(free_port()))
    hub = machine("hub")
    hub.ok("group", "create", "--capability", "collector")
    hub.ok("invite", "--batch", "1", "-o", str(tmp_path), "--capability", "relayer")
    hub.start("collect", "--no-sensors")
    old = machine("old")
    old.start("join", str(tmp_path / "gateway-1.covey"), "--run")
    wait_until(lambda: old.covey("group", "show").returncode == 0, "the gateway has joined")
    _publish(old, 1, 2)
    wait_until(lambda: _values(hub) == {1: 1, 2: 1}, "its readings have landed")
    before = next(each for each in hub.json("group", "show")["members"] if each["label"] == "gateway-1")
    old.kill()
    assert "this device cannot replace itself" in hub.fails("invite", "--replace", "hub", "-o", str(tmp_path), code=1)

    hub.ok("invite", "--replace", "gateway-1", "-o", str(tmp_path / "new"))
    new = machine("new")
    new.start("join", str(tmp_path / "new" / "gateway-1.covey"), "--run")

    def members() -> list[tuple[str, list[str], bool]]:
        found = hub.json("group", "show")["members"]
        return sorted((each["label"], each["capabilities"], each["name"] == before["name"]) for each in found)

    wait_until(lambda: new.covey("group", "show").returncode == 0, "the new card has joined")
    wait_until(
        lambda: members() == [("gateway-1", ["relayer"], False), ("hub", ["collector"], False)], "the old one is gone"
    )
    _publish(new, 3)
    wait_until(lambda: _values(hub) == {1: 1, 2: 1, 3: 1}, "the new one's readings land")
    (series,) = hub.json("graph", "gateway-1", "level", "--since", "1h")["series"]
    assert min(each["lowest"] for each in series["points"]) == 1
    assert max(each["highest"] for each in series["points"]) == 3
