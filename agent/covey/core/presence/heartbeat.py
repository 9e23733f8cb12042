"""A device's heartbeats and its will, and what it knows of others' (docs/protocol/groups.md, "Presence"; ADR 21).

1. A device beats for the collectors of its telemetry: whenever a connection to a relay begins or ends, and otherwise
   only if it has sent a collector nothing for the interval, because any message shows that it is online.
2. Every beat and every will has a counter that always rises, also across restarts: it is at least the wall clock's
   seconds, and a durable floor is kept ahead of it in blocks, so that a beat costs no write.
3. A device that connects in windows beats once in each, which says when the next one begins, and leaves no will.
4. Once in `COST_REPORT_US` a beat tells what the device's link has cost; a device that sends enough to need no beat
   sends one for it. In windows each beat tells it.
5. Other devices' reports are kept in memory. Changes are written at once, mere repetitions together once a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.ids import DeviceKey
from covey.core.link.after_commit import AfterCommit
from covey.core.link.sealer import Sealer
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.presence.status import PeerPresence, Presence, PresenceState, State, asleep_until, peer_presence
from covey.core.wire.envelope import seal
from covey.core.wire.message import Message, MessageType
from covey.core.wire.topics import inbox_topic
from covey.errors import NotAMemberError
from covey.limits.link import COST_REPORT_US
from covey.limits.relay import MAXIMUM_PRESENCE_S, PRESENCE_BLOCK, PRESENCE_WRITE_US, WILL_DELAY_US

if TYPE_CHECKING:
    from covey.core.records.link import PresenceRecords


@dataclass(frozen=True, slots=True)
class LastWill:
    """What a relay publishes when this device's connection ends without a DISCONNECT: `delay_s` later."""

    topic: str
    envelope: bytes = field(repr=False)
    connection: int
    delay_s: int


