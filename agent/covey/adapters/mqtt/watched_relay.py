"""A small MQTT 5 relay inside one process, which notes all that its clients do.

It serves `covey conformance`. A broker hides what a client asks for at CONNECT, what it subscribes to and how it
publishes; this relay shows it. It is made for one test, on plain TCP:

1. QoS 0 and 1, sessions that outlive a connection, and no retained messages. Any name and password may connect: what a
   device does wrong is noted, not hindered, so that the test continues.
2. It holds its clients to MQTT 5: a packet that breaks the standard ends the connection, with what was wrong noted.
3. `restart` ends every connection without a word and forgets all sessions, as a relay may at any time.
4. It runs in `turn`, in its caller's thread; nothing here waits for a client.
"""

from __future__ import annotations

import selectors
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

RECEIVE_MAXIMUM = 4
"""Unanswered publishes that the relay announces to accept: few, so that a client that ignores the bound is seen."""
MAXIMUM_PACKET_BYTES = 65_536
"""Largest packet that the relay announces to accept: a message of the largest size must wait."""
_HELD_BYTES = 2_000_000
"""Largest packet that the relay reads all the same, to say how large it was."""
_KEPT_MESSAGES = 10_000
"""Most messages that a session keeps for a client that is away."""

_CONNECT, _CONNACK, _PUBLISH, _PUBACK, _SUBSCRIBE, _SUBACK, _UNSUBSCRIBE, _UNSUBACK, _PINGREQ, _DISCONNECT = (
    *(1, 2, 3, 4, 8, 9, 10, 11, 12, 14),
)
_SESSION_EXPIRY, _MESSAGE_EXPIRY = 17, 2
_USER_PROPERTY, _CONTENT_TYPE, _RESPONSE_TOPIC, _CORRELATION = 38, 3, 8, 9
_PROPERTY_NAMES = {
    _USER_PROPERTY: "user property",
    _CONTENT_TYPE: "content type",
    _RESPONSE_TOPIC: "response topic",
    _CORRELATION: "correlation data",
    _MESSAGE_EXPIRY: "message expiry",
}
_INTEGERS = {
    **dict.fromkeys((1, 23, 25, 36, 37, 40, 41, 42), 1),
    **dict.fromkeys((19, 33, 34, 35), 2),
    **dict.fromkeys((2, 17, 24, 39), 4),
}
"""Properties that are integers, and their bytes (MQTT 5, section 2.2.2.2)."""
_STRINGS = {3, 8, 9, 18, 21, 22, 26, 28, 31}
_SUBSCRIPTION_ID = 11


class _PacketError(Exception):
    """A packet breaks MQTT 5."""


@dataclass(frozen=True, slots=True)
class ClientConnected:
    """A client has sent CONNECT; `protocol` is 5 for MQTT 5."""

    protocol: int
    client_id: str
    user_name: str
    clean_start: bool
    session_expiry_s: int


@dataclass(frozen=True, slots=True)
class ClientSubscribed:
    """A client has asked for a topic; `retained` says that it wants what is retained there."""

    user_name: str
    topic: str
    qos: int
    retained: bool


@dataclass(frozen=True, slots=True)
class ClientPublished:
    """A client has published; `repeated` is MQTT's DUP, `revealing` names properties that tell the relay something."""

    user_name: str
    topic: str
    payload: bytes = field(repr=False)
    qos: int
    retain: bool
    repeated: bool
    revealing: tuple[str, ...]
    packet_bytes: int
    unanswered: int


@dataclass(frozen=True, slots=True)
class ClientAcknowledged:
    """A client has acknowledged a delivery to the relay (PUBACK)."""

    user_name: str
    topic: str
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """A connection has ended; `why` is empty where the client said goodbye, or the relay ended it."""

    user_name: str
    why: str


Observation = ClientConnected | ClientSubscribed | ClientPublished | ClientAcknowledged | ClientLeft


