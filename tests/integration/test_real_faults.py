"""Real agents, a real mosquitto, real faults. Each ends with every message delivered, once.

Also in its sender's order, as long as the broker keeps its queue: what a broker has lost comes again later, after what
was sent since (`docs/protocol/`, section 8).

`COVEY_FAULT_ROUNDS=20` makes each of them that many times longer.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.cli.main import main
from tests import warm_covey
from tests.integration.faulty_proxy import Fault, FaultyProxy
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

ROUNDS = int(os.environ.get("COVEY_FAULT_ROUNDS", "1"))
PATIENCE_S = 60.0 * ROUNDS

_HASTY = (
    "from covey.adapters.mqtt.relay import MqttRelay;"
    "MqttRelay.__init__.__kwdefaults__.update("
    "keepalive_s=2, connect_s_max=2.0, retry_s_min=0.05, retry_s_max=0.3, refused_s_min=0.05)"
)
"""The agent with a patience of seconds: in minutes, a test sees one fault where this sees a dozen."""


class Hasty(Gateway):
    """A gateway whose agent does not wait minutes between two attempts."""

    def begin(self) -> None:
        """Start the agent."""
        self.start("run", "--no-sensors", environment={warm_covey.FIRST: _HASTY})

    def send(self, text: str) -> None:
        """Queue one blob for everybody, durably."""
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(["message", "send", "--state", str(self.state), "--text", text]) == 0

    def received(self) -> list[str]:
        """Take all blobs out of the inbox."""
        lines = self.ok("message", "receive", "--all", "--json").splitlines()
        return [base64.b64decode(json.loads(line)["body"]).decode() for line in lines]


@pytest.fixture
def pair(tmp_path: Path, broker: Broker) -> Iterator[tuple[Hasty, Hasty]]:
    """Two gateways of one group, whose agents run and have no news for each other."""
    one, two = Hasty(tmp_path, "one", broker), Hasty(tmp_path, "two", broker)
    one.ok("group", "create")
    one.begin()
    one.invite(two)
    two.begin()
    wait_until(lambda: one.queued() == two.queued() == 0, "both are at rest")
    yield one, two
    for gateway in (one, two):
        gateway.kill()


def patiently(pair: tuple[Hasty, Hasty], condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, as long as both agents live or were ended on purpose."""

    def look() -> bool:
        for gateway in pair:
            assert not gateway.ended_by_itself, gateway.log.read_text()[-2000:]
        return condition()

    wait_until(look, what, PATIENCE_S)


def settle(one: Hasty, two: Hasty, sent: dict[str, list[str]], *, ordered: bool) -> None:
    """Wait until nothing is queued; then each must have what the other sent: all of it, once."""
    patiently((one, two), lambda: one.queued() == two.queued() == 0, "every message is acknowledged")
    for sender, recipient in ((one, two), (two, one)):
        received = recipient.received()
        assert (received if ordered else sorted(received)) == (
            sent[sender.name] if ordered else sorted(sent[sender.name])
        )


def _texts(name: str, count: int) -> list[str]:
    return [f"{name} {number} {'x' * (number * 37 % 900)}" for number in range(count)]


def test_connections_that_break(pair: tuple[Hasty, Hasty], broker: Broker) -> None:  # accepts: 001.16, 001.17
    one, two = pair
    sent: dict[str, list[str]] = {"one": [], "two": []}
    with FaultyProxy(broker.port, 1, 6 * ROUNDS) as first, FaultyProxy(broker.port, 2, 6 * ROUNDS) as second:
        for gateway, proxy in ((one, first), (two, second)):
            gateway.end()
            gateway.ok("relay", "set", proxy.url)
            proxy.wreak()
            gateway.begin()

        def broken() -> bool:
            for gateway in pair:
                for text in _texts(f"{gateway.name} {len(sent[gateway.name])}", 3):
                    gateway.send(text)
                    sent[gateway.name].append(text)
            return first.sound and second.sound

        patiently(pair, broken, "all is broken that was to be")
        settle(one, two, sent, ordered=True)
        assert (first.seen + second.seen).keys() == {*Fault}
        for gateway in pair:
            assert gateway.end() == 0


