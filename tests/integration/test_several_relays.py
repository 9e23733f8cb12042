"""Two real brokers at once: what one loses, repeats or never hears of comes by the other, each message once."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.keys.relay_credential import accounts
from covey.adapters.state_folder import StateFolder
from covey.cli.main import main
from tests.integration.faulty_proxy import FaultyProxy
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_HASTY = (
    "import sys; from covey.adapters.mqtt.relay import MqttRelay;"
    "MqttRelay.__init__.__kwdefaults__.update("
    "keepalive_s=5, connect_s_max=2.0, retry_s_min=0.05, retry_s_max=0.3, refused_s_min=0.05);"
    "from covey.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
"""The agent with a patience of seconds."""


class Pair:
    """Two gateways of one group at two brokers, `site` before `cloud`; what each has sent."""

    def __init__(self, folder: Path, site: Broker, cloud: Broker) -> None:
        self.site, self.cloud = site, cloud
        self.one, self.two = Gateway(folder, "one", site), Gateway(folder, "two", site)
        self.sent: dict[str, list[str]] = {"one": [], "two": []}
        self.one.ok("group", "create")
        for gateway in self.both:
            password = cloud.add_device(gateway.account)
            gateway.ok("relay", "add", cloud.url, "--password-file", "-", feed=password)
        self.one.start("run", "--no-sensors")
        self.one.invite(self.two)
        self.two.start("run", "--no-sensors")
        self.wait(lambda: self.one.queued() == self.two.queued() == 0, "both are at rest")
        self.wait(lambda: all(self.states(each) == ["up", "up"] for each in self.both), "both are at both brokers")

    @property
    def both(self) -> tuple[Gateway, Gateway]:
        """The gateways."""
        return self.one, self.two

    def states(self, gateway: Gateway) -> list[str]:
        """Return how a gateway's relays are, in order."""
        return ["up" if each["state"] == "up" else "down" for each in gateway.json("status")["relays"]]

    def send(self, sender: Gateway, count: int) -> None:
        """Queue messages for the other, durably."""
        texts = self.sent[sender.name]
        for number in range(len(texts), len(texts) + count):
            texts.append(f"{sender.name} {number} {'x' * (number * 37 % 900)}")
            with contextlib.redirect_stdout(io.StringIO()):
                assert main(["message", "send", "--state", str(sender.state), "--text", texts[-1]]) == 0

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        wait_until(condition, what)

    def settle(self) -> None:
        """Wait until nothing is queued; then each must have what the other sent: all of it, once."""
        self.wait(lambda: self.one.queued() == self.two.queued() == 0, "every message is acknowledged")
        for sender, recipient in ((self.one, self.two), (self.two, self.one)):
            lines = recipient.ok("message", "receive", "--all", "--json").splitlines()
            received = [base64.b64decode(json.loads(line)["body"]).decode() for line in lines]
            assert sorted(received) == sorted(self.sent[sender.name])
            assert len(received) == len(set(received))


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Pair]:
    monkeypatch.setattr(Gateway, "program", (sys.executable, "-c", _HASTY))
    with Broker(tmp_path / "site") as site, Broker(tmp_path / "cloud") as cloud:
        made = Pair(tmp_path, site, cloud)
        yield made
        for gateway in made.both:
            gateway.kill()


def test_a_broker_killed_in_mid_traffic(pair: Pair) -> None:
    for _ in range(3):
        for gateway in pair.both:
            pair.send(gateway, 5)
    pair.site.kill()
    pair.site.forget_queue()
    for gateway in pair.both:
        pair.send(gateway, 10)
    pair.settle()
    assert pair.states(pair.one) == ["down", "up"]
    status = pair.one.json("status")
    assert status["relay"]["state"] == "up"
    assert status["troubles"] == ["1 of 2 relays not connected"]
    assert 'covey_relay_up{rank="1"} 0\ncovey_relay_up{rank="2"} 1\n' in pair.one.ok("metrics")

    pair.site.start()
    pair.wait(lambda: pair.states(pair.one) == pair.states(pair.two) == ["up", "up"], "both are back")
    for gateway in pair.both:
        pair.sent[gateway.name].clear()
        pair.send(gateway, 5)
    pair.cloud.kill()
    pair.send(pair.two, 5)
    pair.settle()


