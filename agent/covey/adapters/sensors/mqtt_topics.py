"""Topics of a broker as a sensor: MQTT 5, a session that lasts, and no acknowledgement before the outbox has a reading.

1. A message is acknowledged when all of its readings are committed. Until then it is held, and known by its packet
   identifier, topic and payload where the broker sends it once more on a new connection (MQTT 5, section 4.4).
2. An acknowledgement belongs to the connection on which its message last came: identifiers are used anew.
3. What a broker has retained is no reading of now, and is neither asked for nor taken.
4. Connections end and come back here, for what is held must outlive them; the pause doubles.
5. The sensor's own thread drives paho; it starts none.
"""

from __future__ import annotations

import platform
import ssl
import stat
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


@dataclass(slots=True)
class _Held:
    """A message that is not acknowledged yet: what it was, on which connection it came, whether it is committed."""

    digest: bytes
    connection: int
    committed: bool = False


def open_mqtt(name: str, options: Mqtt, *, lasting: bool = True) -> MqttTopics:
    """Return the sensor; unless it is `lasting`, it leaves no session at the broker, and disturbs none.

    Raises:
        SensorError: its password cannot be read, or others may read it, or there are no such roots.
    """
    try:
        tls = ssl.create_default_context(cafile=options.ca_file or None) if options.url.startswith("mqtts") else None
    except (OSError, ssl.SSLError) as error:
        raise SensorError(f"{options.ca_file} has no certificates to believe: {error}") from error
    client_id = (options.client_id or f"covey-{platform.node()}-{name}") if lasting else ""
    return MqttTopics(options, client_id, _password(options.password_file), tls)


class MqttTopics:
    """Implements `ports.Sensor`."""

    def __init__(self, options: Mqtt, client_id: str, password: str, tls: ssl.SSLContext | None) -> None:
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

    def read(self) -> Measurement:
        """Return what was published in the last second."""
        until = time.monotonic() + SENSOR_READ_SECONDS
        if self._client is None and time.monotonic() >= self._retry_at_s:
            self._connect()
        while self._client is not None and not self._new and (left_s := until - time.monotonic()) > 0:
            if self._client.loop(left_s) != paho.MQTT_ERR_SUCCESS:
                self._lost("the connection to the broker is lost")
        if self._client is None:
            time.sleep(max(0.0, until - time.monotonic()))
        readings, self._readings = self._readings, []
        new, self._new = self._new, []
        failure = self._why or self._values.failure()
        committed = self._release(new) if new else None
        return Measurement(readings, failure, committed, urgent=len(self._held) >= SENSOR_URGENT_MESSAGES)

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
        self, client: paho.Client, _data: object, flags: paho.ConnectFlags, reason: object, _properties: object
    ) -> None:
        if getattr(reason, "is_failure", False):
            self._lost(f"the broker refuses: {reason}")
            return
        if not flags.session_present:
            self._held.clear()  # nothing of it comes once more
        live = SubscribeOptions(qos=1, retainHandling=_ONLY_LIVE)
        client.subscribe([(topic, live) for topic in sorted({each.topic for each in self._options.topics})])
        self._why, self._wait_s = "", SENSOR_RETRY_SECONDS

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
        digest = blake2b(message.topic.encode() + b"\0" + message.payload, digest_size=16).digest()
        held = self._held.get(message.mid)
        if message.dup and held is not None and held.digest == digest:
            held.connection = self._connection
            if held.committed:
                self._acknowledge(message.mid, held)
            return
        held = self._held[message.mid] = _Held(digest, self._connection)
        if not message.retain:
            self._readings += self._values.readings(message.topic, bytes(message.payload), time.monotonic())
        self._new.append((message.mid, held))

    def _release(self, messages: list[tuple[int, _Held]]) -> Callable[[], None]:
        """Return what acknowledges messages, once all of their readings are committed."""

        def release() -> None:
            for mid, held in messages:
                held.committed = True
                self._acknowledge(mid, held)

        return release

    def _acknowledge(self, mid: int, held: _Held) -> None:
        if self._held.get(mid) is held and held.connection == self._connection and self._client is not None:
            self._client.ack(mid, 1)
            del self._held[mid]

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
