"""`covey.adapters.mqtt.lean_paho`: tables and packets are those of MQTT 5; what paho does without, others still get."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from paho.mqtt import MQTTException
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from covey.adapters.mqtt.buffered_socket import BufferedSocket
from covey.adapters.mqtt.connection import Connection
from covey.adapters.mqtt.lean_paho import publish_properties
from covey.adapters.mqtt.posted import Answered, Arrived, ConnectionEvent
from covey.adapters.mqtt.settings import ConnectionSettings
from covey.core.link.sealer import NOT_KEPT


def _properties(packet_type: int) -> Any:
    return Properties(packet_type)


def test_properties_share_tables_and_no_values() -> None:
    expiring, plain = _properties(PacketTypes.PUBLISH), _properties(PacketTypes.PUBLISH)
    expiring.MessageExpiryInterval = 5
    assert expiring.pack() == b"\x05\x02\x00\x00\x00\x05"
    assert plain.isEmpty()
    assert plain.names is expiring.names


def test_properties_that_came_are_read_and_checked() -> None:
    came = _properties(PacketTypes.CONNACK)
    came.unpack(b"\x05\x21\x00\x14\x24\x01")
    assert (came.ReceiveMaximum, came.MaximumQoS) == (20, 1)
    with pytest.raises(MQTTException):
        _properties(PacketTypes.PUBLISH).ReceiveMaximum = 20


_IMPORTS_WHILE_PAHO_LOADS = """
import sys

class AnotherThread:
    def find_spec(self, name, path=None, target=None):
        if name == "socks" and "paho.mqtt.client" in sys.modules and "logging" not in sys.modules:
            import logging
            import urllib.request
            logging.getLogger("zeroconf").addHandler(logging.NullHandler())
            print(urllib.request.Request.__name__)

sys.meta_path.insert(0, AnotherThread())
import covey.adapters.mqtt.lean_paho
"""


@pytest.mark.processes
def test_another_thread_that_imports_while_paho_loads_gets_the_whole_modules() -> None:
    """Replacing them in `sys.modules` for a moment once ended the import of zeroconf in a `RecursionError`."""
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTS_WHILE_PAHO_LOADS], check=False, capture_output=True, text=True
    )
    assert (ended.stdout, ended.stderr) == ("Request\n", "")


def test_a_publish_is_written_as_paho_writes_it(reading: Reading) -> None:
    client = reading.client
    for lifetime_s, alias, qos in ((0, 0, 1), (5, 3, 1), (NOT_KEPT, 3, 0), (0, 0, 0)):
        theirs = _properties(PacketTypes.PUBLISH)
        if lifetime_s > 0:
            theirs.MessageExpiryInterval = lifetime_s
        if alias:
            theirs.TopicAlias = alias
        for payload in (b"", b"hi", bytes(300)):
            mid = client.send_publish(b"topic", payload, qos, publish_properties(lifetime_s, alias), retain=bool(alias))
            client._send_publish(mid, b"topic", payload, qos, bool(alias), False, None, theirs)
            ours, expected = client._out_packet.popleft(), client._out_packet.popleft()
            assert ours["packet"] == expected["packet"]


def test_received_properties_replace_earlier_ones() -> None:
    came = _properties(PacketTypes.PUBLISH)
    assert came.unpack(b"\x03\x23\x00\x05rest")[1] == 4
    assert came.unpack(b"\x00rest")[1] == 1
    assert came.isEmpty()
    assert came.unpack(b"\x00rest")[1] == 1


_ACKNOWLEDGED = b"\x40\x02\x00\x07"
_REFUSED = b"\x40\x03\x00\x08\x97"
_PACKETS = [
    _ACKNOWLEDGED,
    _REFUSED,
    b"\x40\x04\x00\x0c\x10\x00",  # with a reason and no properties
    b"\x40\x02\x00\x09",  # for nothing that waits
    b"\x30\x06\x00\x01t\x00hi",
    b"\x3b\x08\x00\x01t\x00\x05\x00hi",  # QoS 1, repeated and retained
    b"\x32\x0b\x00\x01t\x00\x06\x03\x23\x00\x02hi",  # with an alias
    b"\x30\x06\x00\x01\xff\x00hi",  # a topic that is no text
    b"\x32\x05\x00\x00\x00\x0b\x00",
    b"\x30\xcc\x01\x00\x01t\x00" + bytes(200),
]
_EVENTS: list[ConnectionEvent] = [
    Answered(70, (0,)),
    Answered(80, (0x97,)),
    Answered(120, (0x10,)),
    Arrived(0, "t", b"hi", repeated=False, retained=False),
    Arrived(5, "t", b"hi", repeated=True, retained=True),
    Arrived(6, "t", b"hi", repeated=False, retained=False),
    Arrived(0, "", b"hi", repeated=False, retained=False),
    Arrived(11, "", b"", repeated=False, retained=False),
    Arrived(0, "t", bytes(200), repeated=False, retained=False),
]


class Reading:
    """A connection that nobody has opened, on a socket of its own, and what it delivers."""

    def __init__(self, theirs: socket.socket, ours: socket.socket) -> None:
        self.theirs = theirs
        self.events: list[ConnectionEvent] = []
        settings = ConnectionSettings("localhost", 1883, None, "c", None, "", 60, 0, 20, 1_000, 1.0)
        connection = Connection("relay", 1, settings, None, itertools.count(1), self.events.append)
        self._connection, self.client = connection, connection._client
        self.client._sock = BufferedSocket(ours, 1.0)
        for mid in (7, 8, 12):
            connection._handle_of[mid] = 10 * mid

    def read(self) -> MQTTErrorCode:
        """Read what has come, as far as it is whole packets."""
        for _ in range(100):
            code = self.client.loop_read()
            if code:
                return code
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def close(self) -> None:
        """Close both ends."""
        self._connection.abandon()
        self.theirs.close()


@pytest.fixture
def reading() -> Iterator[Reading]:
    theirs, ours = socket.socketpair()
    ours.setblocking(False)
    reading = Reading(theirs, ours)
    yield reading
    reading.close()


@pytest.mark.parametrize("piece", [1, 3, 11, 1_000])
def test_packets_mean_the_same_whole_and_in_pieces(reading: Reading, piece: int) -> None:
    sent = b"".join(_PACKETS)
    for begin in range(0, len(sent), piece):
        reading.theirs.sendall(sent[begin : begin + piece])
        assert reading.read() == MQTTErrorCode.MQTT_ERR_SUCCESS
    assert reading.events == _EVENTS


@pytest.mark.parametrize(
    "broken",
    [b"\x40\x01\x00", b"\x32\x04\x00\x01t\x00", b"\x30\x02\x00\x09", b"\xf8\x01\x00", b"\x30\x80\x80\x80\x80\x01"],
)
def test_broken_packets_end_the_connection(reading: Reading, broken: bytes) -> None:
    reading.theirs.sendall(_ACKNOWLEDGED + broken)
    assert reading.read() != MQTTErrorCode.MQTT_ERR_SUCCESS
    assert reading.events == [Answered(70, (0,))]
