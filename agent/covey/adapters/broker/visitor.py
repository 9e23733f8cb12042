"""A plain MQTT 5 client without manners, for examining a broker: it does what it is told, and waits for the answer.

Beside `mqtt.connection`, the only module that imports paho-mqtt. One call after another, no thread.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from covey.adapters.mqtt.settings import PACKET_BYTES_MAX, plain_words
from covey.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from paho.mqtt.reasoncodes import ReasonCode

_ANSWER_S = 10.0
_KEEPALIVE_S = 60
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where the broker is, and how it is spoken to."""

    host: str
    port: int
    tls: ssl.SSLContext | None


class Visitor:
    """One client, from its connection to its end."""

    def __init__(
        self,
        address: BrokerAddress,
        user_name: str | None,
        password: str,
        *,
        client_id: str = "",
        clean: bool = True,
        session_s: int = 0,
        acknowledges: bool = True,
    ) -> None:
        """Connect. What the broker says is in `refusal` (empty: it let us in), `session_present` and the bounds.

        Unless this client `acknowledges`, what it is sent with QoS 1 stays with the broker.

        Raises:
            RelayError: no connection, or no answer that is MQTT 5.
        """
        self.refusal = ""
        self.gone = False
        self.session_present = False
        self.packet_bytes_max = PACKET_BYTES_MAX
        self.qos_max = 0
        self._connected = False
        self._answers: dict[int, int] = {}
        self._messages: deque[tuple[str, bytes]] = deque()
        self._client = self._new_client(client_id)
        self._client.manual_ack_set(not acknowledges)
        if user_name is not None:
            self._client.username_pw_set(user_name, password)
        if address.tls:
            self._client.tls_set_context(address.tls)
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho's has no types
        properties.SessionExpiryInterval = session_s
        self._client.connect_timeout = _ANSWER_S
        try:
            self._client.connect(address.host, address.port, _KEEPALIVE_S, clean_start=clean, properties=properties)
        except (ssl.SSLError, ConnectionResetError) as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                raise RelayError(plain_words(error, address.host, address.port), hint="--ca-file FILE") from error
            self.gone = self._connected = True
            self.refusal = plain_words(error, address.host, address.port)
        except OSError as error:
            raise RelayError(
                plain_words(error, address.host, address.port), hint="is it the broker's address?"
            ) from error
        self._wait(lambda: self._connected, "accept or refuse a connection")
        if self.gone and not self.refusal:
            self.refusal = "the connection was closed without a word"

    def subscribe(self, topic: str, qos: int = 1) -> int:
        """Subscribe; return the broker's reason code. A grant proves nothing, nor does a refusal."""
        return self._answer(self._client.subscribe(topic, qos=qos)[1])

    def unsubscribe(self, topic: str) -> int:
        """End a subscription; return the broker's reason code."""
        return self._answer(self._client.unsubscribe(topic)[1])

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Publish with QoS 1; return whether the broker took it (which is not to say that anybody gets it)."""
        return self._answer(self._client.publish(topic, payload, qos=1, retain=retain).mid) < 0x80

    def messages_until(self, last: bytes) -> list[tuple[str, bytes]]:
        """Take what is delivered, up to a payload that ends it; return (topic, payload) of those before.

        Raises:
            RelayError: it does not come.
        """
        found: list[tuple[str, bytes]] = []

        def arrived() -> bool:
            while self._messages:
                topic, payload = self._messages.popleft()
                if payload == last:
                    return True
                found.append((topic, payload))
            return False

        if not self._wait(arrived, "deliver a message to its recipient"):
            raise RelayError("the broker ended a connection that did nothing wrong", hint="its log may say why")
        return found

    def listen(self, seconds: float) -> None:
        """Let come what comes; it is among the next messages."""
        deadline = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= deadline, "stay", seconds + _ANSWER_S)

    def topics_within(self, seconds: float) -> set[str]:
        """Return the topics of what has come when so many seconds are over."""
        deadline = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() > deadline, "keep the connection")
        return {topic for topic, _ in self._messages}

    def close(self) -> None:
        """Leave; what the session still holds stays with the broker as long as was agreed."""
        if not self.gone:
            self._client.disconnect()
            self._wait(lambda: False, "let go of a connection")

    def _new_client(self, client_id: str) -> paho.Client:
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5, reconnect_on_failure=False)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = lambda _client, _data, mid, reasons, _p: self._note(mid, reasons[0])
        client.on_unsubscribe = lambda _client, _data, mid, reasons, _p: self._note(mid, reasons[0])
        client.on_publish = lambda _client, _data, mid, reason, _p: self._note(mid, reason)
        client.on_message = lambda _client, _data, message: self._messages.append(
            (message.topic, bytes(message.payload))
        )
        return client

    def _on_connect(
        self, _client: object, _data: object, flags: paho.ConnectFlags, reason: ReasonCode, answer: Properties | None
    ) -> None:
        self._connected = True
        self.refusal = str(reason) if reason.is_failure else ""
        self.session_present = flags.session_present
        self.packet_bytes_max = getattr(answer, "MaximumPacketSize", PACKET_BYTES_MAX)
        self.qos_max = getattr(answer, "MaximumQoS", 2)

    def _on_disconnect(self, *_arguments: object) -> None:
        self.gone = True

    def _note(self, mid: int, reason: ReasonCode) -> None:
        self._answers[mid] = reason.value

    def _answer(self, mid: int | None) -> int:
        """Return the reason code for a packet; a connection that ends over it is a refusal as well."""
        if mid is None or not self._wait(lambda: mid in self._answers, "answer"):
            return 0xFF
        return self._answers[mid]

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float | None = None) -> bool:
        """Serve the connection until the condition holds (True) or it has ended (False).

        Raises:
            RelayError: neither in time.
        """
        deadline = time.monotonic() + (seconds or _ANSWER_S)
        while not condition():
            if self.gone:
                return False
            if time.monotonic() > deadline:
                raise RelayError(f"the broker does not {what}", hint="is it an MQTT 5 broker, and not too busy?")
            if not self._serve():
                self.gone = True
                return condition()
        return True

    def _serve(self) -> bool:
        """Move bytes for a moment; say whether the connection lives."""
        try:
            return self._client.loop(_LOOK_S) == paho.MQTT_ERR_SUCCESS
        except Exception:  # noqa: BLE001 - paho parses what a hostile server sent; it may end this connection only
            return False
