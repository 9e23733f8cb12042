"""Topics of a broker as a sensor: MQTT 5, a persistent session, acknowledgements only after the outbox has a reading.

1. A message is acknowledged when all of its readings are committed. Until then it is held, and recognised by its packet
   identifier, topic and payload if the broker repeats it on a new connection (MQTT 5, section 4.4).
2. Its position lists the messages committed last, by identifier and digest, and all that are not acknowledged, as some
   brokers send more than requested: if the broker repeats one to a restarted agent, it is acknowledged and gives no
   reading. This relies on brokers that count identifiers up, as they do; one that reuses them at once causes no false
   repetition. Before a new session delivers anything, the previous position is deleted, in a commit.
3. An acknowledgement belongs to the connection that last delivered its message, because identifiers are reused.
4. Retained messages are not current readings: they are neither requested nor accepted.
5. This class reconnects, because held messages outlive connections; the pause doubles.
6. The sensor's own thread drives the connection; it starts none.
"""

from __future__ import annotations

import itertools
import platform
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from covey.adapters.mqtt.connection import Connection
from covey.adapters.mqtt.posted import Answered, Arrived, ConnectionEvent, ServerUp
from covey.adapters.mqtt.settings import ConnectionSettings
from covey.adapters.mqtt.states import CONNECTION_LOST
from covey.adapters.sensors.topic_values import TopicValues, subscriptions
from covey.errors import SensorError
from covey.limits.sensors import (
    MAXIMUM_SENSOR_LINE_BYTES,
    SENSOR_HELD_MESSAGES,
    SENSOR_READ_SECONDS,
    SENSOR_RETRY_MAXIMUM_SECONDS,
    SENSOR_RETRY_SECONDS,
    SENSOR_SESSION_SECONDS,
    SENSOR_URGENT_MESSAGES,
)
from covey.ports import Measurement

if TYPE_CHECKING:
    import ssl

    from covey.config.sensors import Mqtt
    from covey.core.telemetry.reading import Reading
    from covey.ports import SensorOpening

_KEEPALIVE_S = 30
_ANSWER_S = 10.0
_REFUSED = 0x80
"""Reason codes from here on refuse (MQTT 5, section 2.4)."""
_REPEATABLE = struct.Struct(">H8s")
"""A message that may come once more: its packet identifier and digest."""


@dataclass(slots=True)
class _Held:
    """A message that is not acknowledged yet: what it was, on which connection it came, whether it is committed."""

    digest: bytes
    connection: int
    committed: bool = False


def from_entry(opening: SensorOpening) -> MqttTopics:
    """Open the sensor of an entry."""
    return open_mqtt(opening.name, opening.options, opening.position, lasting=not opening.trial)


def open_mqtt(name: str, options: Mqtt, position: bytes = b"", *, lasting: bool = True) -> MqttTopics:
    """Return the sensor at its position; unless it is `lasting`, it leaves no session at the broker, and disturbs none.

    Raises:
        SensorError: its password cannot be read, or others may read it, or there are no such roots.
    """
    tls = None
    if options.url.startswith("mqtts"):
        import ssl

        try:
            tls = ssl.create_default_context(cafile=options.ca_file or None)
        except OSError as error:  # ssl.SSLError is one
            raise SensorError(f"{options.ca_file} contains no usable certificates: {error}") from error
    # Other topics are another session: in the old one the broker would go on sending for topics of before.
    wanted = blake2b("\n".join(subscriptions(options.topics)).encode(), digest_size=4).hexdigest()
    client_id = (options.client_id or f"covey-{platform.node()}-{name}-{wanted}") if lasting else ""
    return MqttTopics(options, client_id, _password(options.password_file), tls, position)


