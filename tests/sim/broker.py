"""The broker and the lines to it: QoS 1 sessions that lose, double, reorder, forget and lie as real ones do.

A PUBACK goes out whatever becomes of the message. `Link` stands for a device's adapter and its TCP connection, with
the contract of `covey.ports.Relay`: a new generation for each connection, a window of its own, the subscription
renewed every few minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.link.sealer import NOT_KEPT
from covey.core.presence.heartbeat import LastWill
from covey.limits.relay import RENEWED_S
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent, RelayUp, Released
from tests.sim.agenda import SECOND

if TYPE_CHECKING:
    from tests.sim.world import World

_TOPIC = "covey/1/in/"
RESUBSCRIBE_US = int(RENEWED_S) * SECOND
"""`MqttRelay` renews its subscription when nothing has come for so long."""


@dataclass(slots=True)
class Session:
    """What the broker keeps for one client; `link` is None while it is away."""

    subscribed: bool = True
    queue: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Each with when it expires."""
    in_flight: dict[int, bytes] = field(default_factory=dict)
    link: Link | None = None
    generation: int = 0
    next_id: int = 1


class Broker:
    """One broker. It is only ever asked by links and by the world's faults."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._sessions: dict[str, Session] = {}
        self._snapshot: dict[str, list[bytes]] = {}
        self._deaf_since: dict[str, int] = {}
        self._deaf_us: dict[str, int] = {}

    def connect(self, link: Link, generation: int, *, subscribes: bool) -> bool:
        """Accept a connection; return whether a session was there. It subscribes if it wants to, or there was none."""
        present = link.client in self._sessions
        session = self._sessions.setdefault(link.client, Session())
        self._take_back(session)
        session.link, session.generation = link, generation
        if subscribes or not present:
            self.subscribe(link)
        return present

    def disconnect(self, link: Link, generation: int) -> None:
        """Note that a connection has ended, unless a newer one took over."""
        session = self._sessions.get(link.client)
        if session is not None and session.generation == generation:
            session.link = None
            self._take_back(session)

    def subscribe(self, link: Link) -> None:
        """Renew a subscription."""
        session = self._sessions.setdefault(link.client, Session())
        session.subscribed = True
        if link.client in self._deaf_since:
            deaf_us = self._world.agenda.now_us - self._deaf_since.pop(link.client)
            self._deaf_us[link.client] = max(deaf_us, self.deaf_us(link.client))

    def deaf_us(self, client: str) -> int:
        """Return how long at most a client was without the subscription that it had, until it renewed it."""
        return self._deaf_us.get(client, 0)

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int:
        """Take a publish and return the PUBACK's reason; it says nothing about what becomes of the message."""
        world = self._world
        world.ledger.seen_by_relay(payload)
        world.attacker.overhear(topic, payload)
        for _ in range(1 + world.happens(world.plan.duplicate)):
            if not world.happens(world.plan.lose):
                self._pass_on(topic, payload) if lifetime_s == NOT_KEPT else self.route(topic, payload, lifetime_s)
        return 0 if topic.removeprefix(_TOPIC) in self._sessions else 0x10

    def _pass_on(self, topic: str, payload: bytes) -> None:
        """Bring something to the topic's subscriber now (QoS 0), or never."""
        session = self._sessions.get(topic.removeprefix(_TOPIC))
        if session is not None and session.subscribed and session.link is not None:
            session.link.carry_down(session.generation, 0, payload)

    def expires_us(self, lifetime_s: int) -> int:
        """Return when it drops a message with such a lifetime. This one knows of no expiry: not every one heeds it."""
        del lifetime_s
        return self._world.agenda.now_us + self._world.plan.queue_expires_us

    def route(self, topic: str, payload: bytes, lifetime_s: int = 0) -> None:
        """Queue a message for the topic's subscriber, within the queue's bound."""
        session = self._sessions.get(topic.removeprefix(_TOPIC))
        if session is None or not session.subscribed:
            return
        plan, queue = self._world.plan, session.queue
        entry = (self.expires_us(lifetime_s), payload)
        if queue and self._world.happens(plan.reorder):
            queue.insert(self._world.random.randrange(len(queue)), entry)
        else:
            queue.append(entry)
        if len(queue) > plan.queue_most:
            if plan.drops_oldest:
                queue.popleft()
            else:
                queue.pop()
        self.pump(session)

    def pump(self, session: Session) -> None:
        """Send what the client's Receive Maximum allows."""
        now_us = self._world.agenda.now_us
        while session.link is not None and session.queue and len(session.in_flight) < session.link.receive_maximum:
            expires_us, payload = session.queue.popleft()
            if now_us > expires_us:
                continue
            packet_id, session.next_id = session.next_id, session.next_id + 1
            session.in_flight[packet_id] = payload
            session.link.carry_down(session.generation, packet_id, payload)

    def pump_client(self, client: str) -> None:
        """Send what waits for a client."""
        session = self._sessions.get(client)
        if session is not None:
            self.pump(session)

    def acknowledge(self, client: str, generation: int, packet_id: int) -> None:
        """Forget a delivery."""
        session = self._sessions.get(client)
        if session is not None and session.generation == generation and session.in_flight.pop(packet_id, False):
            self.pump(session)

    def wipe(self) -> None:
        """Lose every session and connection: restarted without persistence, or replaced."""
        self._drop_everybody()
        self._sessions.clear()

    def deafen(self) -> None:
        """Lose one client's subscription; the connection stays, and the client is not told."""
        if self._sessions:
            client = self._world.random.choice(sorted(self._sessions))
            self._sessions[client].subscribed = False
            self._deaf_since.setdefault(client, self._world.agenda.now_us)

    def take_snapshot(self) -> None:
        """Remember the queues, as an autosave does."""
        self._snapshot = {
            client: [*session.in_flight.values(), *(payload for _, payload in session.queue)]
            for client, session in self._sessions.items()
        }

    def restart_from_snapshot(self) -> None:
        """Come back with the queues of the last autosave: what came since is lost, what went since comes again."""
        self._drop_everybody()
        expires_us = self.expires_us(0)
        self._sessions = {
            client: Session(queue=deque((expires_us, payload) for payload in payloads))
            for client, payloads in self._snapshot.items()
        }

    def _drop_everybody(self) -> None:
        for session in list(self._sessions.values()):
            if session.link is not None:
                session.link.cut("the broker restarted")

    def _take_back(self, session: Session) -> None:
        expires_us = self.expires_us(0)
        session.queue.extendleft((expires_us, payload) for payload in reversed(session.in_flight.values()))
        session.in_flight.clear()


