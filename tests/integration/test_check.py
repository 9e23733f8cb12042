"""`covey check` finds each thing that can be wrong, says how to mend it, and exits accordingly."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.clock import SystemClock
from covey.adapters.state_folder import StateFolder
from covey.app.checks.examining import CHECKS, examine
from covey.app.checks.findings import Examined, Level
from covey.app.checks.machine import clock
from covey.app.device.device import find_state, open_device
from tests.integration.certificates import make_certificate
from tests.integration.gateway import Gateway
from tests.small_disk import anywhere, fill, mounted_disk
from tests.waiting import wait_until

_ELSEWHERE = {"clock"}
"""What depends on the machine that the tests run on."""


@pytest.fixture
def alone(tmp_path: Path) -> Gateway:
    """A gateway that has no broker."""
    return Gateway(tmp_path, "alone")


def _findings(gateway: Gateway, *words: str, code: int | None = None) -> dict[str, tuple[str, str, str]]:
    """Return what `covey check` finds: (level, line, hint) by check; the gravest where a check says several things."""
    done = gateway.covey("check", "--json", *words)
    assert code is None or done.returncode == code, (done.stdout, done.stderr)
    found: dict[str, tuple[str, str, str]] = {}
    for each in json.loads(done.stdout)["findings"]:
        if each["check"] not in found or each["level"] == "error":
            found[each["check"]] = (each["level"], each["line"], each["hint"])
        assert each["hint"] or each["level"] in {"ok", "skipped"}
    return found


@pytest.mark.broker
def test_all_is_well(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    one.start("run", "--no-sensors")
    wait_until(lambda: one.json("status")["relay"]["state"] == "up", "the relay is up")
    found = _findings(one, code=0)
    assert {
        name: each for name, each in found.items() if each[0] not in {"ok", "skipped"} and name not in _ELSEWHERE
    } == {}
    assert set(found) == {each.name for each in CHECKS}
    assert "connected" in found["credential"][1]
    one.end()
    assert "accepts this device" in _findings(one, code=0)["credential"][1]
    text = one.ok("check", "--offline")
    assert "skipped  relay" in text
    assert one.covey("check", "--warnings-as-errors").returncode == 1  # no agent runs


def test_nothing_is_here(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, "gone")
    shutil.rmtree(gateway.state)
    found = _findings(gateway, code=1)
    assert "there is no device" in found["identity"][1]
    assert found["database"] == ("skipped", "needs configuration, identity", "")


def test_configuration_and_keys(alone: Gateway) -> None:
    (alone.state / "config.toml").write_text("[relay]\nurll = 'x'\n")
    (alone.state / "identity.key").chmod(0o644)
    found = _findings(alone, code=1)
    assert found["configuration"][0] == "error"
    assert "did you mean 'relay.url'?" in found["configuration"][2]
    assert found["identity"][0] == "error"
    assert "chmod 600" in found["identity"][2]


def test_an_open_folder_and_an_open_password(alone: Gateway) -> None:
    alone.ok("relay", "set", "--password-file", "-", feed="x")
    alone.state.chmod(0o755)
    assert "chmod 700" in _findings(alone, "--offline", code=1)["identity"][2]
    alone.state.chmod(0o700)
    (alone.state / "relay.password").chmod(0o640)
    assert "chmod 600" in _findings(alone, "--offline", code=1)["secrets"][2]


def test_a_damaged_database(alone: Gateway) -> None:
    path = alone.state / "state.sqlite"
    content = bytearray(path.read_bytes())
    content[5000:9000] = bytes(4000)
    path.write_bytes(content)
    found = _findings(alone, "--offline", code=1)
    assert found["database"][0] == "error"
    assert found["outbox"] == ("skipped", "needs database", "")


def test_a_database_that_is_none(alone: Gateway) -> None:
    (alone.state / "state.sqlite").write_bytes(b"not a database at all" * 100)
    assert "not a database" in _findings(alone, "--offline", code=1)["database"][1]


def test_a_newer_database(alone: Gateway) -> None:
    with sqlite3.connect(alone.state / "state.sqlite") as database:
        database.execute("PRAGMA user_version = 9999")
        database.execute("PRAGMA application_id = 9999")
    database.close()
    found = _findings(alone, "--offline", code=1)
    assert "a newer Covey wrote" in found["database"][1]
    assert "upgrade Covey" in found["database"][2]


class _Clock(SystemClock):
    """A wall clock that a test sets."""

    def __init__(self, wall_us: int, *, synchronised: bool) -> None:
        super().__init__()
        self._set = (wall_us, synchronised)

    def wall_us(self) -> int:
        return self._set[0]

    def synchronised(self) -> bool:
        return self._set[1]


@pytest.mark.parametrize(
    ("wall_us", "synchronised", "level"),
    [
        (1_900_000_000_000_000, False, Level.WARNING),
        (1_900_000_000_000_000, True, Level.OK),
    ],
)
def test_the_clock(alone: Gateway, wall_us: int, synchronised: bool, level: Level) -> None:
    device = Examined(StateFolder.at(alone.state), _Clock(wall_us, synchronised=synchronised))
    assert [seen[0] for seen in clock(device)] == [level]


def test_a_clock_that_says_1970(alone: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """No battery, no network yet."""
    device = Examined(StateFolder.at(alone.state), SystemClock())
    monkeypatch.setattr("time.time_ns", lambda: 12_000_000_000)
    assert [seen[0] for seen in clock(device)] == [Level.ERROR]


@pytest.mark.broker
def test_a_message_that_waits_for_days(new_gateway: Callable[[str], Gateway]) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create")
    one.start("run", "--no-sensors")
    one.invite(two)
    one.end()
    two.ok("message", "send", "--text", "waits")
    later = _Clock(SystemClock().wall_us() + 3 * 86_400_000_000, synchronised=True)
    device = Examined(StateFolder.at(two.state), later)
    (finding,) = [each for each in examine(device, offline=True) if each.check == "outbox"]
    device.close()
    assert finding.level is Level.WARNING
    assert "the oldest waits for 3 d" in finding.line


@pytest.mark.parametrize(("outgoing", "says"), [(True, "could not be sent"), (False, "could not be used")])
def test_messages_in_quarantine_of_both_ways(alone: Gateway, outgoing: bool, says: str) -> None:
    with open_device(find_state(str(alone.state), None)) as device, device.store.transaction():
        own = device.node.identity.signing_public
        device.store.quarantine.add("too_large", b"a message", 1, own, own if outgoing else None)
    level, line, hint = _findings(alone, "--offline", code=0)["troubles"]
    assert (level, line) == ("warning", f"1 message in quarantine that {says}")
    assert hint.startswith("'covey message quarantine' shows")


def test_no_room_for_the_outbox(alone: Gateway) -> None:
    alone.ok("config", "set", "outbox.maximum_bytes", str(2**60))
    found = _findings(alone, "--offline", code=0)["disk"]
    assert found[0] == "warning"
    alone.ok(*found[2].partition("covey ")[2].split())  # the hint is a command that mends it
    assert _findings(alone, "--offline", code=0)["disk"][0] == "ok"


def check_on_a_full_disk(folder: Path) -> None:
    """Have a device's disk full, with nothing else wrong."""
    with mounted_disk(folder):
        alone = Gateway(folder, "alone")
        alone.ok("group", "create")
        fill(folder / "filler")
        found = _findings(alone, "--offline", code=1)
        wrong = [name for name, (level, _, _) in found.items() if level == "error"]
        assert wrong == ["disk", "database"]
        assert found["disk"] == ("error", "0 MiB free", "free some space; queued messages are safe")
        assert found["database"][1:] == ("no room on the disk to read the state database", "free some space")
        (folder / "filler").unlink()
        assert _findings(alone, "--offline")["database"][0] == "ok"


