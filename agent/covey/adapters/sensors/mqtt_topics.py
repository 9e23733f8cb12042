"""Topics of a broker as a sensor: MQTT 5, a session that lasts, and no acknowledgement before the outbox has a reading.

1. A message is acknowledged when all of its readings are committed. Until then it is held, and known by its packet
   identifier, topic and payload where the broker sends it once more on a new connection (MQTT 5, section 4.4).
2. Its position is which messages were committed last, by identifier and digest, and all that are not acknowledged, as
   some brokers send more than they are asked for: what of them the broker sends once more to a next life of the agent
   is acknowledged and no reading. It holds for brokers that count identifiers up, as they
   do; at one that uses them anew at once nothing is taken for a repetition. Before a new session brings anything, the
   position of the one before is let go of, in a commit.
3. An acknowledgement belongs to the connection on which its message last came: identifiers are used anew.
4. What a broker has retained is no reading of now, and is neither asked for nor taken.
5. Connections end and come back here, for what is held must outlive them; the pause doubles.
6. The sensor's own thread drives paho; it starts none.
"""

from __future__ import annotations

import platform
import ssl
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from covey.adapters.sensors.topic_values import TopicValues
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
    from paho.mqtt.reasoncodes import ReasonCode

    from covey.config.sensors import Mqtt
    from covey.core.telemetry.senml import Reading

_KEEPALIVE_S = 30
_ANSWER_S = 10.0
_ONLY_LIVE = 2
"""Retain handling: what is retained is not sent (MQTT 5, section 3.8.3.1)."""
_REPEATABLE = struct.Struct(">H8s")
"""A message that may come once more: its packet identifier and digest."""


@dataclass(slots=True)
class _Held:
    """A message that is not acknowledged yet: what it was, on which connection it came, whether it is committed."""

    digest: bytes
    connection: int
    committed: bool = False


def open_mqtt(name: str, options: Mqtt, position: bytes = b"", *, lasting: bool = True) -> MqttTopics:
    """Return the sensor at its position; unless it is `lasting`, it leaves no session at the broker, and disturbs none.

    Raises:
        SensorError: its password cannot be read, or others may read it, or there are no such roots.
    """
    try:
        tls = ssl.create_default_context(cafile=options.ca_file or None) if options.url.startswith("mqtts") else None
    except (OSError, ssl.SSLError) as error:
        raise SensorError(f"{options.ca_file} has no certificates to believe: {error}") from error
    client_id = (options.client_id or f"covey-{platform.node()}-{name}") if lasting else ""
    return MqttTopics(options, client_id, _password(options.password_file), tls, position)