@dataclass(slots=True)
class _Session:
    topics: dict[str, int] = field(default_factory=dict)
    waiting: deque[tuple[str, bytes]] = field(default_factory=deque)
    unanswered: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    next_id: int = 0
    expires: bool = True
    client: _Client | None = None

    def takes(self, topic: str) -> bool:
        return any(_matches(wanted, topic) for wanted in self.topics)


@dataclass(slots=True)
class _Client:
    connection: socket.socket
    read: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    name: str = ""
    session: _Session | None = None
    window: int = 65_535
    held: bytearray = field(default_factory=bytearray)
    unacknowledged: int = 0
    """Publishes of this client that are read and not answered yet."""


class WatchedRelay:
    """Listens on one address; `turn` serves its clients and returns what they did."""

    def __init__(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        try:
            self._listener = socket.create_server((host, port), family=_family(host))
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="name a free port: --listen 127.0.0.1:1884",
            ) from error
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}
        self._sessions: dict[str, _Session] = {}
        self._observed: list[Observation] = []
        self.local_topics: set[str] = set()
        """Topics that somebody in this process reads, from what `turn` returns."""
        self.holds_answers = False
        """Whether publishes are left without PUBACK for now."""
        self.is_away = False
        """Whether every connection is ended at once."""

    @property
    def port(self) -> int:
        """The port in use: the system's choice where 0 was asked for."""
        return int(self._listener.getsockname()[1])

    def turn(self, seconds_max: float) -> list[Observation]:
        """Wait for something to do, do it, and return what clients have done since the last turn."""
        for client in list(self._clients.values()):
            if not self.holds_answers:
                client.unsent += client.held
                client.held.clear()
                client.unacknowledged = 0
            self._flush(client)
        if self._observed:
            seconds_max = 0
        for key, _ in self._selector.select(seconds_max):
            if key.fileobj is self._listener:
                self._accept()
            elif (client := self._clients.get(key.fileobj)) is not None:  # type: ignore[call-overload] # a socket
                self._read(client)
                self._flush(client)
        observed, self._observed = self._observed, []
        return observed

    def deliver(self, topic: str, payload: bytes) -> bool:
        """Give a message to every session that wants it; return whether there is one."""
        wanted = [session for session in self._sessions.values() if session.takes(topic)]
        for session in wanted:
            if len(session.waiting) < _KEPT_MESSAGES:
                session.waiting.append((topic, payload))
            self._hand_over(session)
        return bool(wanted)

    def restart(self) -> None:
        """End every connection without a word, and forget all sessions."""
        for client in list(self._clients.values()):
            self._end(client, "")
        self._sessions.clear()

    def close(self) -> None:
        """End everything."""
        self.restart()
        self._selector.close()
        self._listener.close()

    # -- connections --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if self.is_away:
            connection.close()
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clients[connection] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, client: _Client) -> None:
        try:
            more = client.connection.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        if not more:
            self._end(client, "")
            return
        client.read += more
        try:
            for kind, flags, body, size in _packets(client.read):
                self._take(client, kind, flags, body, size)
                if client.connection not in self._clients:
                    return
        except (_PacketError, IndexError, UnicodeDecodeError) as error:
            self._end(client, str(error) if isinstance(error, _PacketError) else "a packet is cut off or not UTF-8")

    def _flush(self, client: _Client) -> None:
        if not client.unsent or client.connection not in self._clients:
            return
        try:
            del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._end(client, "")

    def _end(self, client: _Client, why: str) -> None:
        if self._clients.pop(client.connection, None) is None:
            return
        self._selector.unregister(client.connection)
        client.connection.close()
        session = client.session
        if session is not None and session.client is client:
            session.client = None
            session.waiting.extendleft(reversed(session.unanswered.values()))
            session.unanswered.clear()
            if session.expires:
                self._sessions.pop(client.name, None)
        self._observed.append(ClientLeft(client.name, why))

    # -- packets ------------------------------------------------------------------------------------------------------

    def _take(self, client: _Client, kind: int, flags: int, body: bytes, size: int) -> None:
        if (client.session is None) != (kind == _CONNECT):
            raise _PacketError("CONNECT must come first, and once")
        reader = _Reader(body)
        if kind == _CONNECT:
            self._connect(client, reader)
        elif kind == _PUBLISH:
            self._publish(client, flags, reader, size)
        elif kind == _PUBACK:
            self._answered(client, reader)
        elif kind == _SUBSCRIBE:
            self._subscribe(client, reader)
        elif kind == _UNSUBSCRIBE:
            self._unsubscribe(client, reader)
        elif kind == _PINGREQ:
            client.unsent += b"\xd0\x00"
        elif kind == _DISCONNECT:
            self._end(client, "")
        else:
            raise _PacketError(f"a client sends no packet of type {kind} here")

    def _connect(self, client: _Client, reader: _Reader) -> None:
        if reader.text() != "MQTT":
            raise _PacketError("CONNECT names another protocol than MQTT")
        protocol, flags = reader.integer(1), reader.integer(1)
        reader.integer(2)
        if protocol != 5:
            self._observed.append(ClientConnected(protocol, "", "", bool(flags & 2), 0))
            client.unsent += b"\x20\x02\x00\x01"  # MQTT 3.1.1's: unacceptable protocol version
            self._flush(client)
            self._end(client, "")
            return
        properties = reader.properties()
        client_id = reader.text()
        if flags & 4:
            reader.properties()
            reader.text()
            reader.octets()
        user_name = reader.text() if flags & 128 else ""
        expiry = properties.get(_SESSION_EXPIRY, 0)
        client.window = properties.get(33, 65_535)
        client.name = client_id
        known = self._sessions.get(client_id)
        if known is not None and known.client is not None:
            self._end(known.client, "")
            known = self._sessions.get(client_id)
        clean = bool(flags & 2)
        session = _Session() if clean or known is None else known
        session.client, session.expires = client, not expiry
        self._sessions[client_id] = session
        client.session = session
        self._observed.append(ClientConnected(protocol, client_id, user_name, clean, expiry))
        granted = b"\x21" + RECEIVE_MAXIMUM.to_bytes(2) + b"\x27" + MAXIMUM_PACKET_BYTES.to_bytes(4) + b"\x25\x00"
        client.unsent += _packet(_CONNACK, 0, bytes([session is known, 0]) + _varint(len(granted)) + granted)
        self._hand_over(session)

    def _publish(self, client: _Client, flags: int, reader: _Reader, size: int) -> None:
        qos, topic = flags >> 1 & 3, reader.text()
        packet_id = reader.integer(2) if qos else 0
        properties = reader.properties()
        if qos > 1:
            raise _PacketError("QoS 2 is not served")
        client.unacknowledged += qos
        names = tuple(name for each, name in _PROPERTY_NAMES.items() if each in properties)
        self._observed.append(
            ClientPublished(
                *(client.name, topic, reader.rest(), qos, bool(flags & 1), bool(flags & 8), names, size),
                client.unacknowledged,
            )
        )
        found = self.deliver(topic, reader.rest()) or topic in self.local_topics
        if qos:
            client.held += _packet(_PUBACK, 0, packet_id.to_bytes(2) + (b"" if found else b"\x10"))

    def _answered(self, client: _Client, reader: _Reader) -> None:
        session = client.session
        assert session is not None
        delivered = session.unanswered.pop(reader.integer(2), None)
        if delivered is not None:
            self._observed.append(ClientAcknowledged(client.name, *delivered))
        self._hand_over(session)

    def _subscribe(self, client: _Client, reader: _Reader) -> None:
        assert client.session is not None
        packet_id = reader.integer(2)
        reader.properties()
        codes = bytearray()
        while reader.left:
            topic, options = reader.text(), reader.integer(1)
            qos = min(1, options & 3)
            client.session.topics[topic] = qos
            codes.append(qos)
            self._observed.append(ClientSubscribed(client.name, topic, options & 3, options >> 4 & 3 != 2))
        client.unsent += _packet(_SUBACK, 0, packet_id.to_bytes(2) + b"\0" + codes)

    def _unsubscribe(self, client: _Client, reader: _Reader) -> None:
        assert client.session is not None
        packet_id = reader.integer(2)
        reader.properties()
        codes = bytearray()
        while reader.left:
            codes.append(0 if client.session.topics.pop(reader.text(), None) is not None else 0x11)
        client.unsent += _packet(_UNSUBACK, 0, packet_id.to_bytes(2) + b"\0" + codes)

    def _hand_over(self, session: _Session) -> None:
        client = session.client
        while client is not None and session.waiting and len(session.unanswered) < client.window:
            topic, payload = session.waiting.popleft()
            session.next_id = session.next_id % 65_535 + 1
            session.unanswered[session.next_id] = topic, payload
            head = _text(topic) + session.next_id.to_bytes(2) + b"\0"
            client.unsent += _packet(_PUBLISH, 2, head + payload)


