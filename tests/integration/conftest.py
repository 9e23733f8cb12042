"""A real broker, booted from `broker_conf/`, and devices on it."""

from __future__ import annotations

import queue
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.mqtt.relay import MqttRelay
from covey.ports import Delivered, RelayEvent, RelayUp
from tests.integration.gateway import Gateway
from tests.waiting import take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Event = TypeVar("Event", bound=RelayEvent)


class Device:
    """A relay adapter, and the events that it has delivered, in order."""

    def __init__(
        self, broker: Broker, *, username: str | None = None, password: str | None = None, **options: Any
    ) -> None:
        """Without a user name, a new one; without a password, one of its own on the broker."""
        self.username = username or secrets.token_hex(32)
        self.password = broker.add_device(self.username) if password is None else password
        self.inbox = f"covey/1/in/{self.username}"
        self.relay = self.another_relay(broker.url, **options)
        self.maximum_payload = 0
        self._events: queue.SimpleQueue[RelayEvent] = queue.SimpleQueue()
        self._passed_over: list[RelayEvent] = []

    def another_relay(self, url: str, **options: Any) -> MqttRelay:
        """Build a relay with this device's credential and pauses short enough for a test."""
        options = {"password": self.password, "inbox_topic": self.inbox, **options}
        return MqttRelay("test", url, self.username, retry_s_min=0.02, retry_s_max=0.1, **options)

    def start(self) -> Device:
        """Start, without waiting."""
        self.relay.start(self._events.put)
        return self

    def up(self) -> Device:
        """Start and wait until connected."""
        self.maximum_payload = self.start().wait_for(RelayUp).maximum_payload
        return self

    def wait_for(self, kind: type[Event], accept: Callable[[Event], bool] = lambda _: True) -> Event:
        """Return the next event of a kind; others stay for later."""
        for event in self._passed_over:
            if isinstance(event, kind) and accept(event):
                self._passed_over.remove(event)
                return event
        while True:
            event = take(self._events, f"{kind.__name__} comes")
            if isinstance(event, kind) and accept(event):
                return event
            self._passed_over.append(event)

    def receive(self) -> bytes:
        """Return the next payload delivered, and acknowledge it."""
        delivered = self.wait_for(Delivered)
        self.relay.acknowledge(delivered)
        return delivered.payload

    def send(self, recipient: Device, payload: bytes) -> int:
        """Publish into another device's inbox; it must be taken."""
        handle = self.relay.publish(recipient.inbox, payload)
        assert isinstance(handle, int), handle
        return handle


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of its own for each test."""
    with Broker(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def new_device(broker: Broker) -> Iterator[Callable[..., Device]]:
    """Make devices that have a credential on the broker; they are stopped at the end."""
    made: list[Device] = []

    def make(**options: Any) -> Device:
        made.append(Device(broker, **options))
        return made[-1]

    yield make
    for device in made:
        device.relay.stop()


@pytest.fixture
def new_gateway(broker: Broker, tmp_path: Path) -> Iterator[Callable[[str], Gateway]]:
    """Make gateways that have a credential on the broker; their agents are killed at the end."""
    made: list[Gateway] = []

    def make(name: str) -> Gateway:
        made.append(Gateway(tmp_path, name, broker))
        return made[-1]

    yield make
    for gateway in made:
        gateway.kill()
