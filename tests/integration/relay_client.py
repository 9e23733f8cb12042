"""A relay adapter on a real broker, without the device behind it."""

from __future__ import annotations

import queue
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from covey.adapters.mqtt.relay import MqttRelay
from covey.ports import Delivered, RelayEvent, RelayUp
from tests.waiting import take

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_conf.mosquitto import Broker

Event = TypeVar("Event", bound=RelayEvent)


class RelayClient:
    """A relay adapter, and the events that it has delivered, in order."""

    def __init__(
        self, broker: Broker, *, username: str | None = None, password: str | None = None, **options: Any
    ) -> None:
        """Without a user name, a new one; without a password, one of its own on the broker."""
        self.username = username or secrets.token_hex(16)
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

    def start(self) -> RelayClient:
        """Start, without waiting."""
        self.relay.start(self._events.put)
        return self

    def up(self) -> RelayClient:
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

    def send(self, recipient: RelayClient, payload: bytes) -> int:
        """Publish into another device's inbox; it must be taken."""
        handle = self.relay.publish(recipient.inbox, payload)
        assert isinstance(handle, int), handle
        return handle
