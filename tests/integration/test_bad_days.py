"""What the world gets wrong: old and new databases, a clock in 1970, a port of somebody else, a broker that goes."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway
from tests.waiting import GUARD_S, wait_until

IN_1970 = (
    "import sys, time; shift = time.time_ns() - 5_000_000_000; true = time.time_ns;"
    "time.time_ns = lambda: true() - shift;"
    "from covey.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
"""A machine without a battery, five seconds after its start."""


@pytest.fixture
def alone(tmp_path: Path) -> Gateway:
    """A gateway that has no broker."""
    return Gateway(tmp_path, "alone")


def test_a_newer_database(alone: Gateway) -> None:
    with closing(sqlite3.connect(alone.state / "state.sqlite")) as database:
        database.execute("PRAGMA user_version = 9999")
        database.execute("PRAGMA application_id = 9999")
    for words in (["status"], ["run"], ["message", "send", "--text", "x"], ["metrics"]):
        message = alone.fails(*words, code=78)
        assert "a newer Covey wrote" in message
        assert "upgrade Covey" in message


def test_a_log_that_a_power_cut_left_is_emptied(alone: Gateway) -> None:
    """What an erasing commit had overwritten may still stand there: the cut came before the log was folded."""
    alone.ok("relay", "set", "mqtt://127.0.0.1:1")
    alone.ok("group", "create")
    alone.start("run", "--no-sensors")
    wait_until(lambda: alone.json("status")["agent"] == "running", "the agent runs")
    for _ in range(5):
        alone.ok("history", "post", "kept in confidence")
    log = alone.state / "state.sqlite-wal"
    alone.end(signal.SIGKILL)
    assert b"kept in confidence" in log.read_bytes()
    alone.start("run", "--no-sensors")  # whoever else opens the state may end with the log, too
    wait_until(lambda: b"kept in confidence" not in log.read_bytes(), "the next one has emptied it")


def _in_1970(gateway: Gateway, *words: str, feed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", IN_1970, words[0], "--state", str(gateway.state), *words[1:]],
        input=feed, capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip


@pytest.mark.broker
def test_a_clock_in_1970_delivers_all_the_same(new_gateway: Callable[[str], Gateway]) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create", "--capability", "collector")
    one.start("collect", "--no-sensors")
    one.invite(two)
    done = _in_1970(two, "publish", "--wait", "300", feed='{"n":"t","v":1}\n')
    assert done.returncode == 0, done.stderr
    assert json.loads(_in_1970(two, "status", "--json").stdout)["outbox"]["messages"] == 0
    checked = _in_1970(two, "check", "--json", "--offline")
    assert checked.returncode == 1
    (clock,) = [each for each in json.loads(checked.stdout)["findings"] if each["check"] == "clock"]
    assert clock["level"] == "error"
    assert "was never set" in clock["line"]


@pytest.mark.broker
def test_a_second_daemon_of_either_kind(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.start("run", "--no-sensors")
    wait_until(lambda: one.json("status")["relay"]["state"] == "up", "the agent runs")
    for second in (["run"], ["collect"]):
        message = one.fails(*second, code=1)
        assert "an agent is already running" in message
        assert "covey status" in message
    assert one.json("status")["relay"]["state"] == "up"  # undisturbed
    assert one.end() == 0
    one.start("run", "--no-sensors")
    wait_until(lambda: one.json("status")["agent"] == "running", "the next one may")


def test_a_port_of_something_else(alone: Gateway) -> None:
    """A server that is not MQTT: the agent says so, once, and goes on trying."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        alone.ok("relay", "set", f"mqtt://127.0.0.1:{server.getsockname()[1]}")
        alone.start("run", "--no-sensors")
        for _ in range(3):
            visitor, _ = server.accept()
            visitor.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            visitor.close()
        wait_until(lambda: "warning: relay: " in alone.log.read_text(), "the agent says what is wrong")
        assert alone.end() == 0
    assert "Traceback" not in alone.log.read_text()


@pytest.mark.broker
def test_a_lost_broker_is_reported_once(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.start("run", "--no-sensors")
    wait_until(lambda: "info: relay: connected" in one.log.read_text(), "the relay is up")
    broker.kill()
    wait_until(lambda: "nothing listens" in one.log.read_text(), "the agent notices")
    state = one.json("status")["relay"]
    wait_until(lambda: one.json("status")["relay"]["seconds"] >= 4, "several attempts have failed")
    assert one.json("status")["relay"]["state"] == state["state"]
    assert one.log.read_text().count("nothing listens") == 1
    broker.start()
    wait_until(lambda: one.log.read_text().count("info: relay: connected") == 2, "it is back")
