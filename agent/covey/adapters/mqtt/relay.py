"""The relay over MQTT 5 (`covey.ports.Relay`): reconnects whenever a connection ends.

1. Every attempt is a new connection with a new generation number; nothing is carried over (`connection.py`).
2. Between connections: decorrelated jitter. A refusal (credentials, quota …) waits longer, but never forever.
3. The password goes to the server and nowhere else.
4. Where the server does not answer at its URL, `find` may name other places of it. One is tried at a time, then the URL
   again. TLS checks the name in the URL at each of them. A place that worked is kept until it does not.
5. A relay that rests ends its connection cleanly, so that its session remains, and does not connect before `resume`.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from covey.adapters.clock import PROGRAM_S
from covey.adapters.mqtt.connection import Connection
from covey.adapters.mqtt.lean_paho import DISCONNECT_S
from covey.adapters.mqtt.posted import Answered, Arrived, ConnectionEvent, ServerUp, Subscriptions, Will
from covey.adapters.mqtt.settings import (
    Backoff,
    CertifiedTime,
    ClientCertificate,
    ConnectionSettings,
    parse_url,
)
from covey.adapters.mqtt.wire_meter import WireMeter
from covey.limits.link import SESSION_S
from covey.limits.relay import KEEPALIVE_S, RENEWED_S
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent, RelayUp, Released

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from covey.adapters.mqtt.settings import Place
    from covey.core.presence.heartbeat import LastWill


_EXHAUSTED_S = 1.0
"""How often a relay looks whether it may connect again where nothing may be spent."""


class MqttRelay:
    """One MQTT 5 broker and our inbox on it, always reconnected."""

    def __init__(
        self,
        name: str,
        url: str,
        username: str,
        password: str,
        inbox_topic: str,
        *,
        ca_file: Path | None = None,
        client: ClientCertificate | None = None,
        allow_tls12: bool = False,
        proved: bool = True,
        earliest_s: float = PROGRAM_S,
        certified: CertifiedTime | None = None,
        meter: WireMeter | None = None,
        find: Callable[[], Sequence[Place]] | None = None,
        keepalive_s: int = KEEPALIVE_S,
        session_expiry_s: int = SESSION_S,
        window: int = 200,
        payload_bytes_max: int = 1_200_000,
        connect_s_max: float = 10.0,
        resubscribe_s: float = RENEWED_S,
        retry_s_min: float = 1.0,
        retry_s_max: float = 300.0,
        refused_s_min: float = 30.0,
        stable_s: float = 30.0,
    ) -> None:
        """Check and keep the configuration; nothing is connected before `start`.

        Args:
            name: what events call this relay.
            url: `mqtt://host[:port]` or `mqtts://host[:port]` (TLS 1.3, certificate and host checked).
            username, password: the one is also the client id, the other goes to the server, and nowhere else.
            inbox_topic: the topic to subscribe to, unless `listen` names more.
            ca_file: PEM file of the authorities to trust instead of the system's.
            client: our certificate, for a server that asks for one.
            allow_tls12: speak TLS 1.2 with a server that has no 1.3.
            proved: the server's certificate is checked; not before a ceremony, which names the trusted authorities.
            earliest_s: a moment that has passed: by a clock that is behind it, no certificate is judged.
            meter: counts what the connections carry.
            find: where the server may be if it does not answer at its URL; called between two connections.
            certified: where to note since when the server's certificate is valid.
            keepalive_s: a silent peer is given up after one to two of these.
            session_expiry_s: how long the server should keep queueing for us while we are away.
            window: most publishes unanswered, and most deliveries unacknowledged.
            payload_bytes_max: larger ones are neither sent nor accepted.
            connect_s_max: for TCP and TLS, and again for the server to accept us and our subscription.
            resubscribe_s: the subscription is renewed when nothing has come for so long.
            retry_s_min, retry_s_max: shortest and longest pause between connections.
            refused_s_min: shortest pause after the server refused us.
            stable_s: a connection that was up so long makes the pauses short again.

        Raises:
            ConfigurationError: the URL, the CA file or the certificate is not usable.
        """
        host, port, encrypted = parse_url(url)
        context = None
        if encrypted:
            from covey.adapters.mqtt.tls import tls_context

            context = tls_context(ca_file, client, allow_tls12=allow_tls12, proved=proved)
        self.name = name
        self._settings = ConnectionSettings(
            host=host,
            port=port,
            tls=context,
            client_id=username,
            username=username,
            password=password,
            keepalive_s=keepalive_s,
            session_expiry_s=session_expiry_s,
            window=window,
            payload_bytes_max=payload_bytes_max,
            connect_s_max=connect_s_max,
            resubscribe_s=resubscribe_s,
            earliest_s=earliest_s,
            certified=certified or CertifiedTime(),
            meter=meter or WireMeter(),
        )
        self._stable_s = stable_s
        self._backoff = Backoff(retry_s_min, retry_s_max, refused_s_min)
        self._inbox = Subscriptions(inbox_topic)
        self._find = find
        self._place: Place | None = None  # None: the URL's
        self._other_places: list[Place] = []
        self._handles = itertools.count(1)
        self._connection: Connection | None = None
        self._will: LastWill | None = None
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._wanted.set()
        self._pausing = threading.Event()  # set: a pause between two connections ends
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        """Return the name and where it is."""
        return f"MqttRelay({self.name!r}, {self._settings.host}:{self._settings.port})"

    @property
    def oversize_dropped(self) -> int:
        """How many deliveries were dropped because they exceeded `payload_bytes_max`."""
        return self._inbox.oversize_dropped

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Keep connecting, in the background. `deliver` is called from that thread and must not block.

        A delivery may come before `RelayUp`: a server resumes a session before it answers the subscription.
        """
        assert self._thread is None, "a relay starts once"
        self._thread = threading.Thread(target=self._run, args=(deliver,), name=f"relay {self.name}", daemon=True)
        self._thread.start()

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int | PublishRefusal:
        """Hand over one publish; return its handle, unique for this adapter's life, or why not.

        The server keeps it so long for a subscriber that is away (Message Expiry Interval, §3.3.2.3.3); 0: no bound;
        `NOT_KEPT`: not at all (QoS 0).
        """
        if len(payload) > self._settings.payload_bytes_max:
            return PublishRefusal.TOO_LARGE
        connection = self._connection
        return connection.publish(topic, payload, lifetime_s) if connection else PublishRefusal.OFFLINE

    def acknowledge(self, delivered: Delivered) -> None:
        """Let the server forget a delivery; one of an earlier connection is ignored, because it comes again.

        Acknowledge in the order of delivery (MQTT 5 §4.6).
        """
        generation, packet_id = delivered.token
        connection = self._connection
        if connection and connection.generation == generation:
            connection.acknowledge(packet_id)

    def set_will(self, will: LastWill | None) -> None:
        """Have the server publish a will when the next connection, and each one after it, ends without a farewell."""
        self._will = will

    def alive(self) -> bool:
        """Say whether it still tries to connect."""
        return self._thread is not None and self._thread.is_alive()

    def listen(self, topics: Collection[str]) -> None:
        """In addition to the inbox, listen to exactly these topics, now or once we are connected."""
        self._inbox.listen(topics)
        connection = self._connection
        if connection:
            connection.renew_subscription()

    def renew_subscription(self) -> None:
        """Subscribe again: the server may have lost the subscription."""
        connection = self._connection
        if connection:
            connection.renew_subscription()

    def rest(self) -> None:
        """Disconnect cleanly, and stay away until `resume`."""
        self._wanted.clear()
        self._pausing.set()
        connection = self._connection
        if connection:
            connection.close()

    def resume(self) -> None:
        """Connect again, at once."""
        self._backoff.reset()
        self._wanted.set()

    def stop(self) -> None:
        """Send what was acknowledged, disconnect cleanly (the session stays) and end the thread."""
        self._stopping.set()
        self._wanted.set()
        self._pausing.set()
        connection = self._connection
        if connection:
            connection.close()
        if self._thread:
            self._thread.join(2 * DISCONNECT_S)  # longer only while it still connects: it ends by itself then

    def _run(self, deliver: Callable[[RelayEvent], None]) -> None:
        for generation in itertools.count(1):
            self._wanted.wait()
            while not self._settings.meter.pays_for_connection and not self._stopping.is_set():
                self._stopping.wait(_EXHAUSTED_S)
            self._pausing.clear()
            will = self._will
            connection = Connection(
                *(self.name, generation, self._settings, self._inbox, self._handles),
                self._translated(deliver, generation, will),
                Will(will.topic, will.envelope, will.delay_s) if will else None,
                self._place,
            )
            self._connection = connection
            if self._stopping.is_set():
                connection.abandon()
                break
            if not self._wanted.is_set():  # it was to rest before it had a connection to close
                connection.close()
            ending = connection.run()
            self._connection = None
            if self._stopping.is_set():
                break
            facts = (self.name, ending.reason, ending.refused, ending.up_s, ending.taken_over, ending.too_large)
            deliver(RelayDown(*facts, resting=not self._wanted.is_set()))
            if ending.up_s >= self._stable_s:
                self._backoff.reset()
            if not ending.up_s and self._wanted.is_set():
                self._place = self._next_place(refused=ending.refused)
                if self._place is not None:
                    continue
            self._pausing.wait(self._backoff.next_s(refused=ending.refused))

    def _next_place(self, *, refused: bool) -> Place | None:
        """Return where to connect after an attempt failed; None: at the URL (rule 4)."""
        if self._place is None and not refused and self._find is not None:
            self._other_places = list(self._find())
        return self._other_places.pop(0) if self._other_places else None

    def _translated(
        self, deliver: Callable[[RelayEvent], None], generation: int, will: LastWill | None
    ) -> Callable[[ConnectionEvent], None]:
        def report(event: ConnectionEvent) -> None:
            match event:
                case Arrived():
                    deliver(Delivered(self.name, (generation, event.packet_id), event.topic, event.payload))
                case Answered(handle, codes):
                    deliver(Released(self.name, handle, codes[0]))
                case ServerUp():
                    connection = will.connection if will is not None else None
                    deliver(RelayUp(self.name, event.session_present, event.payload_bytes_max, connection))

        return report
