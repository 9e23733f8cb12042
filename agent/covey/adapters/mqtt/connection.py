"""One connection to an MQTT 5 broker, from TCP to its end: the agent's only user of paho.

Relays, sensors that read a broker's topics, doors that publish to one, and the examination of a broker all use it.

1. A connection has a paho client of its own, which dies with it: paho's replay after a reconnect breaks
   the order of messages. What was outstanding is never released; the caller sends it again.
2. paho never queues: a publish is taken while fewer than min(the server's Receive Maximum, ours) are
   unanswered (MQTT 5 §3.2.2.3.3, §4.9), and refused beforehand if it exceeds the server's Maximum Packet
   Size (§3.2.2.3.6). paho checks neither, and one oversize publish would end every connection it is sent on.
3. A delivery is acknowledged by the caller only, on the connection that brought it; its packet identifier
   means another message on the next one. After a reconnect the server delivers it again (§4.4).
4. A session may outlive connections (Clean Start 0, Session Expiry §3.1.2.11.2); a relay's client id is its user name.
5. A relay's inbox subscription must be granted with QoS 1, or we are not up. A session that this process has
   subscribed in, and that the server has resumed, needs no SUBSCRIBE. The subscription is renewed when nothing has come
   for `RENEWED_S`, and when the caller misses answers, because servers have been seen to lose one while connected.
   Without an inbox we are up once we are accepted, and the caller subscribes.
6. A server that leaves a publish unanswered for two keep-alives is left: a slot of the window that it
   never frees cannot be had back otherwise (a resend within a connection is forbidden, §4.4).
7. A will is set at CONNECT, with a delay (§3.1.3.2.2), so that a short interruption does not publish it. A clean end
   takes it back (§3.14.4).
8. paho pings when nothing was written, or nothing has come, for a keep-alive.
9. A topic that we publish to again is sent as its alias (§3.3.2.3.4), for as many topics as the server allows.
10. One thread does all network work, the caller's own (`open`, then `turn`) or one that `run` fills. Nothing that a
   server sends ends it; other threads only post to it (`posted.py`).

`states.py` has the states and their transitions. The caller decides when to connect again.
"""

from __future__ import annotations