class _Reader:
    """What is left of a packet's body."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    @property
    def left(self) -> bool:
        return self._at < len(self._body)

    def _take(self, size: int) -> bytes:
        if self._at + size > len(self._body):
            raise _PacketError("a packet is shorter than it says")
        self._at += size
        return self._body[self._at - size : self._at]

    def integer(self, size: int) -> int:
        return int.from_bytes(self._take(size))

    def octets(self) -> bytes:
        return self._take(self.integer(2))

    def text(self) -> str:
        return self.octets().decode()

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.integer(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def properties(self) -> dict[int, int]:
        """Return the properties; 1 for each whose value is not a number."""
        length = self.varint()
        end = self._at + length
        found = dict[int, int]()
        while self._at < end:
            name = self.varint()
            if name in _INTEGERS:
                found[name] = self.integer(_INTEGERS[name])
            elif name == _SUBSCRIPTION_ID:
                found[name] = self.varint()
            elif name in _STRINGS or name == _USER_PROPERTY:
                for _ in range(2 if name == _USER_PROPERTY else 1):
                    self.octets()
                found[name] = 1
            else:
                raise _PacketError(f"MQTT 5 has no property {name}")
        return found

    def rest(self) -> bytes:
        return self._body[self._at :]


def _packets(read: bytearray) -> Iterator[tuple[int, int, bytes, int]]:
    """Take whole packets off what was read: (type, flags, body, size of the packet)."""
    while len(read) > 1:
        length = shift = 0
        for at in range(1, 5):
            if at >= len(read):
                return
            length |= (read[at] & 127) << shift
            shift += 7
            if read[at] < 128:
                break
        else:
            raise _PacketError("the length of a packet has more than four bytes")
        if length > _HELD_BYTES:
            raise _PacketError(f"a packet of {length} bytes, where the relay announced {MAXIMUM_PACKET_BYTES}")
        size = at + 1 + length
        if len(read) < size:
            return
        first, body = read[0], bytes(read[at + 1 : size])
        del read[:size]
        yield first >> 4, first & 15, body, size


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(out)


def _text(text: str) -> bytes:
    return len(text.encode()).to_bytes(2) + text.encode()


def _packet(kind: int, flags: int, body: bytes) -> bytes:
    return bytes([kind << 4 | flags]) + _varint(len(body)) + body


def _matches(wanted: str, topic: str) -> bool:
    """Say whether a topic is one of those that a subscription asks for (MQTT 5, section 4.7)."""
    asked, named = wanted.split("/"), topic.split("/")
    if asked[-1] == "#":
        asked.pop()
        named = named[: len(asked)]
    return len(asked) == len(named) and all(one in {"+", other} for one, other in zip(asked, named, strict=True))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
