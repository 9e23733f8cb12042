"""What a tired person gets wrong: one `error:` line, a hint, the right exit code, and nothing lost."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from tests import warm_covey
from tests.integration.gateway import Gateway

pytestmark = pytest.mark.broker


@pytest.fixture
def alone(tmp_path: Path) -> Gateway:
    """A gateway that has no broker."""
    return Gateway(tmp_path, "alone")


def test_no_device_here(tmp_path: Path) -> None:
    done = warm_covey.run(["status", "--state", str(tmp_path)])
    assert done.returncode == 78
    assert done.stderr.startswith("error: there is no device in ")
    assert "hint: run 'covey init' first" in done.stderr


def test_wrong_usage() -> None:
    for words in (["nonsense"], [], ["send", "--nonsense"], ["publish", "/nowhere/at/all"]):
        done = warm_covey.run(words)
        assert done.returncode in {2, 78}
        assert done.stderr.startswith("error: ")


def test_a_second_init_keeps_the_first_identity(alone: Gateway) -> None:
    key = (alone.state / "identity.key").read_bytes()
    assert "holds a device already" in alone.fails("init", code=1)
    assert (alone.state / "identity.key").read_bytes() == key


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[relay]\nurll = 'mqtt://x'\n", "did you mean 'relay.url'?"),
        ("lable = 'x'\n", "did you mean 'label'?"),
        ("[telemetry]\nbatch_readings = 'many'\n", "must be a whole number"),
        ("[telemetry]\nbatch_seconds = 0\n", "must be between 0.1 and 86400"),
        ("[outbox]\nmaximum_bytes = 1\n", "must be at least 1048576"),
        ("not toml at all", "Expected '='"),
        ("relay = 3\n", "[relay] must be a section"),
    ],
)
def test_a_wrong_configuration(alone: Gateway, text: str, complaint: str) -> None:
    (alone.state / "config.toml").write_text(text)
    assert complaint in alone.fails("status", code=78)
    assert complaint in alone.fails("run", code=78)


def test_keys_that_others_may_read(alone: Gateway) -> None:
    # accepts: 002.26
    key = alone.state / "identity.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert alone.state.stat().st_mode & 0o777 == 0o700
    key.chmod(0o644)
    assert "chmod 600" in alone.fails("status", code=78)


def test_a_damaged_identity(alone: Gateway) -> None:
    key = alone.state / "identity.key"
    key.write_bytes(key.read_bytes()[:-1])
    assert "is damaged" in alone.fails("status", code=78)


def test_no_group_no_relay(alone: Gateway) -> None:
    assert "this device is in no group" in alone.fails("send", "--text", "x", code=1)
    assert "no relay is set" in alone.fails("run", code=78)
    assert "no relay is set" in alone.fails("invite", code=78)
    assert "this is not a Covey invite" in alone.fails("join", "covey:nonsense", code=1)
    assert "this invite is damaged" in alone.fails("join", "covey://join/1/AAAA", code=1)
    assert "mqtt" in alone.fails("relay", "--url", "http://x", code=78)


def test_an_unreachable_broker_keeps_what_was_queued(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create")
    one.start("run", "--no-sensors")
    one.invite(two)
    one.end()
    broker.kill()
    assert "not acknowledged yet" in two.fails("send", "--text", "kept", "--wait", "1", code=1)
    assert two.queued() >= 1
    broker.start()
    one.start("run", "--no-sensors")
    two.start("run", "--no-sensors")
    assert one.ok("recv", "--wait", "30") == "kept"


def test_a_refusing_broker_is_named(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.ok("relay", "--password-file", "-", feed="wrong")
    one.ok("group", "create")
    done = one.covey("recv", "--wait", "1")
    assert "user name" in done.stderr or "authori" in done.stderr, done.stderr
    assert done.returncode == 1


def test_two_agents_on_one_state(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.start("run", "--no-sensors")
    from tests.waiting import wait_until

    wait_until(lambda: one.json("status")["agent"] == "running", "the agent runs")
    assert "an agent runs already" in one.fails("run", code=1)


def test_a_full_disk(tmp_path: Path) -> None:
    """A file size limit stands in for the disk's end: SQLite sees the same refusal of its write."""
    gateway = Gateway(tmp_path, "full")
    gateway.ok("group", "create", "--capability", "collector")
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000));"
        "from covey.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    texts = (hashlib.shake_256(bytes([number % 256, number // 256])).hexdigest(250) for number in range(2000))
    lines = "".join(f'{{"n":"n","vs":"{text}"}}\n' for text in texts)
    done = subprocess.run(
        [sys.executable, "-c", script, "publish", "--state", str(gateway.state), "--batch", "10"],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the state database: ")
    assert "hint: is its disk full" in done.stderr
    assert gateway.json("status")["counters"].get("published_readings", 0) % 10 == 0


def test_input_that_is_no_reading(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    good = '{"n":"t","u":"Cel","v":1}\n'
    message = one.fails("publish", feed=good * 3 + "nonsense\n" + good, code=1)
    assert "line 4" in message
    assert "3 readings before it are queued" in message
    assert one.counters()["published_readings"] == 3
