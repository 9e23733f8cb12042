"""The relay that shows what its clients do, with the agent's own client and with packets written by hand."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from covey.adapters.mqtt.relay import MqttRelay
from covey.adapters.mqtt.watched_relay import (
    RECEIVE_MAXIMUM,
    ClientAcknowledged,
    ClientConnected,
    ClientLeft,
    ClientPublished,
    ClientSubscribed,
    Observation,
    WatchedRelay,
)
from covey.core.link.sealer import NOT_KEPT
from covey.errors import ConfigurationError
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent, RelayUp, Released
from tests.waiting import GUARD_S

USER = "ab" * 16
INBOX = f"covey/1/in/{USER}"


class _Client:
    """The agent's client on a relay that its test turns."""

    def __init__(self, relay: WatchedRelay) -> None:
        self.relay, self.events = relay, queue.SimpleQueue[RelayEvent]()
        self.observed: list[Observation] = []
        self.client = MqttRelay("test", f"mqtt://127.0.0.1:{relay.port}", USER, "", INBOX, retry_s_min=0.02)
        self.client.start(self.events.put)

    def next(self, kind: type[RelayEvent]) -> RelayEvent:
        """Turn the relay until its client says something of a kind."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            self.observed += self.relay.turn(0.01)
            if not self.events.empty() and isinstance(event := self.events.get(), kind):
                return event
        raise AssertionError(f"no {kind.__name__}")

    def observe(self, kind: type[Observation]) -> Observation:
        """Turn the relay until it has seen its client do something of a kind."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            for event in self.observed:
                if isinstance(event, kind):
                    self.observed.remove(event)
                    return event
            self.observed += self.relay.turn(0.01)
        raise AssertionError(f"no {kind.__name__}")


@pytest.fixture
def relay() -> Iterator[WatchedRelay]:
    """A relay on a port of its own."""
    with closing(WatchedRelay("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def client(relay: WatchedRelay) -> Iterator[_Client]:
    """A client that is up."""
    made = _Client(relay)
    made.next(RelayUp)
    yield made
    made.client.stop()


def test_it_shows_how_a_client_connects_and_what_it_subscribes_to(client: _Client) -> None:
    assert client.observe(ClientConnected) == ClientConnected(5, USER, USER, False, 7 * 86_400)
    assert client.observe(ClientSubscribed) == ClientSubscribed(USER, INBOX, 1, False)


def test_it_carries_messages_and_shows_them(client: _Client) -> None:
    assert isinstance(client.client.publish(INBOX, b"to myself", lifetime_s=60), int)
    published = client.observe(ClientPublished)
    assert isinstance(published, ClientPublished)
    assert (published.payload, published.qos, published.retain) == (b"to myself", 1, False)
    assert published.revealing == ("message expiry",)
    delivered = client.next(Delivered)
    assert isinstance(delivered, Delivered)
    assert delivered.payload == b"to myself"
    client.client.acknowledge(delivered)
    assert client.observe(ClientAcknowledged) == ClientAcknowledged(USER, INBOX, b"to myself")


def test_what_is_not_kept_goes_unacknowledged(client: _Client) -> None:
    handle = client.client.publish(INBOX, b"now or never", lifetime_s=NOT_KEPT)
    published = client.observe(ClientPublished)
    assert isinstance(published, ClientPublished)
    assert (published.payload, published.qos, published.unanswered) == (b"now or never", 0, 0)
    released = client.next(Released)  # the place in the window is free as soon as it has left
    assert isinstance(released, Released)
    assert released.handle == handle


def test_a_session_keeps_messages_and_a_restart_forgets_it(relay: WatchedRelay, client: _Client) -> None:
    assert relay.deliver(INBOX, b"first")
    client.next(Delivered)  # never acknowledged: it comes once more
    client.client.stop()
    client.observe(ClientLeft)
    assert relay.deliver(INBOX, b"second")
    back = _Client(relay)
    assert [back.next(Delivered).payload, back.next(Delivered).payload] == [b"first", b"second"]  # type: ignore[union-attr]
    relay.restart()
    assert not relay.deliver(INBOX, b"nobody has subscribed")
    back.next(RelayDown)
    back.next(RelayUp)
    assert relay.deliver(INBOX, b"third")
    assert back.next(Delivered).payload == b"third"  # type: ignore[union-attr]
    back.client.stop()


def test_nobody_connects_while_it_is_away(relay: WatchedRelay, client: _Client) -> None:
    relay.is_away = True
    relay.restart()
    client.next(RelayDown)
    client.observed.clear()
    for _ in range(20):
        client.observed += relay.turn(0.02)
    assert not any(isinstance(event, ClientConnected) for event in client.observed)
    relay.is_away = False
    client.next(RelayUp)


def test_publishes_stay_unanswered_while_it_holds_answers(relay: WatchedRelay, client: _Client) -> None:
    relay.holds_answers = True
    taken = [client.client.publish(INBOX, bytes([each])) for each in range(RECEIVE_MAXIMUM + 1)]
    assert taken[-1] is PublishRefusal.WINDOW_FULL
    most = 0
    while most < RECEIVE_MAXIMUM:
        published = client.observe(ClientPublished)
        assert isinstance(published, ClientPublished)
        most = published.unanswered
    assert most == RECEIVE_MAXIMUM


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        (b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04name", ClientConnected(4, "", "", True, 0)),
        (b"\x30\x03\x00\x01a", ClientLeft("", "CONNECT must come first, and once")),
        (b"\x10\xff\xff\xff\xff", ClientLeft("", "the length of a packet has more than four bytes")),
        (b"\x10\x06\x00\x04HTTP", ClientLeft("", "CONNECT names another protocol than MQTT")),
        (b"\x10\x04\x00\x04MQ", ClientLeft("", "a packet is shorter than it says")),
    ],
)
def test_packets_that_break_mqtt_5_are_named(relay: WatchedRelay, packets: bytes, expected: Observation) -> None:
    with socket.create_connection(("127.0.0.1", relay.port)) as connection:
        connection.sendall(packets)
        seen: list[Observation] = []
        deadline = time.monotonic() + GUARD_S
        while not seen and time.monotonic() < deadline:
            seen = relay.turn(0.05)
    assert expected in seen


def test_a_port_in_use_is_an_error_with_a_hint(relay: WatchedRelay) -> None:
    with pytest.raises(ConfigurationError, match="cannot listen on") as error:
        WatchedRelay("127.0.0.1", relay.port)
    assert "--listen" in error.value.hint


def test_a_resumed_session_is_not_subscribed_to_again(client: _Client) -> None:
    assert isinstance(client.observe(ClientSubscribed), ClientSubscribed)
    connection = client.client._connection
    assert connection is not None
    connection.drop()
    client.next(RelayDown)
    up = client.next(RelayUp)
    assert isinstance(up, RelayUp)
    assert up.session_present
    client.client.renew_subscription()  # as where answers are missing
    client.observe(ClientSubscribed)
    assert not [event for event in client.observed if isinstance(event, ClientSubscribed)]


def test_a_new_session_is_subscribed_to(client: _Client) -> None:
    client.observe(ClientSubscribed)
    client.relay.restart()
    client.next(RelayUp)
    client.observe(ClientSubscribed)