class Heartbeat:
    """This device's own presence, and what it knows of others'. Without an interval it says nothing of itself."""

    def __init__(
        self,
        own: DeviceKey,
        records: PresenceRecords,
        sealer: Sealer,
        rng: Callable[[int], bytes],
        interval_us: int,
        presence: PresenceState,
        after_commit: AfterCommit,
    ) -> None:
        self._own = own
        self._records = records
        self._sealer = sealer
        self._rng = rng
        self._interval_us = interval_us
        self._next = self._floor = 0
        self._due_us: dict[DeviceKey, int] = {}
        self._reported_us: dict[DeviceKey, int] = {}
        """When each collector was told last what the link has cost."""
        self._presence = presence
        self._after_commit = after_commit
        self._write_at_us: int | None = 0 if presence.unwritten else None

    # -- one's own ----------------------------------------------------------------------------------------------------

    def connected(self, relay: str, connection: int | None) -> None:
        """Note that a relay is reached, and the connection that its will of ours names; each collector gets a beat."""
        self._presence.relays[relay] = connection or (self._count() if self._left else 0)
        self._due_us.clear()

    def connection_lost(self, relay: str) -> None:
        """Note that a relay is lost; a beat to every collector is due by those that are left."""
        if self._presence.relays.pop(relay, None) is not None:
            self._due_us.clear()

    def end(self) -> None:
        """Say from now on that this device goes: it will be off on purpose."""
        self._presence.going = True
        self._due_us.clear()

    @property
    def stays(self) -> bool:
        """Say whether this device stays connected. Another beat follows then, so that one may be lost."""
        return not self._presence.going and self._presence.next_window_us is None

    def spoke(self, recipient: DeviceKey, now: Now) -> None:
        """Note that a message has gone to somebody, which needs no beat for a while (rule 1)."""
        if recipient in self._due_us:
            self._due_us[recipient] = self._next_beat(recipient, now)

    def _next_beat(self, collector: DeviceKey, now: Now) -> int:
        """Return when the next beat is due if nothing is sent (rules 1 and 4)."""
        quiet_us = now.monotonic_us + self._interval_us
        if self._presence.cost is None or self._presence.next_window_us is not None:
            return quiet_us
        reported_us = self._reported_us.get(collector, now.monotonic_us - COST_REPORT_US)
        return min(quiet_us, max(now.monotonic_us, reported_us + COST_REPORT_US))

    def due(self, groups: Groups, now: Now) -> Iterator[tuple[DeviceKey, bytes]]:
        """Yield (collector, body) of the beats that are due; going on says that one has gone."""
        if not self._interval_us or not self._presence.relays or not self._left:
            return
        collectors = groups.collectors()
        self._due_us = {each: self._due_us.get(each, now.monotonic_us) for each in collectors}
        for collector in collectors:
            if self._due_us[collector] <= now.monotonic_us and self._left:
                beat = self._beat(now)
                reported_us = self._reported_us.get(collector)
                if self.stays and reported_us is not None and now.monotonic_us < reported_us + COST_REPORT_US:
                    beat = replace(beat, cost=None)
                yield collector, beat.to_wire()
                if beat.cost is not None:
                    self._reported_us[collector] = now.monotonic_us
                self._due_us[collector] = self._next_beat(collector, now)

    def _beat(self, now: Now) -> Presence:
        cost = self._presence.cost
        if self._presence.going:
            return Presence(self._count(), State.GOING, self._interval_s, (), cost)
        if self._presence.next_window_us is not None:
            left_s = max(1, -(-(self._presence.next_window_us - now.monotonic_us) // 1_000_000))
            return Presence(self._count(), State.ASLEEP, min(left_s, MAXIMUM_PRESENCE_S), (), cost)
        connections = tuple(sorted(set(self._presence.relays.values())))
        return Presence(self._count(), State.HERE, self._interval_s, connections, cost)

    def next_deadline(self) -> int | None:
        """Return when a beat is due, in monotonic microseconds."""
        return min(self._due_us.values(), default=None)

    def last_will(self, groups: Groups, now: Now) -> LastWill | None:
        """Return the will of the next connection, for this device's first collector; None where it has none.

        It is sealed for the collector's noise key (envelope version 1): a link key may be long gone when it is read.
        """
        leaves_one = self._interval_us and self._left and self._presence.next_window_us is None
        collector = next(iter(groups.collectors()), None) if leaves_one else None
        address = groups.address(collector) if collector is not None else None
        if collector is None or address is None:
            return None
        will = Presence(self._count(), State.GONE, self._interval_s)
        message = self._sealer.unsequenced(collector, MessageType.PRESENCE, will.to_wire(), now)
        envelope = seal(message, address, self._rng(32), self._rng(crypto.NONCE_BYTES))
        delay_s = max(1, min(self._interval_us, WILL_DELAY_US) // 1_000_000)
        return LastWill(inbox_topic(collector), envelope, will.counter, delay_s)

    @property
    def _interval_s(self) -> int:
        return max(1, self._interval_us // 1_000_000)

    @property
    def _left(self) -> int:
        return self._floor - self._next

    def _count(self) -> int:
        self._next += 1
        return self._next

    # -- others' ------------------------------------------------------------------------------------------------------

    def receive(self, groups: Groups, message: Message, now: Now) -> bool:
        """Take a presence; return whether it shows that its author is there: a will does not.

        Raises:
            RemoteError: of a stranger or a removed member, or malformed.
        """
        if groups.shares_nothing_with(message.author):
            raise NotAMemberError("a PRESENCE by an unknown device")
        presence = Presence.from_wire(message.body)
        before = self._presence.peers.get(message.author) or self._records.of_peer(message.author)
        if before is not None:
            after = before.updated(presence, now.wall_us)
        elif presence.state is State.GONE:
            after = None
        else:
            after = peer_presence(presence, now.wall_us, now.wall_us)
        if after is None:
            return False
        soon = before is not None and (before.state, before.connections) == (after.state, after.connections)
        write_at_us = now.monotonic_us + (PRESENCE_WRITE_US if soon else 0)
        self._write_at_us = write_at_us if self._write_at_us is None else min(write_at_us, self._write_at_us)
        self._presence.peers[message.author] = after
        self._presence.unwritten.add(message.author)
        return presence.state is not State.GONE

    def asleep_us(self, now: Now) -> dict[DeviceKey, int]:
        """Return how long each device that was heard to sleep does so for; it takes nothing before."""
        until = {device: asleep_until(peer) for device, peer in self._presence.peers.items()}
        return {
            device: until_us - now.wall_us
            for device, until_us in until.items()
            if until_us is not None and until_us > now.wall_us
        }

    # -- the store ----------------------------------------------------------------------------------------------------

    def has_work(self, now: Now) -> bool:
        """Say whether `write` has something to do."""
        reserves = self._interval_us and self._left < PRESENCE_BLOCK // 4
        return bool(reserves) or (self._write_at_us is not None and now.monotonic_us >= self._write_at_us)

    def write(self, now: Now) -> None:
        """Write what is to be durable (rules 2 and 5), inside a transaction."""
        if self._interval_us and self._left < PRESENCE_BLOCK // 4:
            first = max(self._next, self._records.floor(), now.wall_us // 1_000_000)
            self._records.set_floor(first + PRESENCE_BLOCK)
            self._after_commit(lambda: self._reserved(first))
        written = {device: self._presence.peers[device] for device in self._presence.unwritten}
        for device, presence in written.items():
            self._records.note(device, presence)
        self._after_commit(lambda: self._written(written))

    def _reserved(self, first: int) -> None:
        self._next, self._floor = first, first + PRESENCE_BLOCK

    def _written(self, written: dict[DeviceKey, PeerPresence]) -> None:
        self._presence.unwritten -= {device for device, each in written.items() if self._presence.peers[device] == each}
        self._write_at_us = 0 if self._presence.unwritten else None
