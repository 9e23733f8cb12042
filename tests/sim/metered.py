"""Worlds in which bytes are money: devices with a budget, or with windows to connect in, for days of virtual time.

Ann's and ben's links are metered, the collector's is not. The network counts what it carries, as an operator's bill
does: every byte in both directions, with topics, TLS, TCP, pings, and connections that fail. The devices' own books are
not asked. It checks, as it happens:

1. No budget is exceeded, in no day or month of the device's clock. A day begins when the clock passes midnight by
   itself, once: a clock that is set ends no day, and one that is set back passes some midnights twice.
2. Readings leave the reserve alone, and stay within what has passed of a month.
3. Nothing urgent waits where a reading goes, or where a window ends; an alarm opens a window at once.
4. A window ends: after its longest time, and not while something moves.
5. Once the faults have ceased, outboxes drain, as fast as budgets allow; and what the vault holds, what became
   summaries, and what is reported as lost is together what was produced, each reading once. A budget near the minimum
   pays for little but connections: with it nothing need drain, and the rest must hold.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.adapters.mqtt.wire_meter import WireBytes, WireMeter, failed
from covey.app.loop.link_costs import LinkCosts
from covey.app.loop.link_windows import LinkWindows, ask_for_window
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import AgentRole, Runtime
from covey.core.history.bodies import Note
from covey.core.history.kinds import ORDER_KINDS
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import read_operation
from covey.core.history.orders import SettingOrder
from covey.core.ids import OperationId, Place
from covey.core.link.budget import Budget, link_budget
from covey.core.link.connect_windows import ConnectSchedule, ConnectWindows, connect_schedule
from covey.core.link.costs import READINGS, month_begins, month_ends, month_of
from covey.core.link.queued import Lane
from covey.core.link.sealer import Outgoing
from covey.core.link.send_window import SendLink, Waiting
from covey.core.node import Node, purpose_of
from covey.core.now import Now
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.states import ReportedSetting, SettingState
from covey.core.telemetry.batch import Alarm
from covey.core.wire.message import MessageType, read_message
from covey.errors import LocalError
from covey.limits.link import (
    BUDGET_GRANTED_BYTES,
    BUDGET_GRANTED_PART,
    DELIVERY_BYTES,
    WINDOW_COST_BYTES,
    WINDOW_QUIET_US,
    WINDOW_US_MAX,
)
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent
from tests.fleet import NodeMaker
from tests.sim.agenda import MINUTE, SECOND
from tests.sim.broker import _TOPIC, Broker, Link
from tests.sim.device import Action, Device
from tests.sim.ledger import MARK, Submission, ViolationError, check, measured
from tests.sim.memory import Memory
from tests.sim.plan import Plan, draw
from tests.sim.template import template
from tests.sim.world import Summary, World

if TYPE_CHECKING:
    from tests.sim.store import SimStore

HOUR = 60 * MINUTE
DAY = 24 * HOUR
_LOOK_US, _LIMITED_LOOK_US = SECOND // 5, SECOND // 50
"""How soon an adapter looks at what its socket has carried (`connection._METER_S`), and with a budget."""
_PING_US, _PING_BYTES = 72 * SECOND, 204
_MQTT_BYTES, _PUBACK_BYTES, _TLS_BYTES, _SEGMENT_BYTES, _HEADERS = 10, 4, 22, 1_400, 52
_OPENING = WireBytes(tcp=300, connections=1)
_ENDING = WireBytes(mqtt=64, tls=64, tcp=360)
"""What `ConnectionMeter` notes of both, which the network exhausts at worst."""
_FAILED_BYTES, _FAILED_TLS_BYTES = 400, 6_000
"""What a device assumes that a connection has cost which did not come about, as `docs/how-to/metered.md` says."""
_PATIENCE_US = 20 * DAY
_SMALL_BYTES, _SMALL_US = 15_000, 3 * DAY
"""A day's budget that need not pay for what waits, and how long such a world goes on."""
_EXHAUSTED_US = MINUTE
_URGENT_BYTES = WINDOW_COST_BYTES + 1_000
_SHORTEST_DAY_US = 22 * HOUR
"""Between two midnights of a clock that is set by an hour at most, whichever way, and by whole days."""
_SLACK_BYTES = 2_000
"""What a device's own count may differ by, for what was carried between two looks."""