class MqttTopics:
    """Implements `ports.Sensor`."""

    def __init__(
        self, options: Mqtt, client_id: str, password: str, tls: ssl.SSLContext | None, position: bytes
    ) -> None:
        """Prepare; the connection is made when it is read. An empty `client_id` has no session."""
        self._options = options
        self._client_id = client_id
        self._password = password
        self._tls = tls
        self._values = TopicValues(options.topics)
        self._client: paho.Client | None = None
        self._connection = 0
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
        if self._client is None and time.monotonic() >= self._retry_at_s:
            self._connect()
        if self._session_is_new:
            self._session_is_new = False
            return Measurement([], self._why, self._let_go, urgent=True, position=b"")
        while self._client is not None and not self._new and (left_s := until - time.monotonic()) > 0:
            if self._client.loop(left_s) != paho.MQTT_ERR_SUCCESS:
                self._lost("the connection to the broker is lost")
        if self._client is None:
            time.sleep(max(0.0, until - time.monotonic()))
        readings, self._readings = self._readings, []
        new, self._new = self._new, []
        failure = self._why or self._values.failure()
        committed = self._release(new) if new else None
        position = self._position(new) if readings and any(held.digest for _, held in new) else None
        urgent = len(self._held) >= SENSOR_URGENT_MESSAGES
        return Measurement(readings, failure, committed, urgent, position)

    def close(self) -> None:
        """Leave; what is held stays with the broker."""
        if self._client is not None:
            self._client.disconnect()
            self._client = None

    def _connect(self) -> None:
        address = urlsplit(self._options.url)
        client = paho.Client(
            CallbackAPIVersion.VERSION2, self._client_id, protocol=paho.MQTTv5, reconnect_on_failure=False
        )
        client.manual_ack_set(True)
        if self._options.user_name:
            client.username_pw_set(self._options.user_name, self._password)
        if self._tls:
            client.tls_set_context(self._tls)
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_disconnect = lambda _c, _d, _flags, reason, _p: self._lost(f"the broker ends it: {reason}")
        client.on_message = self._arrived
        client.connect_timeout = _ANSWER_S
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho's has no types
        properties.SessionExpiryInterval = SENSOR_SESSION_SECONDS if self._client_id else 0
        properties.ReceiveMaximum = SENSOR_HELD_MESSAGES
        properties.MaximumPacketSize = MAXIMUM_SENSOR_LINE_BYTES
        port = address.port or (8883 if self._tls else 1883)
        self._connection += 1
        self._client = client
        try:
            client.connect(
                *(address.hostname or "", port, _KEEPALIVE_S),
                clean_start=not self._client_id,
                properties=properties,
            )
        except (OSError, ValueError) as error:
            self._lost(f"no connection to {address.hostname}:{port}: {error}")

    def _connected(
        self, _client: paho.Client, _data: object, flags: paho.ConnectFlags, reason: object, _properties: object
    ) -> None:
        if getattr(reason, "is_failure", False):
            self._lost(f"the broker refuses: {reason}")
            return
        self._why, self._wait_s = "", SENSOR_RETRY_SECONDS
        if not flags.session_present:
            self._held.clear()  # nothing of it comes once more
            self._identifiers_reused = False
            if self._committed:
                self._committed.clear()
                self._session_is_new = self._letting_go = True
        if not self._letting_go:
            self._subscribe()

    def _let_go(self) -> None:
        """Know that no position is left of the session before."""
        self._letting_go = False
        self._subscribe()

    def _subscribe(self) -> None:
        if self._client is not None:
            live = SubscribeOptions(qos=1, retainHandling=_ONLY_LIVE)
            self._client.subscribe([(each, live) for each in sorted({each.topic for each in self._options.topics})])

    def _subscribed(
        self, _client: paho.Client, _data: object, _mid: int, reasons: list[ReasonCode], _properties: Properties
    ) -> None:
        refused = [str(each) for each in reasons if each.is_failure]
        if refused:
            self._why = f"the broker refuses a subscription: {refused[0]}"

    def _arrived(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        if not message.qos:
            if not message.retain:
                self._readings += self._values.readings(message.topic, bytes(message.payload), time.monotonic())
                self._new.append((0, _Held(b"", self._connection)))
            return
        digest = blake2b(message.topic.encode() + b"\0" + message.payload, digest_size=8).digest()
        held = self._held.get(message.mid)
        if message.dup and held is not None and held.digest == digest:
            held.connection = self._connection
            if held.committed:
                self._acknowledge(message.mid, held)
            return
        if message.dup and self._committed.get(message.mid) == digest:
            self._client_acknowledges(message.mid)
            return
        self._identifiers_reused |= not message.dup and message.mid in self._committed
        held = self._held[message.mid] = _Held(digest, self._connection)
        if not message.retain:
            self._readings += self._values.readings(message.topic, bytes(message.payload), time.monotonic())
        self._new.append((message.mid, held))

    def _position(self, messages: list[tuple[int, _Held]]) -> bytes:
        """Return which messages may come once more, when those of some are committed too."""
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
        """Return what acknowledges messages, once all of their readings are committed."""

        def release() -> None:
            for mid, held in messages:
                held.committed = True
                self._acknowledge(mid, held)

        return release

    def _acknowledge(self, mid: int, held: _Held) -> None:
        if self._held.get(mid) is held and held.connection == self._connection and self._client is not None:
            self._client_acknowledges(mid)
            del self._held[mid]

    def _client_acknowledges(self, mid: int) -> None:
        if self._client is not None:
            self._client.ack(mid, 1)

    def _lost(self, why: str) -> None:
        """Let a connection go, and remember why; it is made anew after a while."""
        if self._client is None:
            return
        client, self._client = self._client, None
        client.on_disconnect = None
        client.disconnect()
        self._why = self._why if why.startswith("the connection") and self._why else why
        self._retry_at_s = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, SENSOR_RETRY_MAXIMUM_SECONDS)


def _password(file: str) -> str:
    if not file:
        return ""
    path = Path(file)
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SensorError(f"others may read {file}", hint=f"chmod 600 {file}")
        return path.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SensorError(
            f"{file} cannot be read: {error}", hint="password_file names a file of the agent's user"
        ) from error
