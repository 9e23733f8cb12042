"""A client for examining a broker: it can also break the rules, and waits for the broker's answer.

One call after another, no thread: each call fills the connection's thread until its answer is there.
"""

from __future__ import annotations

import itertools
import ssl
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.mqtt.connection import Connection
from covey.adapters.mqtt.posted import Answered, Arrived, ConnectionEvent, ServerUp
from covey.adapters.mqtt.settings import PACKET_BYTES_MAX, ConnectionSettings
from covey.errors import RelayError
from covey.limits.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ANSWER_S = 10.0
_KEEPALIVE_S = 60
_LOOK_S = 0.2
_WINDOW = 65_535
_PAYLOAD_BYTES_MAX = 16 * MIB
_NO_ANSWER = 0xFF
_REFUSED = 0x80
"""Reason codes from here on refuse (MQTT 5, section 2.4)."""


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
        self.session_present = False
        self.packet_bytes_max = PACKET_BYTES_MAX
        self._acknowledges = acknowledges
        self._is_up = False
        self._answers: dict[int, tuple[int, ...]] = {}
        self._messages: deque[tuple[str, bytes]] = deque()
        settings = ConnectionSettings(
            host=address.host,
            port=address.port,
            tls=address.tls,
            client_id=client_id,
            username=user_name,
            password=password,
            keepalive_s=_KEEPALIVE_S,
            session_expiry_s=session_s,
            window=_WINDOW,
            payload_bytes_max=_PAYLOAD_BYTES_MAX,
            connect_s_max=_ANSWER_S,
            clean_start=clean,
            obeys=False,
        )
        self._connection = Connection("examined", 1, settings, None, itertools.count(1), self._receive)
        self._connection.open()
        self._wait(lambda: self._is_up, "accept or refuse a connection")
        if not self._is_up:
            self._note_refusal()

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        return self._connection.ending is not None

    def subscribe(self, topic: str, qos: int = 1) -> int:
        """Subscribe; return the broker's reason code. A grant proves nothing, nor does a refusal."""
        return self._answer(self._connection.subscribe([topic], qos=qos, retained=True))

    def subscribe_many(self, topics: Sequence[str]) -> tuple[int, ...]:
        """Subscribe in one packet; return the broker's reason codes, or none if the connection ended over it."""
        handle = self._connection.subscribe(topics, retained=True)
        return self._answers[handle] if self._wait(lambda: handle in self._answers, "answer") else ()

    def unsubscribe(self, topic: str) -> int:
        """End a subscription; return the broker's reason code."""
        return self._answer(self._connection.unsubscribe(topic))

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Publish with QoS 1; return whether the broker took it (which is not to say that anybody gets it)."""
        handle = self._connection.publish(topic, payload, retain=retain)
        return isinstance(handle, int) and self._answer(handle) < _REFUSED

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
            raise RelayError(
                "the broker closed the connection for no visible reason", hint="the broker's log may say why"
            )
        return found

    def listen(self, seconds: float) -> None:
        """Let come what comes; it is among the next messages."""
        deadline = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= deadline, "stay", seconds + _ANSWER_S)

    def topics_within(self, seconds: float) -> set[str]:
        """Return the topics of what has come when so many seconds are over."""
        self.listen(seconds)
        return {topic for topic, _ in self._messages}

    def close(self) -> None:
        """Leave; what the session still holds stays with the broker as long as was agreed."""
        self._connection.close()
        while self._connection.turn():
            pass

    def _receive(self, event: ConnectionEvent) -> None:
        match event:
            case ServerUp():
                self._is_up = True
                self.session_present = event.session_present
                self.packet_bytes_max = event.packet_bytes_max
            case Arrived():
                self._messages.append((event.topic, event.payload))
                if self._acknowledges:
                    self._connection.acknowledge(event.packet_id)
            case Answered():
                self._answers[event.handle] = event.codes

    def _note_refusal(self) -> None:
        ending = self._connection.ending
        assert ending is not None
        if isinstance(ending.error, ssl.SSLCertVerificationError):
            raise RelayError(
                ending.reason, hint="--ca-file FILE names the authority that signed the broker's certificate"
            )
        if ending.error is not None and not isinstance(ending.error, ssl.SSLError | ConnectionResetError):
            raise RelayError(ending.reason, hint="check the broker's address and port")
        self.refusal = ending.reason

    def _answer(self, handle: int) -> int:
        """Return the reason code for a packet; a connection that ends over it is a refusal as well."""
        return self._answers[handle][0] if self._wait(lambda: handle in self._answers, "answer") else _NO_ANSWER

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float | None = None) -> bool:
        """Serve the connection until the condition holds (True) or it has ended (False).

        Raises:
            RelayError: neither in time.
        """
        deadline = time.monotonic() + (seconds or _ANSWER_S)
        while not condition():
            if time.monotonic() > deadline:
                raise RelayError(
                    f"the broker does not {what}",
                    hint="check that it is an MQTT 5 broker and that it is not overloaded",
                )
            if not self._connection.turn(_LOOK_S):
                return condition()
        return True