def test_a_disk_that_is_merely_full_is_no_damage(tmp_path: Path) -> None:
    anywhere(check_on_a_full_disk, tmp_path)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port on which something listens that never speaks."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_actions_that_are_allowed_and_cannot_be_done(alone: Gateway) -> None:
    assert _findings(alone, "--offline")["actions"][0] == "skipped"
    folder = alone.state / "operations.d"
    folder.mkdir(mode=0o700)
    definitions = {
        "fine": 'argv = ["/bin/true"]',
        "gone": 'argv = ["/nowhere/pump"]',
        "other": 'argv = ["/bin/true"]\n[unit]\nuser = "nobody-knows"',
        "open": 'argv = ["/bin/true"]',
    }
    for name, text in definitions.items():
        (folder / f"{name}.toml").write_text(f'summary = "{name}"\n{text}\n')
        (folder / f"{name}.toml").chmod(0o622 if name == "open" else 0o600)
    alone.ok("config", "set", "operations.commands", "fine,gone,other,open,undefined,restart-agent")
    done = alone.covey("check", "--offline", "--json")
    found = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "actions"]
    said = {each["line"].partition(" ")[0].rstrip(":"): each for each in found}
    assert {name: each["level"] for name, each in said.items()} == {
        "gone": "warning",
        "other": "warning",
        "open": "error",
        "undefined": "error",
        "operators": "ok",
    }
    assert said["operators"]["line"] == "operators may run 2 actions: fine, restart-agent"
    assert "go-w" in said["open"]["hint"]


