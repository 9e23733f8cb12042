"""A device that ends like in a power cut is gone for its collector, by the will that it has left at a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.core.presence.status import Presence, State
from covey.core.wire.envelope import read_envelope
from covey.core.wire.message import MessageType, read_message
from covey.errors import RemoteError
from tests.integration.gateway import Gateway
from tests.integration.relay_client import RelayClient
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


@pytest.fixture
def pair(new_gateway: Callable[[str], Gateway]) -> tuple[Gateway, Gateway]:
    """A collector and a device that beats every second, both running."""
    collector, device = new_gateway("collector"), new_gateway("device")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    collector.invite(device)
    device.ok("config", "set", "presence.interval_seconds", "1")
    device.start("run", "--no-sensors")
    wait_until(lambda: device.queued() == 0 and presence(collector) == "online", "the device is there")
    return collector, device


def presence(collector: Gateway) -> str:
    """Return how the collector sees the other device."""
    members = collector.json("status")["members"]
    return str(members[0]["presence"]) if members else "unknown"


def test_a_killed_agent_is_gone_by_its_will_and_back(pair: tuple[Gateway, Gateway]) -> None:  # accepts: 002.10
    collector, device = pair
    device.end()  # joined while it ran: from its next connection on it has a collector to leave a will to
    wait_until(lambda: presence(collector) == "stopped", "it has said that it goes")
    device.start("run", "--no-sensors")
    wait_until(lambda: presence(collector) == "online", "it is back")

    device.kill()
    wait_until(lambda: presence(collector) == "gone", "the broker has published its will")
    assert "gone for" in collector.ok("status")
    assert "gone for" in collector.ok("top", "--once", "--interval", "0.1")
    assert 'covey_devices{presence="gone"} 1\n' in collector.ok("metrics")

    device.start("run", "--no-sensors")
    wait_until(lambda: presence(collector) == "online", "it is back")
    assert "online for" in collector.ok("status")


def test_a_replayed_will_changes_nothing(pair: tuple[Gateway, Gateway], broker: Broker) -> None:  # accepts: 002.10
    collector, device = pair
    device.end()
    collector.end()
    spy = RelayClient(broker, username=collector.account)  # a broker that keeps what it carries
    try:
        spy.up()
        device.start("run", "--no-sensors")
        seen = [spy.receive()]
        device.kill()
        while not says_gone(collector, seen[-1]):
            seen.append(spy.receive())
    finally:
        spy.relay.stop()
    collector.ok("relay", "set", "--password-file", "-", feed=spy.password)
    collector.start("collect", "--no-sensors")
    device.start("run", "--no-sensors")
    wait_until(lambda: presence(collector) == "online", "it is there")
    before = collector.json("status")["members"][0]["presence_seconds"]

    attacker = RelayClient(broker)
    try:
        attacker.up()
        for envelope in (seen[-1], *seen):
            attacker.send(spy, envelope)
        device.ok("message", "send", "--text", "after the replay")
        wait_until(lambda: device.queued() == 0, "the collector has taken what came before")
    finally:
        attacker.relay.stop()
    status = collector.json("status")["members"][0]
    assert status["presence"] == "online"
    assert status["presence_seconds"] >= before


def says_gone(collector: Gateway, envelope: bytes) -> bool:
    """Say whether an envelope is a will; only its recipient can."""
    identity = StateFolder.at(collector.state).identity()
    try:
        message = read_message(read_envelope(envelope).open(identity.noise_secret))
    except RemoteError:
        return False
    return message.type is MessageType.PRESENCE and Presence.from_wire(message.body).state is State.GONE