def test_a_broker_killed_and_its_queue_wiped(pair: tuple[Hasty, Hasty], broker: Broker) -> None:
    one, two = pair
    sent: dict[str, list[str]] = {"one": [], "two": []}
    for number in range(3 * ROUNDS):
        for gateway in pair:
            for text in _texts(f"{gateway.name} {number}", 10):
                gateway.send(text)
                sent[gateway.name].append(text)
        if number % 2:  # one is away: what waits for it at the broker goes with the broker
            two.end()
            patiently(pair, lambda: one.json("status")["relay"]["state"] == "up", "the other is connected")
        broker.kill()
        broker.forget_queue()
        broker.start()
        if number % 2:
            two.begin()
    settle(one, two, sent, ordered=False)


def test_a_broker_whose_disk_is_full(pair: tuple[Hasty, Hasty], broker: Broker) -> None:
    one, two = pair
    two.end()
    pid = broker.pid or 0
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (16_384, 16_384))
    sent = {"one": _texts("one", 100 * ROUNDS), "two": []}
    for text in sent["one"]:
        one.send(text)

    def cannot_save() -> bool:
        os.kill(pid, signal.SIGUSR1)  # mosquitto saves its queues
        return b"File too large" in broker.log.read_bytes()

    patiently(pair, cannot_save, "the broker has more in its queue than it can save")
    broker.restart()  # gently, and the queue is gone all the same
    two.begin()
    settle(one, two, sent, ordered=False)


def test_agents_killed_again_and_again(pair: tuple[Hasty, Hasty]) -> None:
    chance = random.Random(3)
    sent: dict[str, list[str]] = {"one": [], "two": []}
    for number in range(10 * ROUNDS):
        gateway = pair[number % 2]
        for each in pair:
            for text in _texts(f"{each.name} {number}", 5):
                each.send(text)
                sent[each.name].append(text)
        moment = chance.randrange(3)
        log = gateway.log.stat().st_size
        gateway.end(signal.SIGKILL)
        gateway.begin()
        if moment:  # killed at its start, or once it is connected, or in the middle of its work
            patiently(pair, lambda: b"connected" in gateway.log.read_bytes()[log:], "it is connected")  # noqa: B023
        if moment == 2:
            waiting = gateway.queued()
            patiently(pair, lambda: gateway.queued() < waiting or not waiting, "it has delivered")  # noqa: B023
    settle(*pair, sent, ordered=False)


_AMQTT = """
import asyncio, logging, sys
from amqtt.broker import Broker
logging.disable()
plugins = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
async def serve():
    listeners = {"default": {"type": "tcp", "bind": "127.0.0.1:" + sys.argv[1]}}
    await Broker({"listeners": listeners, "plugins": plugins}).start()
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(serve())
"""


def test_a_broker_that_speaks_no_mqtt5_is_refused_in_plain_words(tmp_path: Path, broker: Broker) -> None:
    gateway = Hasty(tmp_path, "one", broker)
    broker.stop()
    port = str(broker.port)
    with subprocess.Popen(
        [sys.executable, "-c", _AMQTT, port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as old:
        try:
            assert old.stdout is not None
            assert old.stdout.readline() == b"ready\n"
            gateway.begin()
            wait_until(lambda: "MQTT 5" in gateway.log.read_text(), "the agent says what is wrong")
            assert gateway.end() == 0
            checked = json.loads(gateway.covey("check", "--json").stdout)
            (found,) = [each for each in checked["findings"] if each["check"] == "credential"]
            assert found["level"] == "error"
            assert "does not speak MQTT 5" in found["line"]
            assert "use a broker that speaks MQTT 5" in found["hint"]
        finally:
            old.kill()
    assert "Traceback" not in gateway.log.read_text()
    assert gateway.json("status")["relay"]["state"] != "up"