def test_a_relay_that_is_not_there(alone: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    alone.ok("relay", "set", f"mqtt://127.0.0.1:{port}")
    found = _findings(alone, code=1)
    assert found["relay"][:2] == ("error", f"nothing listens at 127.0.0.1:{port}")
    assert found["credential"][0] == "skipped"
    alone.ok("relay", "set", "mqtt://no-such-host.invalid")
    assert "no address is known" in _findings(alone, code=1)["relay"][1]


def test_a_port_of_something_else(alone: Gateway, silent_port: int) -> None:
    alone.ok("relay", "set", f"mqtts://127.0.0.1:{silent_port}")
    found = _findings(alone, code=1)
    assert found["relay"][0] == "error"
    assert found["relay"][2]


@pytest.mark.broker
@pytest.mark.slow
def test_a_copy_of_this_device_elsewhere(new_gateway: Callable[[str], Gateway]) -> None:
    one, other = new_gateway("one"), new_gateway("other")
    one.ok("group", "create", "--capability", "collector")
    shutil.rmtree(other.state)
    shutil.copytree(one.state, other.state, ignore=shutil.ignore_patterns("*.pipe"))
    one.start("run", "--no-sensors")
    wait_until(lambda: one.json("status")["relay"]["state"] == "up", "the relay is up")
    assert _findings(one)["duplicate"][0] == "ok"
    other.start("run", "--no-sensors")
    wait_until(lambda: one.log.read_text().count("connection was lost") > 2, "they cut each other off")
    other.end()
    wait_until(lambda: _findings(one)["duplicate"][0] == "warning", "it is noted")
    assert "a copy of this machine's card" in _findings(one)["duplicate"][2]
    assert "or a copy of this device" in one.ok("status")
    assert "or a copy of this device: covey check" in one.ok("fleet")


@pytest.mark.broker
def test_a_refused_password(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.ok("relay", "set", "--password-file", "-", feed="wrong")
    found = _findings(one, code=1)
    assert found["relay"][0] == "ok"
    assert "user name and password" in found["credential"][1]
    assert "covey relay set --password-file" in found["credential"][2]


@pytest.mark.broker
@pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl command")
@pytest.mark.parametrize(
    ("begins", "ends", "level", "says"),
    [
        (-400, -10, "error", "has expired"),
        (10, 400, "error", "not yet valid"),
        (-10, 12, "warning", "ends in 1"),
        (-10, 400, "ok", "ends in 39"),
    ],
)
def test_the_relays_certificate(tmp_path: Path, begins: int, ends: int, level: str, says: str) -> None:
    chain, key = make_certificate(tmp_path / "tls", begins, ends)
    with Broker(tmp_path / "broker", certificate=(chain, key)) as broker:
        one = Gateway(tmp_path, "one", broker)
        one.ok("relay", "set", "--ca-file", str(chain))
        found = _findings(one, code=1 if level == "error" else 0)
        assert found["relay"][0] == level, found
        assert says in found["relay"][1]
        if level == "error":
            assert "clock" in found["relay"][2]
            one.start("run", "--no-sensors")  # the agent itself says the same, and goes on trying
            wait_until(lambda: says in one.log.read_text(), "the agent says what is wrong")
            assert one.end() == 0


@pytest.mark.broker
def test_a_vault_that_was_restored_alone(new_gateway: Callable[[str], Gateway]) -> None:
    """`covey fleet` and `covey status` say so, and send people to `covey check`."""
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create", "--capability", "collector")
    one.start("collect", "--no-sensors")
    one.invite(two)
    two.start("run", "--no-sensors")
    vault, older = one.state / "vault", one.state / "older"
    two.ok("publish", "--wait", "60", feed='{"n":"a","v":1}\n')
    one.end()
    shutil.copytree(vault, older)
    one.start("collect", "--no-sensors")
    two.ok("publish", "--wait", "60", feed='{"n":"a","v":2}\n')
    one.end()
    shutil.rmtree(vault)
    older.rename(vault)
    one.start("collect", "--no-sensors")
    wait_until(lambda: "was restored from an older copy" in one.log.read_text(), "the collector notices")
    one.end()
    found = [each for each in one.json("check", "--offline")["findings"] if each["check"] == "vault"]
    assert [each["level"] for each in found] == ["warning", "ok"]
    assert "the vault was restored from an older copy, which lacked 1 message" in found[0]["line"]