@dataclass(frozen=True, slots=True)
class Meter:
    """What one device may spend, and what its link is like."""

    budget: str
    connect: str
    connection: int
    """Bytes of a connection that comes about, TLS and all."""
    fails: float
    cuts: float
    resent: float
    """The share of bytes that TCP sends again."""


@dataclass(frozen=True, slots=True)
class MeteredPlan:
    """What a metered world draws beside the plan of its faults."""

    plan: Plan
    meters: tuple[Meter, Meter]
    days: int
    batches: int
    orders: int
    alarms: int
    blobs: int
    jumps: bool
    writes: bool
    """Whether devices give orders and post notes."""


def draw_metered(source: random.Random) -> MeteredPlan:
    """Draw a world."""
    days = source.choice((1, 2, 3))
    jumps = source.random() < 0.15
    faulty = source.random() < 0.7

    def share(most: float) -> float:
        return source.uniform(0, most) if faulty and source.random() < 0.5 else 0.0

    def meter() -> Meter:
        budget = source.choice(("", "10 kB/day", "20 kB/day", "60 kB/day", "200 kB/day", "310 kB/month", "1 MB/month"))
        connect = source.choice(("every 10m", "every 1h", "every 6h", "at 02:00", *(("always",) * 2 if budget else ())))
        return Meter(budget, connect, source.randint(1_200, 4_000), share(0.3), share(0.3), share(0.1))

    plan = replace(
        draw(source),
        faults_us=days * DAY,
        queue_most=1_000,
        queue_expires_us=60 * DAY,
        lose=share(0.2),
        duplicate=share(0.1),
        reorder=share(0.2),
        receive_maximum=source.choice((1, 3, 100)),
        publish_window=source.choice((1, 4, 200)),
        payload_most=1_200_000,
        cut_every_us=0,
        half_open=0.0,
        wipe_every_us=0,
        deafen_every_us=0,
        snapshot_every_us=0,
        crash=share(0.01),
        disk_full_every_us=0,
        clock_jump_every_us=source.randint(HOUR, days * DAY) if jumps else 0,
        vault_refuses=share(0.3),
        vault_lies=share(0.2),
        attack_every_us=0,
        outbox_bytes=source.choice((4_000, 8_000, 10_000_000)),
        submissions=0,
        joiner=False,
        restore_every_us=0,
        second_relay=False,
    )
    batches = round(4 * math.pow(12, source.random()))
    return MeteredPlan(
        *(plan, (meter(), meter()), days, batches, source.randint(0, 6), source.randint(0, 5), source.randint(0, 4)),
        *(jumps, source.random() < 0.5),
    )


class MeteredBroker(Broker):
    """One that heeds the expiry of messages (MQTT 5, section 3.3.2.3.3)."""

    def expires_us(self, lifetime_s: int) -> int:
        """Return when it drops a message with such a lifetime."""
        return self._world.agenda.now_us + lifetime_s * SECOND if lifetime_s > 0 else super().expires_us(lifetime_s)


