"""`CONNECTION`: in each state each event leads where the table says, or changes nothing; no server is needed."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from covey.adapters.mqtt.connection import Connection
from covey.adapters.mqtt.posted import Subscriptions
from covey.adapters.mqtt.settings import ConnectionSettings
from covey.adapters.mqtt.states import (
    CONNECTION,
    Accepting,
    Closing,
    ConnectionEnding,
    Ended,
    Event,
    Opening,
    State,
    Subscribing,
    Up,
)
from covey.errors import LocalError

SETTINGS = ConnectionSettings(
    host="127.0.0.1",
    port=1,
    tls=None,
    client_id="device",
    username="device",
    password="",
    keepalive_s=60,
    session_expiry_s=0,
    window=10,
    payload_bytes_max=1_000,
    connect_s_max=10.0,
    resubscribe_s=300.0,
)
STATES: Mapping[type, State] = {
    Opening: Opening(),
    Accepting: Accepting(math.inf),
    Subscribing: Subscribing(math.inf),
    Up: Up(math.inf, 0.0),
    Closing: Closing(math.inf),
    Ended: Ended(ConnectionEnding("the first reason", up_s=7.0)),
}


@contextmanager
def _connection(state: State) -> Iterator[Connection]:
    made = Connection("relay", 1, SETTINGS, Subscriptions("covey/1/in/x"), itertools.count(1), lambda _: None)
    made._state = state
    try:
        yield made
    finally:
        made.abandon()


def _accepted(connection: Connection) -> None:
    flags = paho.ConnectFlags(session_present=False)
    connection._on_connect(None, None, flags, ReasonCode(PacketTypes.CONNACK, "Success"), None)


def _granted(connection: Connection) -> None:
    connection._on_subscribe(None, None, 1, [ReasonCode(PacketTypes.SUBACK, "Granted QoS 1")], None)


def _refused(connection: Connection) -> None:
    flags = paho.DisconnectFlags(is_disconnect_packet_from_server=True)
    connection._on_disconnect(None, None, flags, ReasonCode(PacketTypes.DISCONNECT, "Not authorized"), None)


def _due(connection: Connection) -> None:
    if connection._state.deadline_s < math.inf or not isinstance(connection._state, Opening | Ended):
        connection._state = replace(connection._state, deadline_s=time.monotonic())
    connection._keep_deadlines()


def _posted(post: Callable[[Connection], None]) -> Callable[[Connection], None]:
    def do(connection: Connection) -> None:
        if not isinstance(connection._state, Opening):  # nothing posted is read before that
            post(connection)
            connection._do_posted()

    return do


EVENTS: Mapping[Event, Callable[[Connection], object]] = {
    Event.OPENED: lambda connection: connection._move(Event.OPENED, Accepting(0.0)),
    Event.ACCEPTED: _accepted,
    Event.GRANTED: _granted,
    Event.RENEW: _posted(Connection.renew_subscription),
    Event.DUE: _due,
    Event.CLOSE: _posted(Connection.close),
    Event.END: _refused,
}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", CONNECTION)
def test_a_connection_goes_where_its_table_says(state: type, event: Event) -> None:
    with _connection(STATES[state]) as connection:
        following = CONNECTION[state].get(event, state)
        if event is Event.OPENED and state is not Opening:
            with pytest.raises(LocalError):
                EVENTS[event](connection)
        else:
            EVENTS[event](connection)
        assert type(connection._state) is following


def test_events_after_the_end_change_nothing() -> None:
    for event in CONNECTION[Ended]:
        with _connection(STATES[Ended]) as connection:
            EVENTS[event](connection)
            assert connection._state == STATES[Ended]


def test_a_renewal_keeps_the_time_of_being_up() -> None:
    with _connection(Up(0.0, 5.0)) as connection:
        _due(connection)
        renewed = connection._state
        assert isinstance(renewed, Up)
        assert renewed.since_s == 5.0
        assert renewed.deadline_s > time.monotonic() + SETTINGS.resubscribe_s - 60


def test_the_error_names_the_state_in_which_a_slow_server_was_left() -> None:
    with _connection(Accepting(0.0)) as connection:
        connection._keep_deadlines()
        ended = connection._state
        assert isinstance(ended, Ended)
        assert (
            ended.ending.reason == "the server did not accept the connection in time; perhaps it does not speak MQTT 5"
        )