class Link:
    """One device's adapter: `covey.ports.Relay` over a line that is cut, hangs half-open or is slow."""

    def __init__(self, world: World, broker: Broker, client: str, deliver: Callable[[RelayEvent], None]) -> None:
        self.name = broker.name
        self.client = client
        self.publishes = 0
        self._world = world
        self._broker = broker
        self._deliver = deliver
        self._generation = 0
        self._up = False
        self._half_open = False
        self._unanswered: set[int] = set()
        self._next_handle = 1
        self._last_up_us = 0
        self._last_down_us = 0
        self._came_us = 0
        self._subscribed = False

    # -- the world's side ---------------------------------------------------------------------------------------------

    @property
    def receive_maximum(self) -> int:
        """How many deliveries the client takes without an answer."""
        return self._world.plan.receive_maximum

    @property
    def up(self) -> bool:
        """Say whether the client believes itself connected."""
        return self._up

    def begin(self) -> None:
        """Start connecting."""
        self._attempt(self._world.random.randint(1_000, SECOND))

    def vanish(self) -> None:
        """End with the process; the broker hears of it at once."""
        self._broker.disconnect(self, self._generation)
        self._generation += 1
        self._up = self._half_open = False

    def cut(self, reason: str) -> None:
        """Lose the connection; both sides notice."""
        if self._up:
            self.vanish()
            self._deliver(RelayDown(self.name, reason))
            self._attempt(self._world.random.randint(SECOND, 20 * SECOND))

    def hang(self) -> None:
        """Carry nothing any more; the client notices by its keepalive, the broker when the client comes back."""
        if self._up and not self._half_open:
            self._half_open = True
            generation = self._generation
            self._world.agenda.after(
                self._world.random.randint(20, 120) * SECOND,
                lambda: self.cut("keepalive") if generation == self._generation else None,
            )

    def carry_down(self, generation: int, packet_id: int, payload: bytes) -> None:
        """Bring a delivery to the client."""
        self._came_us = self._world.agenda.now_us
        event = Delivered(self.name, (generation, packet_id), _TOPIC + self.client, payload)
        self._last_down_us = self._carry(self._last_down_us, generation, lambda: self._deliver(event))

    def _attempt(self, delay_us: int) -> None:
        self._generation += 1
        generation = self._generation
        self._world.agenda.after(delay_us, lambda: self._connect(generation))

    def _connect(self, generation: int) -> None:
        if generation != self._generation:
            return
        present = self._broker.connect(self, generation, subscribes=not self._subscribed)
        self._subscribed = True
        self._up, self._half_open = True, False
        self._unanswered.clear()
        self._deliver(RelayUp(self.name, present, self._world.plan.payload_most))
        self._world.agenda.after(self._latency(), lambda: self._broker.pump_client(self.client))
        self._renew_later(generation)

    def _renew_later(self, generation: int) -> None:
        def renew() -> None:
            if generation == self._generation and self._up:
                if not self._half_open and self._world.agenda.now_us >= self._came_us + RESUBSCRIBE_US:
                    self._broker.subscribe(self)
                    self._came_us = self._world.agenda.now_us
                self._renew_later(generation)

        self._came_us = self._came_us or self._world.agenda.now_us
        left_us = self._came_us + RESUBSCRIBE_US - self._world.agenda.now_us
        self._world.agenda.after(max(1, left_us), renew)

    def _carry(self, not_before_us: int, generation: int, arrive: Callable[[], None]) -> int:
        """Bring something over in order, unless the line ends before; return when."""
        arrival_us = max(not_before_us, self._world.agenda.now_us + self._latency())

        def land() -> None:
            if generation == self._generation and not self._half_open:
                arrive()

        self._world.agenda.after(arrival_us - self._world.agenda.now_us, land)
        return arrival_us

    def _latency(self) -> int:
        most = self._world.plan.latency_us
        return self._world.random.randint(most // 5, most)

    # -- the device's side --------------------------------------------------------------------------------------------

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Satisfy the port; the world calls `begin`."""

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int | PublishRefusal:
        """Hand over one publish."""
        if not self._up:
            return PublishRefusal.OFFLINE
        if len(payload) > self._world.plan.payload_most:
            return PublishRefusal.TOO_LARGE
        if len(self._unanswered) >= self._world.plan.publish_window:
            return PublishRefusal.WINDOW_FULL
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._unanswered.add(handle)
        self.publishes += 1
        self._world.count_publish()
        generation = self._generation

        def arrive() -> None:
            if len(payload) > self._world.hangs_up_bytes:
                self._world.hang_ups += 1
                self.cut("hung up")
                return
            reason = self._broker.publish(topic, payload, lifetime_s)
            self._last_down_us = self._carry(self._last_down_us, generation, lambda: self._answer(handle, reason))

        self._last_up_us = self._carry(self._last_up_us, generation, arrive)
        return handle

    def _answer(self, handle: int, reason: int) -> None:
        self._unanswered.discard(handle)
        self._deliver(Released(self.name, handle, reason))

    def acknowledge(self, delivered: Delivered) -> None:
        """Let the broker forget a delivery of this connection."""
        generation, packet_id = delivered.token
        if self._up and generation == self._generation:
            self._last_up_us = self._carry(
                self._last_up_us,
                generation,
                lambda: self._broker.acknowledge(self.client, generation, packet_id),
            )

    def alive(self) -> bool:
        """Say that the adapter's thread runs; here it is the world's."""
        return True

    def rest(self) -> None:
        """Satisfy the port."""

    def resume(self) -> None:
        """Satisfy the port."""

    def renew_subscription(self) -> None:
        """Subscribe again, if there is a connection."""
        if self._up and not self._half_open:
            self._broker.subscribe(self)

    def set_will(self, will: LastWill | None) -> None:
        """Satisfy the port: no device here leaves a will."""

    def listen(self, topics: Collection[str]) -> None:
        """Satisfy the port: no device here pairs by a code."""

    def stop(self) -> None:
        """Satisfy the port."""