class MeteredLink(Link):
    """An adapter whose bytes are counted: by the network as they are carried, by the device when it looks.

    A link whose device has no meter is not counted, and always connected.
    """

    device: MeteredDevice
    _wanted = True
    _unseen = WireBytes()
    _looks = False
    _resting = False
    _connected_us = _traffic_us = 0

    @property
    def _meter(self) -> WireMeter | None:
        return self.device.wire if self.device.meter is not None else None

    @property
    def receive_maximum(self) -> int:
        """How many deliveries the client takes without an answer."""
        budget = self.device.budget
        return super().receive_maximum if budget is None else min(budget.deliveries, super().receive_maximum)

    def begin(self) -> None:
        """Start connecting, unless the device rests."""
        self._unseen = WireBytes()
        if self._wanted:
            super().begin()

    def vanish(self) -> None:
        """End with the process: what was not looked at is in no book."""
        self._unseen, self._looks = WireBytes(), False
        super().vanish()
        self._wanted = True

    def cut(self, reason: str) -> None:
        """Lose the connection."""
        if self._up and self._meter is not None:
            self._end(reason)
            self._attempt(self._world.random.randint(SECOND, 20 * SECOND))
        elif self._up:
            super().cut(reason)

    def _end(self, reason: str, *, resting: bool = False) -> None:
        """End a connection, of which the network carries as much as the meter assumes."""
        self._count(_ENDING)
        self._look()
        unseen, wanted = self._unseen, self._wanted
        self.vanish()
        self._unseen, self._wanted = unseen, wanted
        self._deliver(RelayDown(self.name, reason, up_s=1.0, resting=resting))

    def rest(self) -> None:
        """Disconnect, and stay away."""
        self._wanted = False
        if self._up:
            self._end("resting", resting=True)
        else:
            self._generation += 1

    def resume(self) -> None:
        """Connect again."""
        if not self._wanted:
            self._wanted = True
            self._attempt(self._world.random.randint(1_000, SECOND))

    def _connect(self, generation: int) -> None:
        meter = self._meter
        if generation != self._generation or not self._wanted:
            return
        if meter is None:
            super()._connect(generation)
            return
        assert self.device.meter is not None
        if not meter.pays_for_connection:
            self._attempt(_EXHAUSTED_US)
            return
        if self._world.happens(self.device.meter.fails):
            tls = self._world.random.choice((0, 2_000, 5_000))
            self.device.count(WireBytes(tls=tls, tcp=300))
            self.device.assumes(_FAILED_BYTES + bool(tls) * _FAILED_TLS_BYTES - tls - 300)
            failed(meter, encrypted=bool(tls))
            self._world.trace(self.device.name, "cannot connect")
            self.device.trouble_us = self._world.agenda.now_us
            self._deliver(RelayDown(self.name, "no connection"))
            self._attempt(self._world.random.randint(SECOND, 60 * SECOND))
            return
        self.device.count(_OPENING)
        meter.note(_OPENING)
        self._count(
            WireBytes(mqtt=200, tls=self.device.meter.connection * 3 // 4, tcp=self.device.meter.connection // 4)
        )
        self._look()
        self._world.trace(self.device.name, "connects")
        super()._connect(generation)
        self._connected_us = self._traffic_us = self._world.agenda.now_us
        self._ping_later(self._generation)
        if self._world.happens(self.device.meter.cuts):
            at_us = self._world.random.randint(0, 15 * SECOND)
            self._world.agenda.after(at_us, lambda: self._cut_off(generation))

    def _cut_off(self, generation: int) -> None:
        if generation == self._generation and self._up:
            self.device.trouble_us = self._world.agenda.now_us
            self.cut("cut")

    def _ping_later(self, generation: int) -> None:
        def ping() -> None:
            if generation == self._generation and self._up:
                if self._world.agenda.now_us >= self._traffic_us + _PING_US:
                    self._count(WireBytes(mqtt=4, tls=44, tcp=_PING_BYTES - 48))
                self._ping_later(generation)

        left_us = self._traffic_us + _PING_US - self._world.agenda.now_us
        self._world.agenda.after(max(SECOND, left_us), ping)

    # -- the count ----------------------------------------------------------------------------------------------------

    def _count(self, wire: WireBytes) -> None:
        """Count what the network carries; the device looks at its socket a little later."""
        if self._meter is None:
            return
        self._traffic_us = self._world.agenda.now_us
        assert self.device.meter is not None
        wire += WireBytes(tcp=round(wire.total * self.device.meter.resent * self._world.random.random()))
        self.device.count(wire)
        self._unseen += wire
        if not self._looks:
            self._looks, generation = True, self._generation
            self._world.agenda.after(
                self._world.random.randint(1, _LOOK_US if self.device.budget is None else _LIMITED_LOOK_US),
                lambda: self._look_at(generation),
            )

    def _look_at(self, generation: int) -> None:
        if generation != self._generation:
            return
        self._looks = False
        self._look()
        if self._up and self._meter is not None and self._meter.exhausted:
            self._end("the budget is exhausted")
            self._attempt(_EXHAUSTED_US)

    def _look(self) -> None:
        unseen, self._unseen = self._unseen, WireBytes()
        if self._meter is not None:
            self._meter.note(unseen)

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int | PublishRefusal:
        """Hand over one publish."""
        result = super().publish(topic, payload, lifetime_s)
        if not isinstance(result, PublishRefusal):
            self._count(_packet(topic, payload))
        return result

    def _answer(self, handle: int, reason: int) -> None:
        self._count(_PUBACK)
        super()._answer(handle, reason)

    def carry_down(self, generation: int, packet_id: int, payload: bytes) -> None:
        """Bring a delivery to the client."""
        if generation == self._generation and self._up:
            self._count(_packet(_TOPIC + self.client, payload))
        super().carry_down(generation, packet_id, payload)

    def acknowledge(self, delivered: Delivered) -> None:
        """Let the broker forget a delivery of this connection."""
        if self._up and delivered.token[0] == self._generation and delivered.token[1]:
            self._count(_PUBACK)
        super().acknowledge(delivered)


_PUBACK = WireBytes(mqtt=_PUBACK_BYTES, tls=_TLS_BYTES, tcp=_HEADERS)


def _packet(topic: str, payload: bytes) -> WireBytes:
    size = len(topic) + len(payload) + _MQTT_BYTES
    return WireBytes(size, _TLS_BYTES, _HEADERS * (1 + size // _SEGMENT_BYTES))


class MeteredRelays(Relays):
    """Tells the device what its runtime hands over, and when it rests."""

    def __init__(self, device: MeteredDevice) -> None:
        super().__init__(device.links)
        self._device = device

    def send(self, outgoing: Outgoing, retries: int, now_us: int) -> str | PublishRefusal:
        """Publish an envelope."""
        result = super().send(outgoing, retries, now_us)
        if not isinstance(result, PublishRefusal):
            self._device.sent(outgoing)
        return result

    def rest(self) -> None:
        """Disconnect."""
        self._device.rests()
        super().rest()

    def resume(self) -> None:
        """Connect again."""
        self._device.opened_us = self._device.world.agenda.now_us
        super().resume()


class MeteredDevice(Device):
    """A device that keeps a budget, or connects in windows; without a meter it is like any other."""

    world: MeteredWorld
    meter: Meter | None = None
    budget: Budget | None = None
    schedule: ConnectSchedule | None = None
    wire: WireMeter
    opened_us = trouble_us = 0
    _moved_us = 0
    """When something was sent, or has arrived."""
    _today = _this_month = _assumed_today = _assumed_this_month = 0
    """Bytes that the network has carried, and those that the device counts in addition: it has to assume the worst."""

    def equip(self, meter: Meter | None) -> None:
        """Give it a meter, before it starts."""
        for link in self.links:
            assert isinstance(link, MeteredLink)
            link.device = self
        self._date = self._clock.wall_us() // DAY
        self._began_us = self._midnight_us
        if meter is None:
            self._nodes = NodeMaker(self.identity, self.world.random, collects=True)
            return
        self.meter = meter
        self.budget = link_budget(meter.budget)
        schedule = connect_schedule(meter.connect)
        self.schedule = self.budget.schedule() if schedule is None and self.budget is not None else schedule
        self._nodes = NodeMaker(self.identity, self.world.random, presence_us=10 * MINUTE)

    # -- its process --------------------------------------------------------------------------------------------------

    def _make_runtime(self, store: SimStore, roles: list[AgentRole]) -> Runtime:
        if self.meter is None:
            return super()._make_runtime(store, roles)
        self.wire, relays, now = WireMeter(), MeteredRelays(self), self._time()
        costs = LinkCosts(store, self.wire, now, self.budget)
        windows = None
        if self.schedule is not None:
            scheduled = ConnectWindows(self.schedule, self.identity.signing_public, now)
            windows = LinkWindows(scheduled, store, relays, lambda: False, costs)
        runtime = Runtime(
            *(store, relays, self._clock, lambda state: self._nodes.make(store, state), [*roles, costs], self._report),
            windows=windows,
            may_spend=costs.may_spend,
        )
        self.opened_us = self.world.agenda.now_us
        if windows is not None:
            windows.turn(runtime.node, now)
        return runtime

    def _time(self) -> Now:
        return Now(self._clock.monotonic_us(), self._clock.wall_us())

    @property
    def _poll_us(self) -> int:
        if self.meter is None:
            return HOUR
        return 2 * SECOND if any(link.up for link in self.links) else HOUR

    @property
    def _pause_us(self) -> int:
        rests = self.meter is not None and not self._events and not any(link.up for link in self.links)
        return SECOND if rests else super()._pause_us

    def _vanish(self) -> None:
        self.trouble_us = self.world.agenda.now_us
        if self.budget is not None:
            self.assumes(WINDOW_COST_BYTES + max(BUDGET_GRANTED_BYTES, self.budget.bytes_a_day // BUDGET_GRANTED_PART))
        super()._vanish()

    def quiet(self) -> bool:
        """Say whether nothing is left to do here."""
        landed = not self.alive or not self._nodes.collects or self.store.landing.size() == 0
        return self.alive and landed and not self.pending and not self.waits()

    def waits(self) -> list[str]:
        """Return what waits in the outbox; link keys may, as new ones follow."""
        rows = [
            read_message(raw, verify=False)
            for device in self.world.devices
            for _, raw in self.store.outbox.queued(device.identity.signing_public, Place(0), 1_000, 10_000_000)
        ]
        return [each.type.name for each in rows if each.type is not MessageType.LINK]

    # -- what it asks for ---------------------------------------------------------------------------------------------

    def submit(self, store: SimStore, node: Node, action: Action, now: Now) -> None:
        """Hand over a batch, or an alarm, which opens a window."""
        if not isinstance(action, AlarmAction):
            super().submit(store, node, action, now)
            return
        me = self.identity.signing_public
        submission = Submission(me, frozenset({self.world.collector.identity.signing_public}), telemetry=True)
        try:
            with store.transaction():
                node.telemetry.send(self.world.group_id, action.body, 1, now, Alarm.RAISED, whole=True)
                ask_for_window(store, now)
                store.on_commit(lambda: self._accepted(action, submission))
                store.on_commit(self._raised)
        except LocalError as error:
            self._done(action)
            self.world.trace(self.name, f"refused: {error}")

    def _raised(self) -> None:
        """Check, a little later, that an alarm has gone where nothing failed and the budget pays for a window."""
        raised_us, affords = self.world.agenda.now_us, self.affords(_URGENT_BYTES)

        def look() -> None:
            if affords and self.affords(_URGENT_BYTES) and self.trouble_us < raised_us - MINUTE and self.alive:
                waiting = [each for each in self.waits_urgently() if each.startswith(Lane.ALARM.name)]
                check(not waiting, f"an alarm of {self.name} opens no window")

        self.world.agenda.after(3 * MINUTE, look)

    def order(self, number: int) -> None:
        """Give an order to the group, or post a note."""

        def work(store: SimStore, node: Node, now: Now) -> None:
            body = SettingOrder(EVERYBODY, f"s{number}", number) if number % 2 else Note("text/plain", b"%d" % number)
            with store.transaction():
                node.history.write(self.world.group_id, body, now)

        self.in_another_process(work)

    def report(self, number: int) -> None:
        """Report a setting to the collector, as an order has it do."""

        def work(store: SimStore, node: Node, now: Now) -> None:
            settings = [ReportedSetting(f"s{number}", OperationId(bytes(32)), SettingState.APPLIED, number)]
            with store.transaction():
                collector = self.world.collector.identity.signing_public
                node.setting_reports.queue(self.world.group_id, [collector], settings, now)

        self.in_another_process(work)

    # -- what the network sees ----------------------------------------------------------------------------------------

    def count(self, wire: WireBytes) -> None:
        """Count what was carried for it, and check its budget (rule 1)."""
        self._pass_midnight()
        self._today += wire.total
        self._this_month += wire.total
        if self.schedule is not None:
            lasted_us = self.world.agenda.now_us - self.opened_us
            check(lasted_us <= self._longest_us + MINUTE, f"a window of {self.name} does not end")
        if self.budget is not None:
            spent = self.spent()
            check(spent <= self.budget.bytes, f"{self.name} exceeds its budget: {spent} of {self.budget.bytes} bytes")

    def spent(self) -> int:
        """Return what this day or month has cost, as the network counted."""
        self._pass_midnight()
        return self._this_month if self.budget is not None and self.budget.monthly else self._today

    @property
    def _midnight_us(self) -> int:
        """When its clock passed midnight, if nobody has set it since."""
        return self.world.agenda.now_us - self._clock.wall_us() % DAY

    def _pass_midnight(self) -> None:
        day = self._clock.wall_us() // DAY
        if day > self._date and self._midnight_us >= self._began_us + _SHORTEST_DAY_US:
            self._began_us = self._midnight_us
            self._today = self._assumed_today = 0
            if month_of(day) != month_of(self._date):
                self._this_month = self._assumed_this_month = 0
        self._date = day

    def jump_clock(self, by_us: int) -> None:
        """Set the wall clock wrong; what a correction may be is time that passes, as for a process that did not run."""
        self._pass_midnight()
        step_us = by_us - self.skew_us
        super().jump_clock(by_us)
        if not self.alive and step_us > 0:
            self._began_us -= step_us
        elif not 0 < step_us <= HOUR:
            self._date = self._clock.wall_us() // DAY
        self.wake(0)

    def assumes(self, size: int) -> None:
        """Note that the device counts so much more than was carried: it cannot know what failed or was cut off."""
        self._pass_midnight()
        self._assumed_today += size
        self._assumed_this_month += size

    def affords(self, size: int) -> bool:
        """Say whether something urgent of that size may still go; of a clock that is set nobody here knows it."""
        if self.budget is None:
            return True
        if self.world.metered.jumps:
            return False
        assumed = self._assumed_this_month if self.budget.monthly else self._assumed_today
        return self.spent() + assumed + size <= self.budget.bytes - self.budget.margin

    def _take_event(self, event: RelayEvent) -> None:
        if not isinstance(event, RelayDown):
            self._moved_us = self.world.agenda.now_us
        super()._take_event(event)

    def sent(self, outgoing: Outgoing) -> None:
        """Check what goes (rules 2 and 3)."""
        self._moved_us = self.world.agenda.now_us
        if purpose_of(outgoing) != READINGS:
            return
        check(not self.waits_urgently(), f"{self.name} sends readings while something urgent waits")
        if self.budget is not None:
            check(self.spent() <= self._share() + _SLACK_BYTES, f"{self.name} sends readings from the reserve")

    def _share(self) -> int:
        """Return what readings may use: four fifths, and of a month what has passed, with a day in advance."""
        assert self.budget is not None
        share = self.budget.bytes * 4 // 5
        if not self.budget.monthly:
            return share
        day = self._clock.wall_us() // DAY
        first, last = month_begins(day), month_ends(day)
        return share * min(last - first, day - first + 2) // (last - first)

    def waits_urgently(self, *lanes: Lane) -> list[str]:
        """Return what of control messages, alarms and orders has never gone, though its recipient answers."""
        assert self._runtime is not None
        windows, found = self._runtime.node.state.windows, []
        for recipient in self.store.outbox.recipients():
            for lane in lanes or (Lane.CONTROL, Lane.ALARM):
                link = windows._link(recipient, lane)
                if link is not None and (link.retries or _is_full(link)):
                    continue  # it waits for an answer, not for what goes meanwhile
                for place, raw in self.store.outbox.queued(recipient, Place(0), 8, 100_000, lane=lane):
                    entry = None if link is None else link._window.get(place)
                    waits = link is None or entry is None or not entry.sends
                    if waits and (lane is not Lane.HISTORY or is_order(raw)):
                        found.append(f"{lane.name} {place}")
        return found

    @property
    def _longest_us(self) -> int:
        assert self.schedule is not None
        return min(WINDOW_US_MAX, self.schedule.every_us // 2)

    @property
    def _spare(self) -> int:
        """With so much left it goes on: less may be needed for deliveries, which it counts before it has seen them."""
        return _SLACK_BYTES + (0 if self.budget is None else self.budget.deliveries * DELIVERY_BYTES)

    def rests(self) -> None:
        """Check the end of a window (rules 3 and 4)."""
        world, now_us = self.world, self.world.agenda.now_us
        if self.schedule is None:
            return
        lasted_us = now_us - self.opened_us
        link = self.links[0]
        assert isinstance(link, MeteredLink)
        if lasted_us >= self._longest_us - SECOND or not self.affords(self._spare) or not link.up:
            return
        turn_us = 2 * world.plan.turn_us + SECOND
        still_us = now_us - self._moved_us
        check(still_us >= WINDOW_QUIET_US - turn_us, f"a window of {self.name} ends while something moves")
        if now_us - link._connected_us > 10 * SECOND:
            waits = self.waits_urgently(Lane.CONTROL, Lane.ALARM, Lane.HISTORY)
            check(not waits, f"a window of {self.name} ends before something urgent has gone: {waits}")


def _is_full(link: SendLink) -> bool:
    """Say whether as much is in flight as may be without an answer."""
    return sum(not isinstance(each.state, Waiting) for each in link._window.values()) >= link._allowed


def is_order(raw: bytes) -> bool:
    """Say whether a message of the history carries an order."""
    operations = OperationBundle.from_wire(read_message(raw, verify=False).body).operations
    return any(read_operation(each, verify=False).kind in ORDER_KINDS for each in operations)


@dataclass(frozen=True, slots=True)
class AlarmAction(Action):
    """A batch that is an alarm."""


class MeteredWorld(World):
    """Everything of one seed."""

    device_class = MeteredDevice
    link_class = MeteredLink
    broker_class = MeteredBroker
    devices: list[MeteredDevice]  # type: ignore[assignment]

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.metered = draw_metered(random.Random(f"metered {seed}"))
        super().__init__(seed, trace, self.metered.plan)
        for device, meter in zip(self.devices, (*self.metered.meters, None), strict=True):
            device.equip(meter)
        self._reports = 0

    def count_publish(self) -> None:
        """Count one publish."""
        self.publishes += 1

    def run(self) -> Summary:
        """Live through the plan.

        Raises:
            ViolationError: an invariant does not hold.
        """
        for meter in self.metered.meters:
            self.trace("world", str(meter))
        return super().run()

    def run_until_quiet(self, since_us: int | None = None) -> None:
        """Go on until nothing is left to do.

        Raises:
            ViolationError: it never was so.
        """
        began_us = self.agenda.now_us if since_us is None else since_us
        while not self._quiet():
            if self._is_small and self.agenda.now_us > began_us + _SMALL_US:
                return
            if self.agenda.now_us > began_us + _PATIENCE_US:
                waiting = {device.name: device.waits() for device in self.devices if device.alive}
                raise ViolationError(f"outboxes do not drain: {waiting}")
            self.agenda.run(self.agenda.now_us + HOUR)

    @property
    def _is_small(self) -> bool:
        return any(each.budget is not None and each.budget.bytes_a_day < _SMALL_BYTES for each in self.devices)

    def _check_end(self) -> None:
        if self._quiet():
            super()._check_end()
            return
        self.objects.check_everything_opens()
        check(max(self.ledger.landed_bodies.values(), default=0) <= 1, "telemetry is in the vault more than once")

    def _enter_submissions(self) -> None:
        last_us, metered = self.plan.faults_us, self.metered
        for device in self.devices[:2]:
            for count, act in (
                (metered.batches, self._measure),
                (metered.alarms, self._alarm),
                (metered.orders, self._order),
            ):
                for _ in range(count):
                    self.agenda.after(self.random.randint(0, last_us), lambda act=act, device=device: act(device))
        for _ in range(metered.blobs):
            self.agenda.after(self.random.randint(0, last_us), lambda: self._say(self.random.choice(self.devices)))

    def _enter_faults(self) -> None:
        if self.plan.clock_jump_every_us:
            self._repeat(self.plan.clock_jump_every_us, self._jump_clock)

    def _next(self) -> tuple[int, bytes]:
        self._submitted += 1
        return self._submitted, MARK + self._submitted.to_bytes(4) + self.rng(self.random.choice((1, 20, 200)))

    def _measure(self, device: MeteredDevice) -> None:
        device.pending.append(Action(measured(*self._next()), telemetry=True))
        device.wake(0)

    def _alarm(self, device: MeteredDevice) -> None:
        device.pending.append(AlarmAction(measured(*self._next()), telemetry=True))
        device.wake(0)

    def _order(self, device: MeteredDevice) -> None:
        self._reports += 1
        device.report(self._reports)
        if self.metered.writes:
            device.order(self._reports)

    def _say(self, device: MeteredDevice) -> None:
        device.pending.append(Action(self._next()[1], telemetry=False))
        device.wake(0)

    def _jump_clock(self) -> None:
        device, by_us = self.random.choice(self.devices[:2]), self.random.choice((-2 * DAY, -HOUR, 0, HOUR, 2 * DAY))
        device.wake(0)  # it looks at its clock four times a second
        self.agenda.after(1, lambda: device.jump_clock(by_us))


def run_metered(seed: int, trace: Callable[[str], None] | None = None) -> Summary:
    """Run one seed in a world of its own.

    Raises:
        ViolationError: an invariant does not hold; the seed replays it.
    """
    template()
    with Memory().applied():
        world = MeteredWorld(seed, trace)
        try:
            return world.run()
        except Exception as error:
            raise ViolationError(f"an agent fell over: {error!r}") from error
        finally:
            for device in world.devices:
                device.throw_away()