class MqttTopics:
    """Implements `ports.Sensor`."""

    def __init__(
        self, options: Mqtt, client_id: str, password: str, tls: ssl.SSLContext | None, position: bytes
    ) -> None:
        """Prepare; the connection is made when it is read. An empty `client_id` has no session."""
        self._options = options
        self._name = client_id or "a sensor's broker"
        address = urlsplit(options.url)
        self._settings = ConnectionSettings(
            host=address.hostname or "",
            port=address.port or (8883 if tls else 1883),
            tls=tls,
            client_id=client_id,
            username=options.user_name or None,
            password=password,
            keepalive_s=_KEEPALIVE_S,
            session_expiry_s=SENSOR_SESSION_SECONDS if client_id else 0,
            window=SENSOR_HELD_MESSAGES,
            payload_bytes_max=MAXIMUM_SENSOR_LINE_BYTES,
            connect_s_max=_ANSWER_S,
            clean_start=not client_id,
        )
        self._handles = itertools.count(1)
        self._values = TopicValues(options.topics)
        self._connection: Connection | None = None
        self._generation = 0
        self._why = ""
        self._wait_s = SENSOR_RETRY_SECONDS
        self._retry_at_s = 0.0
        self._held: dict[int, _Held] = {}
        self._readings: list[Reading] = []
        self._new: list[tuple[int, _Held]] = []
        self._committed = dict(
            _REPEATABLE.iter_unpack(position[: len(position) // _REPEATABLE.size * _REPEATABLE.size])
        )
        self._identifiers_reused = False
        self._session_is_new = self._letting_go = False

    def read(self) -> Measurement:
        """Return what was published in the last second."""
        until = time.monotonic() + SENSOR_READ_SECONDS
        if self._connection is None and time.monotonic() >= self._retry_at_s:
            self._connect()
        if self._session_is_new:
            self._session_is_new = False
            return Measurement([], self._why, self._let_go, urgent=True, position=b"")
        while self._connection is not None and not self._new and (left_s := until - time.monotonic()) > 0:
            if not self._connection.turn(left_s):
                self._lost(self._connection)
        if self._connection is None:
            time.sleep(max(0.0, until - time.monotonic()))
        readings, self._readings = self._readings, []
        new, self._new = self._new, []
        failure = self._why or self._values.failure()
        committed = self._release(new) if new else None
        position = self._position(new) if readings and any(held.digest for _, held in new) else None
        urgent = len(self._held) >= SENSOR_URGENT_MESSAGES
        return Measurement(readings, failure, committed, urgent, position, self._values.dropped())

    def close(self) -> None:
        """Leave; what is held stays with the broker."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            while connection.turn():
                pass

    def _connect(self) -> None:
        self._generation += 1
        connection = Connection(self._name, self._generation, self._settings, None, self._handles, self._receive)
        self._connection = connection
        if not connection.open():
            self._lost(connection)

    def _receive(self, event: ConnectionEvent) -> None:
        match event:
            case ServerUp():
                self._connected(session_present=event.session_present)
            case Answered(_, codes) if refused := [each for each in codes if each >= _REFUSED]:
                self._why = f"the broker refuses a subscription (reason 0x{refused[0]:02x})"
            case Arrived():
                self._arrived(event)

    def _connected(self, *, session_present: bool) -> None:
        self._why, self._wait_s = "", SENSOR_RETRY_SECONDS
        if not session_present:
            self._held.clear()  # nothing of it comes once more
            self._identifiers_reused = False
            if self._committed:
                self._committed.clear()
                self._session_is_new = self._letting_go = True
        if not self._letting_go:
            self._subscribe()

    def _let_go(self) -> None:
        self._letting_go = False
        self._subscribe()

    def _subscribe(self) -> None:
        if self._connection is not None:
            self._connection.subscribe(subscriptions(self._options.topics))

    def _arrived(self, message: Arrived) -> None:
        if not message.packet_id:  # QoS 0
            if not message.retained:
                self._readings += self._values.readings(message.topic, message.payload, time.monotonic())
                self._new.append((0, _Held(b"", self._generation)))
            return
        mid = message.packet_id
        digest = blake2b(message.topic.encode() + b"\0" + message.payload, digest_size=8).digest()
        held = self._held.get(mid)
        if message.repeated and held is not None and held.digest == digest:
            held.connection = self._generation
            if held.committed:
                self._acknowledge(mid, held)
            return
        if message.repeated and self._committed.get(mid) == digest:
            self._connection_acknowledges(mid)
            return
        self._identifiers_reused |= not message.repeated and mid in self._committed
        held = self._held[mid] = _Held(digest, self._generation)
        if not message.retained:
            self._readings += self._values.readings(message.topic, message.payload, time.monotonic())
        self._new.append((mid, held))

    def _position(self, messages: list[tuple[int, _Held]]) -> bytes:
        """Return which messages may be repeated once some of them are committed."""
        for mid, held in messages:
            if held.digest:
                self._committed.pop(mid, None)
                self._committed[mid] = held.digest
        acknowledged = [mid for mid in self._committed if mid not in self._held]
        for mid in acknowledged[: max(0, len(self._committed) - SENSOR_HELD_MESSAGES)]:
            del self._committed[mid]
        return (
            b"" if self._identifiers_reused else b"".join(_REPEATABLE.pack(*each) for each in self._committed.items())
        )

    def _release(self, messages: list[tuple[int, _Held]]) -> Callable[[], None]:
        def release() -> None:
            for mid, held in messages:
                held.committed = True
                self._acknowledge(mid, held)

        return release

    def _acknowledge(self, mid: int, held: _Held) -> None:
        if self._held.get(mid) is held and held.connection == self._generation and self._connection is not None:
            self._connection_acknowledges(mid)
            del self._held[mid]

    def _connection_acknowledges(self, mid: int) -> None:
        if self._connection is not None:
            self._connection.acknowledge(mid)

    def _lost(self, connection: Connection) -> None:
        """Close a connection, and remember why it ended; it is opened again after a while."""
        ending = connection.ending
        assert ending is not None
        self._connection = None
        if ending.reason != CONNECTION_LOST or not self._why:  # a broker that hangs up may have said why before
            self._why = ending.reason
        self._retry_at_s = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, SENSOR_RETRY_MAXIMUM_SECONDS)


def _password(file: str) -> str:
    if not file:
        return ""
    path = Path(file)
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SensorError(f"other users can read {file}", hint=f"chmod 600 {file}")
        return path.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SensorError(
            f"{file} cannot be read: {error}", hint="password_file must be readable by the agent's user"
        ) from error
