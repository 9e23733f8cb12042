"""What a tired person gets wrong: one `error:` line, a hint, the right exit code, and nothing lost."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway

pytestmark = pytest.mark.broker


def test_an_unreachable_broker_keeps_what_was_queued(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create")
    one.start("run", "--no-sensors")
    one.invite(two)
    one.end()
    broker.kill()
    assert "not acknowledged yet" in two.fails("message", "send", "--text", "kept", "--wait", "1", code=124)
    assert two.queued() >= 1
    broker.start()
    one.start("run", "--no-sensors")
    two.start("run", "--no-sensors")
    assert one.ok("message", "receive", "--wait", "300") == "kept"


def test_a_refusing_broker_is_named(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.ok("relay", "set", "--password-file", "-", feed="wrong")
    one.ok("group", "create")
    done = one.covey("message", "receive", "--wait", "1")
    assert "user name" in done.stderr or "authori" in done.stderr, done.stderr
    assert done.returncode == 124


def test_two_agents_on_one_state(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.start("run", "--no-sensors")
    from tests.waiting import wait_until

    wait_until(lambda: one.json("status")["agent"] == "running", "the agent runs")
    assert "an agent is already running" in one.fails("run", code=1)


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
    assert "whether its disk is full" in done.stderr
    assert gateway.json("status")["counters"].get("published_readings", 0) % 10 == 0


def test_input_that_is_no_reading(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    good = '{"n":"t","u":"Cel","v":1}\n'
    message = one.fails("publish", feed=good * 3 + "nonsense\n" + good, code=1)
    assert "line 4" in message
    assert "3 readings before it are queued" in message
    assert one.counters()["published_readings"] == 3
