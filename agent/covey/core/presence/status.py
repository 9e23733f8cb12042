"""A device's report of its connections, and how a receiver interprets it (docs/protocol/groups.md, "Presence"; ADR 21).

A beat names the open connections, each by the counter of the will that it has left at its relay. A will ends one
connection. It counts only against a beat that names its connection: a replayed or late one overrules nothing. A device
whose last connection has ended is gone.

A device that connects in windows leaves no will. Its beat says when the next window begins: until then it is asleep.

Now and then a beat tells what the device's link has cost (`link/reported_cost.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from covey.core.ids import DeviceKey
from covey.core.link.reported_cost import ReportedCost
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.relay import ASLEEP_GRACE_US, MAXIMUM_PRESENCE_S, MAXIMUM_RELAYS, PRESENCE_WRITE_US

_LATE_US = 60_000_000
"""What was under way when a device ended may come so much later: it does not bring the device back."""
_BODY_BYTES = 128
COST_KEY = 1
"""Of a beat's extension map: what the link of its author has cost."""


CONDITIONS = ("online", "asleep", "silent", "gone", "stopped", "unknown")
"""What `condition` says of a device."""


class State(IntEnum):
    """What a presence says of its author."""

    HERE = 0
    GOING = 1
    GONE = 2
    ASLEEP = 3


@dataclass(frozen=True, slots=True)
class Presence:
    """The body of a PRESENCE: a beat (HERE, GOING, ASLEEP), or a will (GONE), whose counter is its connection's.

    `interval_s` is the longest silence to expect, and with ASLEEP the time until the next window begins.
    """

    counter: int
    state: State
    interval_s: int
    connections: tuple[int, ...] = ()
    cost: ReportedCost | None = None
    """Of the device's link; None where this beat does not tell it."""

    def to_wire(self) -> bytes:
        """Return the body `[counter, state, interval, [connection, ...]]`, with the cost as an extension."""
        fields = [self.counter, int(self.state), self.interval_s, list(self.connections)]
        return cbor.encode_growing(fields, None if self.cost is None else {COST_KEY: self.cost.to_value()})

    @classmethod
    def from_wire(cls, body: bytes) -> Presence:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        fields, extensions = cbor.read_growing(body, _BODY_BYTES)
        counter, state, interval_s, connections = cbor.record(
            fields,
            "presence",
            cbor.uint(),
            cbor.uint(max(State)),
            cbor.uint(MAXIMUM_PRESENCE_S),
            cbor.many(cbor.uint(), MAXIMUM_RELAYS),
        )
        if list(connections) != sorted(set(connections)) or bool(connections) != (state == State.HERE):
            raise MalformedError("a presence must list exactly the connections that are up, in order")
        if interval_s == 0 or (connections and connections[-1] >= counter):
            raise MalformedError("the presence has no interval, or is older than its connections")
        reported = extensions.get(COST_KEY)
        cost = None if reported is None or state == State.GONE else ReportedCost.from_value(reported)
        return cls(counter, State(state), interval_s, connections, cost)


class PeerPresence(NamedTuple):
    """What a device has last reported of itself.

    `since_us` is when its state began, `seen_at_us` when its last beat came, `cost_us` when the last one that told a
    cost did, all by the receiver's wall clock.
    """

    counter: int
    state: State
    interval_s: int
    connections: tuple[int, ...]
    since_us: int
    seen_at_us: int
    cost: ReportedCost | None = None
    cost_us: int = 0

    def updated(self, presence: Presence, now_us: int) -> PeerPresence | None:
        """Return the peer's presence after another beat or will of it; None where that is an old one (rule 3)."""
        if presence.state is State.GONE:
            left = tuple(each for each in self.connections if each != presence.counter)
            if len(left) == len(self.connections):
                return None
            if left:
                return self._replace(connections=left)
            return self._replace(connections=(), state=State.GONE, since_us=now_us)
        if presence.counter <= self.counter:
            return None
        after = peer_presence(presence, self.since_us if presence.state is self.state else now_us, now_us)
        return after if after.cost is not None else after._replace(cost=self.cost, cost_us=self.cost_us)


def peer_presence(presence: Presence, since_us: int, now_us: int) -> PeerPresence:
    """Return a peer's presence as its beat reports it."""
    about = presence.counter, presence.state, presence.interval_s, presence.connections
    return PeerPresence(*about, since_us, now_us, presence.cost, 0 if presence.cost is None else now_us)


def condition(peer: PeerPresence | None, seen_at_us: int | None, now_us: int) -> tuple[str, int | None]:
    """Return how a device is, and since when: `online`, `silent`, `gone`, `stopped` (it said so), or `unknown`.

    A device that connects in windows is `asleep` until its next one, with some grace (`asleep_until`).

    `seen_at_us` is when any message of it came, which may be known to a minute.
    """
    if peer is None:
        return "unknown", None
    last_us = max(peer.seen_at_us, seen_at_us or 0)
    if peer.state in {State.GOING, State.GONE} and last_us <= peer.since_us + _LATE_US:
        return ("gone" if peer.state is State.GONE else "stopped"), peer.since_us
    if now_us > last_us + _patience_us(peer):
        return "silent", last_us
    return ("asleep" if peer.state is State.ASLEEP else "online"), peer.since_us


def silent_at(peer: PeerPresence | None, seen_at_us: int | None) -> int | None:
    """Return until when an online device counts as online without news; None for one that never was."""
    return None if peer is None else max(peer.seen_at_us, seen_at_us or 0) + _patience_us(peer)


def asleep_until(peer: PeerPresence | None) -> int | None:
    """Return when the next window of a device begins that connects in windows; None for any other."""
    return None if peer is None or peer.state is not State.ASLEEP else peer.seen_at_us + peer.interval_s * 1_000_000


def _patience_us(peer: PeerPresence) -> int:
    if peer.state is State.ASLEEP:
        return peer.interval_s * 1_250_000 + ASLEEP_GRACE_US
    return peer.interval_s * 2_500_000 + PRESENCE_WRITE_US


@dataclass(slots=True)
class PresenceState:
    """The relays that are reached and the peers that were seen: from the network, so that no transaction undoes it."""

    relays: dict[str, int] = field(default_factory=dict)
    """The connection that our will speaks of, for each relay that is reached."""
    going: bool = False
    """Whether this device is about to be off on purpose."""
    next_window_us: int | None = None
    """When this device connects again, in monotonic microseconds; None: it stays connected."""
    next_copy_us: int | None = None
    """When the next window begins that also pays for a message that is not urgent; None without windows."""
    cost: ReportedCost | None = None
    """What this device's link has cost; None: nobody counts."""
    peers: dict[DeviceKey, PeerPresence] = field(default_factory=dict)
    unwritten: set[DeviceKey] = field(default_factory=set)
    """The peers whose presence is newer here than in the store."""