import math
import re
import selectors
import time
from typing import TYPE_CHECKING, cast

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from covey.adapters.mqtt.buffered_socket import BufferedSocket
from covey.adapters.mqtt.lean_paho import (
    DISCONNECT_S,
    MqttMessage,
    host,
    new_client,
    paho,
    publish_properties,
    refusal_words,
    subscriptions,
)
from covey.adapters.mqtt.posted import (
    Acknowledge,
    Answered,
    Arrived,
    ConnectionEvent,
    Order,
    PostedWork,
    Publish,
    ServerUp,
    Subscribe,
    Subscriptions,
    Unsubscribe,
    Will,
)
from covey.adapters.mqtt.settings import (
    PACKET_BYTES_MAX,
    ConnectionSettings,
    plain_words,
    publish_bytes,
)
from covey.adapters.mqtt.states import (
    CONNECTION,
    CONNECTION_LOST,
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
from covey.adapters.mqtt.wire_meter import ConnectionMeter, failed
from covey.core.link.sealer import NOT_KEPT
from covey.core.transitions import follow

if TYPE_CHECKING:
    import logging
    import ssl
    from collections.abc import Callable, Collection, Iterator

    from covey.adapters.mqtt.settings import Place
    from covey.ports import PublishRefusal


_FOREIGN_PROPERTIES_BYTES_MAX = 1024
"""Room for properties that a publisher other than Covey may have set."""

_FOREIGN_TOPIC_BYTES = 1024
"""Room for the topic of a message that comes by a subscription of the caller's."""

_PASSING = {0x00, 0x88, 0x89, 0x8B, 0x8D}
"""CONNACK and DISCONNECT reasons of a server that is busy or restarting, or missed our ping: no refusal."""

_PACKET_TOO_LARGE = 0x95
"""DISCONNECT reason: we sent more than the server takes, which it may not have announced."""

_TAKEN_OVER = 0x8E
"""DISCONNECT reason: another client has signed in with our name and credential."""

_READ_AT_ONCE = 64
"""Packets that are read before anything is written: a full inbox must not hold up its acknowledgements."""

_ALIASES = 16
"""Topics that go by aliases at most: a device speaks with few others at a time."""

_ALIAS_BYTES = 4
"""What an alias adds to a packet at most: the property (§3.3.2.3.4), and a longer length."""

_METER_S = 0.2
"""How often the socket is asked what it has carried."""

_TICK_S = 5.0
"""How often paho looks after its keep-alive; a fraction of it, and rare enough to let a small machine sleep."""


class TopicAliases:
    """Numbers for the topics that are published to, on one connection; the one used longest ago gives way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers: dict[str, int] = {}

    def of(self, topic: str) -> tuple[str, int]:
        """Return the topic to publish to, empty where its alias says it, and the alias; 0 for none."""
        if not self._most:
            return topic, 0
        known = self._numbers.pop(topic, 0)
        if not known and len(self._numbers) == self._most:
            number = self._numbers.pop(next(iter(self._numbers)))
        else:
            number = known or len(self._numbers) + 1
        self._numbers[topic] = number
        return ("" if known else topic), number


_ERROR = 40
"""`logging.ERROR`; the agent does without that module."""


class _Complaints:
    """What paho takes for its logger: it formats errors only, no line for each packet."""

    def __init__(self, listen: Callable[[str], None]) -> None:
        self._listen = listen

    def log(self, level: int, text: str, *values: object) -> None:
        """Pass an error on."""
        if level >= _ERROR:
            self._listen(text % values if values else text)


class Connection:
    """One TCP connection, one paho client, one generation. The caller of `open` and `turn`, or `run`, is its thread."""

    def __init__(
        self,
        name: str,
        generation: int,
        settings: ConnectionSettings,
        inbox: Subscriptions | None,
        handles: Iterator[int],
        deliver: Callable[[ConnectionEvent], None],
        will: Will | None = None,
        place: Place | None = None,
    ) -> None:
        """Make its client; `place` is where to connect instead of the settings' host and port."""
        self.generation = generation
        self._name = name
        self._settings = settings
        self._inbox = inbox
        self._deliver = deliver
        self._will = will
        self._place = place

        self._posted = PostedWork(settings, handles)

        # The network thread's own.
        self._client = new_client(settings, will, place)
        self._listen()
        self._selector = selectors.DefaultSelector()
        self._connected: BufferedSocket | None = None
        self._meter: ConnectionMeter | None = None
        self._metered_s = 0.0
        self._watched = 0
        self._state: State = Opening()
        self._session_present = False
        self._handle_of: dict[int, int] = {}
        self._answered_at = 0.0  # or the first publish after which an answer was due
        self._wanted_topics: list[str] = []
        self._ending_topics: dict[int, list[str]] = {}
        self._asked: dict[int, int] = {}  # handles of the caller's own subscriptions and their ends
        self._packet_bytes_max = PACKET_BYTES_MAX
        self._aliases = TopicAliases(0)
        self._topics: dict[int, str] = {}  # by the aliases of what comes
        self._tls_alert = ""
        self._came = False  # a message, in this reading
        self._came_at = 0.0

    # --- from any thread -----------------------------------------------------------------------------

    @property
    def ending(self) -> ConnectionEnding | None:
        """Why it has ended; None before that."""
        return self._state.ending if isinstance(self._state, Ended) else None

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0, *, retain: bool = False) -> int | PublishRefusal:
        """Post a publish if it fits the window and the packet size. Its answer may overtake the return."""
        return self._posted.publish(topic, payload, lifetime_s, retain=retain)

    def subscribe(self, topics: Collection[str], *, qos: int = 1, retained: bool = False) -> int:
        """Post subscriptions of the caller's own, with or without what is retained there; return their handle."""
        return self._posted.subscribe(tuple(topics), qos, retained=retained)

    def unsubscribe(self, topic: str) -> int:
        """Post the end of a subscription of the caller's own; return its handle."""
        return self._posted.unsubscribe(topic)

    def acknowledge(self, packet_id: int) -> None:
        """Post a PUBACK. QoS 0 deliveries have no packet identifier and need none."""
        if packet_id:
            self._posted.post(Acknowledge(packet_id))

    def renew_subscription(self) -> None:
        """Post a subscription to the inbox's topic of the moment."""
        self._posted.post(Order.RENEW_SUBSCRIPTION)

    def close(self) -> None:
        """Post the end, after what was posted before."""
        self._posted.end(Order.CLOSE)

    def drop(self) -> None:
        """Post an end without a DISCONNECT, so that the server publishes the will."""
        self._posted.end(Order.DROP)

    # --- the network thread --------------------------------------------------------------------------

    def run(self) -> ConnectionEnding:
        """Connect, serve until the connection ends, and say why it did."""
        if self.open():
            while self.turn():
                pass
        return self._end(CONNECTION_LOST).ending

    def open(self) -> bool:
        """Connect; return whether that worked. The server's answer comes in a later turn."""
        return self._step(self._connect)

    def turn(self, seconds_max: float = math.inf) -> bool:
        """Wait for something to do, do it, and return whether the connection continues."""
        return self._step(lambda: self._serve(seconds_max))

    def _step(self, step: Callable[[], None]) -> bool:
        if isinstance(self._state, Ended):
            self.abandon()
            return False
        try:
            step()
        except OSError as error:
            self._end(self._words(error), error=error)
        except Exception:
            import logging  # 0.4 MiB, and so rare

            logging.getLogger(__name__).exception("relay %s: connection %d failed", self._name, self.generation)
            self._end("the connection failed on something unforeseen, which is logged", refused=True)
        if isinstance(self._state, Ended):
            self.abandon()
        return not isinstance(self._state, Ended)

    def _move(self, event: Event, state: State) -> None:
        self._state = follow(CONNECTION, self._state, event, state)

    def _end(
        self,
        reason: str,
        event: Event = Event.END,
        *,
        refused: bool = False,
        taken_over: bool = False,
        too_large: bool = False,
        error: OSError | None = None,
    ) -> Ended:
        state = self._state
        if not isinstance(state, Ended):
            up_s = time.monotonic() - state.since_s if isinstance(state, Up) else 0.0
            state = Ended(ConnectionEnding(reason, refused, up_s, taken_over, too_large, error))
        self._move(event, state)
        return state

    def _words(self, error: OSError) -> str:
        words = plain_words
        if self._settings.tls is not None:
            from covey.adapters.mqtt.tls import tls_words as words
        return words(error, *(self._place or (self._settings.host, self._settings.port)))

    def _listen(self) -> None:
        client = self._client
        client.on_connect = self._on_connect
        client.on_socket_open = self._on_socket_open
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_unsubscribe
        client.on_message = self._on_message
        client.on_arrival = self._on_arrival
        client.on_answer = self._on_answer
        client.on_disconnect = self._on_disconnect
        client.enable_logger(cast("logging.Logger", _Complaints(self._on_complaint)))

    def _connect(self) -> None:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho's has no types
        properties.SessionExpiryInterval = self._settings.session_expiry_s
        properties.ReceiveMaximum = self._settings.window
        properties.MaximumPacketSize = (
            publish_bytes(self._inbox_bytes(), self._settings.payload_bytes_max) + _FOREIGN_PROPERTIES_BYTES_MAX
        )
        properties.TopicAliasMaximum = _ALIASES if self._inbox else 0
        if self._settings.tls is not None:
            from covey.adapters.mqtt.tls import judge_times

            judge_times(self._settings.tls, time.time(), self._settings.earliest_s)
        try:
            self._open_socket(properties)
        except OSError:
            failed(self._settings.meter, encrypted=self._settings.tls is not None)
            raise
        connected = self._client.socket()
        assert connected is not None
        if not isinstance(connected, BufferedSocket):
            connected = BufferedSocket(connected, DISCONNECT_S)  # type: ignore[arg-type] # it is a socket
        self._connected = connected
        self._meter = ConnectionMeter(self._settings.meter, connected, encrypted=self._settings.tls is not None)
        connected.before_close = self._meter.end
        self._selector.register(self._posted.wakes, selectors.EVENT_READ)
        self._selector.register(connected, selectors.EVENT_READ)
        self._watched = selectors.EVENT_READ
        self._move(Event.OPENED, Accepting(time.monotonic() + self._settings.connect_s_max))

    def _open_socket(self, properties: Properties) -> None:
        self._client.connect(
            host(self._settings.host),
            self._settings.port,
            keepalive=self._settings.keepalive_s,
            clean_start=self._settings.clean_start,
            properties=properties,
        )

    def _inbox_bytes(self) -> int:
        return len(self._inbox.topic.encode()) if self._inbox else _FOREIGN_TOPIC_BYTES

    def _serve(self, seconds_max: float) -> None:
        connected = self._connected
        assert connected is not None
        if self._client.socket() is None:  # paho has let go of it
            self._end(CONNECTION_LOST)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._has_unsent() else 0)
        if wanted != self._watched:
            self._selector.modify(connected, wanted)
            self._watched = wanted
        patience_s = 0 if connected.holds else min(seconds_max, self._patience_s())
        ready = {key.fileobj for key, _ in self._selector.select(patience_s)}
        if self._posted.wakes in ready:
            self._do_posted()
        if connected in ready or connected.holds:
            self._read(connected)
        self._client.loop_write()
        self._flush(connected)
        self._client.loop_misc()
        now = time.monotonic()
        if self._meter is not None and (now >= self._metered_s + _METER_S or self._settings.meter.is_limited):
            self._metered_s = now
            self._meter.look()
            if self._settings.meter.exhausted and isinstance(self._state, Up):
                self.close()
        self._keep_deadlines()

    def _patience_s(self) -> float:
        return max(0.0, min(_TICK_S, self._settings.keepalive_s / 4, self._state.deadline_s - time.monotonic()))

    def _read(self, connected: BufferedSocket) -> None:
        for _ in range(_READ_AT_ONCE):
            self._came = False
            self._client.loop_read()
            if self._client.socket() is None or not (connected.holds or self._came):
                return

    def _has_unsent(self) -> bool:
        connected = self._client.socket()
        return self._client.want_write() or (isinstance(connected, BufferedSocket) and connected.waits)

    def _flush(self, connected: BufferedSocket) -> None:
        try:
            connected.flush()
        except OSError:
            self._end(CONNECTION_LOST)

    def _keep_deadlines(self) -> None:
        now = time.monotonic()
        unanswered_s = now - self._answered_at if self._handle_of else 0.0
        state = self._state
        if unanswered_s > 2 * self._settings.keepalive_s and not self._has_unsent():
            self._end("the server does not answer publishes")
        elif now < state.deadline_s:
            return
        elif isinstance(state, Up):
            self._renew_if_silent(state, now)
        else:
            perhaps = "; perhaps it does not speak MQTT 5" if isinstance(state, Accepting) else ""
            self._end(f"the server did not {state.AWAITED} in time{perhaps}", Event.DUE)

    def _do_posted(self) -> None:
        for work in self._posted.take():
            match work:
                case Publish():
                    if not self._handle_of:
                        self._answered_at = time.monotonic()
                    topic, alias = self._alias_of(work)
                    qos = 0 if work.lifetime_s == NOT_KEPT else 1
                    properties = publish_properties(work.lifetime_s, alias)
                    mid = self._client.send_publish(topic.encode(), work.payload, qos, properties, retain=work.retain)
                    self._handle_of[mid] = work.handle
                    if qos == 0:
                        self._on_answer(mid, 0)
                case Subscribe(handle, topics, qos, retained):
                    self._note_asked(handle, self._client.subscribe(subscriptions(topics, qos, retained=retained))[1])
                case Unsubscribe(handle, topic):
                    self._note_asked(handle, self._client.unsubscribe(topic)[1])
                case Acknowledge(packet_id):
                    self._client.ack(packet_id, 1)
                case Order.RENEW_SUBSCRIPTION if isinstance(self._state, Up):
                    self._renew(self._state, Event.RENEW)
                case Order.CLOSE if not isinstance(self._state, Ended):
                    self._move(Event.CLOSE, Closing(time.monotonic() + DISCONNECT_S))
                    self._client.disconnect()
                case Order.DROP:
                    self._end("we left it")

    def _alias_of(self, work: Publish) -> tuple[str, int]:
        """Return the topic that goes and its alias; none where the packet would exceed the server's bound with one."""
        size = publish_bytes(len(work.topic.encode()), len(work.payload), expires=work.lifetime_s > 0)
        if size + _ALIAS_BYTES > self._packet_bytes_max:
            return work.topic, 0
        return self._aliases.of(work.topic)

    def _note_asked(self, handle: int, packet_id: int | None) -> None:
        if packet_id is not None:
            self._asked[packet_id] = handle

    def _subscribe(self, inbox: Subscriptions) -> None:
        """Subscribe to our topics, without retained messages, and end earlier subscriptions."""
        self._wanted_topics = inbox.topics()
        self._client.subscribe(subscriptions(self._wanted_topics, 1, retained=False))
        if retired := inbox.retired():
            _, packet_id = self._client.unsubscribe(retired)
            if packet_id is not None:
                self._ending_topics[packet_id] = retired

    def _renew(self, state: Up, event: Event) -> None:
        if self._inbox:
            self._subscribe(self._inbox)
        if self._state is state:  # it may have been lost over that
            self._move(event, Up(time.monotonic() + self._settings.resubscribe_s, state.since_s))

    def _renew_if_silent(self, state: Up, now: float) -> None:
        """Renew the subscription by which nothing has come for long; after a message, look again later."""
        due_at = self._came_at + self._settings.resubscribe_s
        if now >= due_at:
            self._renew(state, Event.DUE)
        else:
            self._move(Event.DUE, Up(due_at, state.since_s))

    def abandon(self) -> None:
        """Close the sockets under paho, which then has nothing left to send."""
        remaining = self._client.socket()
        if remaining is not None:
            remaining.close()
        self._posted.close()
        self._selector.close()

    # --- paho's callbacks, all on the network thread ---------------------------------------------------

    def _on_socket_open(self, _client: object, _data: object, connected: object) -> None:
        """Look at the server's certificate before the password goes; paho passes on what is raised."""
        if self._settings.tls is not None:
            from covey.adapters.mqtt.tls import certificate_begins_s, check_not_ended

            secured = cast("ssl.SSLSocket", connected.connected if isinstance(connected, BufferedSocket) else connected)
            check_not_ended(secured, time.time(), self._settings.earliest_s)
            self._settings.certified.note(certificate_begins_s(secured))

    def _on_connect(
        self, _client: object, _data: object, flags: paho.ConnectFlags, reason: ReasonCode, answer: Properties | None
    ) -> None:
        if reason.is_failure:
            self._end(refusal_words(reason), refused=reason.value not in _PASSING)
            return
        if getattr(answer, "MaximumQoS", 1) < 1:
            self._end("the server offers QoS 0 only", refused=True)
            return
        self._packet_bytes_max = getattr(answer, "MaximumPacketSize", PACKET_BYTES_MAX)
        self._posted.bound(getattr(answer, "ReceiveMaximum", 65535), self._packet_bytes_max)
        self._aliases = TopicAliases(min(_ALIASES, getattr(answer, "TopicAliasMaximum", 0)))
        self._session_present = flags.session_present
        if isinstance(self._state, Accepting):
            self._move(Event.ACCEPTED, Subscribing(time.monotonic() + self._settings.connect_s_max))
            if self._inbox and not (flags.session_present and self._inbox.in_session):
                self._subscribe(self._inbox)
            else:
                self._come_up()

    def _on_subscribe(
        self, _client: object, _data: object, mid: int, reasons: list[ReasonCode], _answer: Properties | None
    ) -> None:
        if self._inbox is None:
            self._answer_asked(mid, reasons)
        elif reasons[0].value != 1:  # granted QoS 1 (§3.9.3)
            self._inbox.note_granted(())
            self._end(f"the server does not grant our inbox: {reasons[0]}", refused=True)
        else:
            self._inbox.note_granted(self._wanted_topics)
            if isinstance(self._state, Subscribing):
                self._come_up()

    def _come_up(self) -> None:
        now = time.monotonic()
        self._move(Event.GRANTED, Up(now + self._settings.resubscribe_s, now))
        most = self._posted.open()
        overhead = publish_bytes(self._inbox_bytes(), most) - most
        payload_bytes_max = max(0, min(self._settings.payload_bytes_max, most - overhead))
        if self._meter is not None:
            self._meter.look()  # a budget counts what the connection has cost before anything goes over it
        self._deliver(ServerUp(self._session_present, payload_bytes_max, most))

    def _on_unsubscribe(
        self, _client: object, _data: object, mid: int, reasons: list[ReasonCode], _answer: Properties | None
    ) -> None:
        if self._inbox:
            self._inbox.forget(self._ending_topics.pop(mid, []))
        else:
            self._answer_asked(mid, reasons)

    def _answer_asked(self, mid: int, reasons: list[ReasonCode]) -> None:
        handle = self._asked.pop(mid, None)
        if handle is not None:
            self._deliver(Answered(handle, tuple(each.value for each in reasons)))

    def _on_message(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        """Take a message that paho has read: one with properties, or that came in pieces."""
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""  # a server that breaks §1.5.4; the seal decides what the payload is worth
        alias, payload = getattr(message.properties, "TopicAlias", 0), bytes(message.payload)
        self._on_arrival(MqttMessage(message.mid, message.qos, topic, alias, payload, message.dup, message.retain))

    def _on_arrival(self, arrival: MqttMessage) -> None:
        self._came = True
        self._came_at = time.monotonic()
        topic = arrival.topic
        if arrival.alias:
            topic = self._topics[arrival.alias] = topic or self._topics.get(arrival.alias, "")
        if len(arrival.payload) > self._settings.payload_bytes_max:
            if self._inbox:
                self._inbox.oversize_dropped += 1
            self._client.ack(arrival.mid, arrival.qos)
            return
        if self._inbox and self._inbox.overheard(topic):
            self.renew_subscription()
        self._deliver(Arrived(arrival.mid, topic, arrival.payload, arrival.repeated, arrival.retained))

    def _on_answer(self, mid: int, reason: int) -> None:
        handle = self._handle_of.pop(mid, None)
        if handle is not None:
            self._answered_at = time.monotonic()
            self._posted.note_answer()
            self._deliver(Answered(handle, (reason,)))

    def _on_disconnect(
        self,
        _client: object,
        _data: object,
        flags: paho.DisconnectFlags,
        reason: ReasonCode,
        _answer: Properties | None,
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            words = f"the server ended the connection: {reason}"
            too_large = reason.value == _PACKET_TOO_LARGE
            refused = reason.value not in _PASSING and not too_large
            self._end(words, refused=refused, taken_over=reason.value == _TAKEN_OVER, too_large=too_large)
        elif self._tls_alert:
            self._end(f"the server refuses our certificate: {self._tls_alert}", refused=True)
        elif isinstance(self._state, Accepting):
            self._end("the server ended the connection without an answer; perhaps it does not speak MQTT 5")
        else:
            self._end(CONNECTION_LOST)

    def _on_complaint(self, complaint: str) -> None:
        """Keep a TLS alert: since TLS 1.3 a server rejects us after the handshake, and paho only logs it."""
        if alert := re.search(r"\[SSL: \w+?_ALERT_(\w+)\]", complaint):
            self._tls_alert = alert[1].replace("_", " ").lower()