def test_a_broker_that_hangs_and_delivers_later(pair: Pair) -> None:
    assert pair.site.pid is not None
    os.kill(pair.site.pid, signal.SIGSTOP)
    try:
        for gateway in pair.both:
            pair.send(gateway, 5)
        pair.settle()
    finally:
        os.kill(pair.site.pid, signal.SIGCONT)
    pair.wait(lambda: any(each.counters().get("duplicates", 0) > 0 for each in pair.both), "it comes again")
    for gateway in pair.both:
        assert not gateway.ok("message", "receive", "--all", "--json")


def test_one_side_cut_off_from_one_broker(pair: Pair) -> None:
    pair.two.end()
    proxy = FaultyProxy(pair.site.port, 1, 0)
    with proxy:
        pair.two.ok("relay", "set", proxy.url)
        pair.two.start("run", "--no-sensors")
        pair.wait(lambda: pair.states(pair.two) == ["up", "up"], "it is at both brokers")
        for gateway in pair.both:
            pair.send(gateway, 3)
        pair.settle()
    pair.wait(lambda: pair.states(pair.two) == ["down", "up"], "it is cut off")
    for gateway in pair.both:
        pair.sent[gateway.name].clear()
        pair.send(gateway, 5)
    pair.settle()
    assert pair.states(pair.one) == ["up", "up"]
    pair.two.end()
    pair.two.ok("relay", "set", pair.site.url)
    pair.two.start("run", "--no-sensors")
    pair.wait(lambda: pair.states(pair.two) == ["up", "up"], "it is back, and has what waited for it there")
    for gateway in pair.both:
        pair.sent[gateway.name].clear()
        pair.send(gateway, 1)
    pair.settle()


def test_relays_are_added_listed_and_removed(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, "one")
    assert "first relay" in gateway.fails("relay", "add", "mqtt://a", code=2)
    gateway.ok("relay", "set", "mqtt://a", "--password-file", "-", feed="secret of a")
    shown = gateway.json("relay", "add", "mqtts://b:9000", "--password-file", "-", feed="secret of b")
    assert [(each["url"], each["password"]) for each in shown] == [("mqtt://a", "set"), ("mqtts://b:9000", "set")]
    assert "secret" not in gateway.ok("relay", "list")
    kept = gateway.state / "relays" / "b-9000"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert stat.S_IMODE((kept / "password").stat().st_mode) == 0o600
    assert "secret of b" not in (kept / "password").read_text()
    folder = StateFolder.at(gateway.state)
    found = accounts(folder, folder.configuration.config(), folder.identity())
    assert [each.password for each in found] == ["secret of a", "secret of b"]
    assert [each["url"] for each in gateway.json("status")["relays"]] == ["mqtt://a", "mqtts://b:9000"]
    assert "relay    mqtts://b:9000: agent not running" in gateway.ok("status")

    (kept / "password").chmod(0o644)
    assert "is open to other users" in gateway.fails("relay", "list", code=78)
    (kept / "password").chmod(0o600)
    assert "PEM" in gateway.fails("relay", "add", "mqtts://c", "--ca-file", "/dev/null", code=78)
    assert "already the first relay" in gateway.fails("relay", "add", "mqtts://a:1883", code=2)
    assert "first relay" in gateway.fails("relay", "remove", "mqtt://a", code=2)
    assert "is not a relay of this device" in gateway.fails("relay", "remove", "mqtt://d", code=2)
    assert "must be mqtt://HOST" in gateway.fails("relay", "add", "http://d", code=78)
    gateway.ok("config", "set", "relay.also", "mqtt://d,mqtts://d:1883")
    assert "is configured twice" in gateway.fails("relay", "list", code=78)
    gateway.ok("config", "set", "relay.also", "mqtts://b:9000")
    assert [each["url"] for each in gateway.json("relay", "remove", "mqtts://b:9000")] == ["mqtt://a"]
    assert not (kept / "password").exists()
