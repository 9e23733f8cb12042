"""Counts the bytes of connections on the wire, as far as a process without privileges can know them.

1. MQTT's bytes are counted at the socket (`BufferedSocket`).
2. Linux tells of each TCP connection what it has carried: bytes with TLS and what was sent again, and segments
   (`TCP_INFO`, tcp(7)). Each segment costs its TCP and IP headers, with the timestamps that Linux negotiates.
3. Where a system does not tell, TLS records and segments are estimated from the bytes of MQTT.
4. What no socket tells is estimated: the end of a connection, and one that did not come about.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.limits.link import WINDOW_COST_BYTES

if TYPE_CHECKING:
    from covey.adapters.mqtt.buffered_socket import BufferedSocket

_TCP_BYTES, _TIMESTAMP_BYTES, _IP_BYTES = 20, 12, {socket.AF_INET: 20, socket.AF_INET6: 40}
_TIMESTAMPS = 1
"""`TCPI_OPT_TIMESTAMPS`."""
_INFO = struct.Struct("=5xB114xQQII")
"""Of `struct tcp_info` (linux/tcp.h): options, bytes acked and received, segments sent and received."""
_SENT = struct.Struct("=200xQ")
"""...and bytes sent, with what was sent again."""
_ENDING_SEGMENTS = 5
"""FIN and its answer both ways, and the last data: after the last look at a socket."""
_ENDING_BYTES = 64
"""DISCONNECT and what is under way by then, and TLS's close_notify both ways."""
_FAILED_BYTES, _FAILED_TLS_BYTES = 400, 6_000
"""A connection that is not answered (SYN three times, a query for the name), or ends in the handshake."""
_OPENING_BYTES = 300
"""A query for the name over UDP, and the options of the first segments."""
_RECORD_BYTES, _HANDSHAKE_BYTES, _SEGMENT_DATA = 22, 4_000, 1_400
"""TLS 1.3 adds so much to a record, and at most so much to a connection; rule 3."""


@dataclass(frozen=True, slots=True)
class WireBytes:
    """What connections have carried, both ways together."""

    mqtt: int = 0
    tls: int = 0
    tcp: int = 0
    """Headers of TCP and IP, and segments that were sent again."""
    connections: int = 0

    def __add__(self, other: WireBytes) -> WireBytes:
        """Return the sum."""
        return WireBytes(
            self.mqtt + other.mqtt,
            self.tls + other.tls,
            self.tcp + other.tcp,
            self.connections + other.connections,
        )

    @property
    def total(self) -> int:
        """All bytes."""
        return self.mqtt + self.tls + self.tcp


class WireMeter:
    """Adds up what the connections of all relays have carried; any thread may note and take."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = WireBytes()
        self._left: int | None = None

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may be carried."""
        return self._left is not None and self._left <= 0

    @property
    def is_limited(self) -> bool:
        """Whether only so much may be carried, so that each byte is to be noted soon."""
        return self._left is not None

    @property
    def pays_for_connection(self) -> bool:
        """Whether enough is left for another connection."""
        return self._left is None or self._left >= WINDOW_COST_BYTES

    def allow(self, left: int | None) -> None:
        """Allow so many bytes from now on; None: any number. What is not taken yet counts against them."""
        with self._lock:
            self._left = None if left is None else left - self._bytes.total

    def note(self, more: WireBytes) -> None:
        """Add some."""
        with self._lock:
            self._bytes += more
            if self._left is not None:
                self._left -= more.total

    def take(self) -> WireBytes:
        """Return what was noted since the last time."""
        with self._lock:
            taken, self._bytes = self._bytes, WireBytes()
        return taken


class ConnectionMeter:
    """Looks at the socket of one connection, and notes what it has carried since the last look."""

    def __init__(self, meter: WireMeter, connected: BufferedSocket, *, encrypted: bool) -> None:
        self._meter = meter
        self._connected = connected
        self._encrypted = encrypted
        self._noted = WireBytes()
        meter.note(WireBytes(tcp=_OPENING_BYTES, connections=1))

    def look(self) -> None:
        """Note what has been carried since the last look."""
        seen, before = self._seen(), self._noted
        grown = WireBytes(max(0, seen.mqtt - before.mqtt), max(0, seen.tls - before.tls), max(0, seen.tcp - before.tcp))
        self._noted = before + grown
        self._meter.note(grown)

    def end(self) -> None:
        """Note the rest, before the socket is closed."""
        self.look()
        header = _IP_BYTES[socket.AF_INET6] + _TCP_BYTES + _TIMESTAMP_BYTES
        self._meter.note(
            WireBytes(
                self._connected.unsent_bytes + _ENDING_BYTES, _ENDING_BYTES * self._encrypted, _ENDING_SEGMENTS * header
            )
        )

    def _seen(self) -> WireBytes:
        connected = self._connected
        mqtt = connected.received_bytes + connected.sent_bytes
        reported = _tcp_info(connected)
        if reported is None:
            segments = 2 * (mqtt // _SEGMENT_DATA + connected.calls)
            tls = (_HANDSHAKE_BYTES + connected.calls * _RECORD_BYTES) if self._encrypted else 0
            return WireBytes(mqtt, tls, segments * (_IP_BYTES[socket.AF_INET6] + _TCP_BYTES + _TIMESTAMP_BYTES))
        payload, segments, header = reported
        return WireBytes(mqtt, max(0, payload - mqtt), segments * header)


def failed(meter: WireMeter, *, encrypted: bool) -> None:
    """Note a connection that did not come about, which no socket tells of any more."""
    meter.note(WireBytes(tls=_FAILED_TLS_BYTES if encrypted else 0, tcp=_FAILED_BYTES))


def _tcp_info(connected: BufferedSocket) -> tuple[int, int, int] | None:
    """Return bytes above TCP, segments, and the size of their headers; None where the system does not tell."""
    plain = connected.connected
    if not sys.platform.startswith("linux") or plain.family not in _IP_BYTES:
        return None
    try:
        reported = plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return None
    if len(reported) < _INFO.size:
        return None
    options, acked, received, sent_segments, received_segments = _INFO.unpack_from(reported)
    sent = _SENT.unpack_from(reported)[0] if len(reported) >= _SENT.size else 0
    header = _IP_BYTES[plain.family] + _TCP_BYTES + (_TIMESTAMP_BYTES if options & _TIMESTAMPS else 0)
    return max(sent, acked) + received, sent_segments + received_segments, header
