"""Back off: repeat the same message to a peer less and less often while it has no effect.

All of it is in memory, bounded, and survives a node, so a failing disk never causes repetitions.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from covey.core.ids import DeviceKey, GroupId
from covey.core.link.named_keys import NamedKeys
from covey.core.link.rates import TokenBucket
from covey.core.link.send_window import Jitter
from covey.core.wire.heads import GroupHead
from covey.limits.heads import (
    FORMER_LOOK_SECONDS,
    FORMER_LOOKS_SAVED,
    HEADS_DELAY_US,
    HEADS_PER_SECOND,
    HEADS_SAVED,
    HEADS_US,
    HEADS_US_MAX,
    PACED,
    PULLS_PER_SECOND,
    PULLS_SAVED,
)


class _Pause(NamedTuple):
    since_us: int
    times: int
    about: bytes


class Pauses:
    """Pauses that double, by kind and device; they begin again when the subject changes."""

    def __init__(self) -> None:
        self._pauses: dict[Hashable, _Pause] = {}

    def times(self, key: Hashable, about: bytes) -> int:
        """Return how often this was done about the same."""
        pause = self._pauses.get(key)
        return pause.times if pause is not None and pause.about == about else 0

    def ready(self, key: Hashable, about: bytes, now_us: int) -> bool:
        """Say whether it may be done again."""
        pause = self._pauses.get(key)
        if pause is None:
            return True
        doubled = HEADS_US << min(self.times(key, about), 16) >> 1
        return now_us >= pause.since_us + max(HEADS_US, min(HEADS_US_MAX, doubled))

    def done(self, key: Hashable, about: bytes, now_us: int) -> None:
        """Note that it is being done."""
        times = self.times(key, about) + 1
        self._pauses.pop(key, None)
        if len(self._pauses) >= PACED:
            del self._pauses[next(iter(self._pauses))]
        self._pauses[key] = _Pause(now_us, times, about)


@dataclass(slots=True)
class HeadsPacing:
    """When which peer is told how this device's groups stand, and who was asked (docs/protocol/groups.md, "Heads")."""

    pauses: Pauses = field(default_factory=Pauses)
    due_us: dict[DeviceKey, int] = field(default_factory=dict)
    """When each of them is to be told."""
    said: dict[DeviceKey, GroupId] = field(default_factory=dict)
    """What those of them said last who are told for what they say; no reason is left where that is what we say."""
    asking: set[DeviceKey] = field(default_factory=set)
    """Those of them that are asked to answer."""
    round_at_us: int | None = None
    """When the next one is told that nothing is known of."""
    asked_at_us: dict[DeviceKey, int] = field(default_factory=dict)
    """When each of them was told last, by the wall clock."""
    quick_rounds: int = 0
    """How many more of these follow quickly, as a group was in conflict."""
    rounds: int = 0
    """How many have gone since a start or a change."""
    rounds_of: frozenset[GroupHead] = frozenset()
    """How the groups and histories stood at that time."""
    seen: set[DeviceKey] = field(default_factory=set)
    """Those that have said anything of their groups since the start."""
    named: NamedKeys = field(default_factory=NamedKeys)
    reports: TokenBucket = field(default_factory=lambda: TokenBucket(HEADS_PER_SECOND, HEADS_SAVED))
    former_looks: TokenBucket = field(default_factory=lambda: TokenBucket(1, FORMER_LOOKS_SAVED * FORMER_LOOK_SECONDS))
    """For reports by devices that share no group with this one: each costs the reading of manifests."""
    _rests_until_us: int = 0
    _pulls: dict[GroupId, TokenBucket] = field(default_factory=dict)

    def plan(self, device: DeviceKey, said: GroupId | None, jitter: Jitter, now_us: int, *, asks: bool = False) -> None:
        """Have a device told soon; for what it `said`, or in any case."""
        if asks:
            self.asking.add(device)
        if said is None:
            self.said.pop(device, None)
        elif device in self.said or device not in self.due_us:
            self.said[device] = said
        if device not in self.due_us:
            self.due_us[device] = now_us + jitter(*HEADS_DELAY_US)

    def drop(self, device: DeviceKey) -> None:
        """Have a device not told after all."""
        self.due_us.pop(device, None)
        self.said.pop(device, None)
        self.asking.discard(device)

    def rests(self, now_us: int) -> bool:
        """Say whether so many reports have gone that the others have to wait."""
        self._rests_until_us = now_us + self.reports.wait_us(now_us)
        return self._rests_until_us > now_us

    def next_deadline(self) -> int | None:
        """Return when a report is due next, in monotonic microseconds."""
        soonest = min(self.due_us.values(), default=None)
        if soonest is not None:
            soonest = max(soonest, self._rests_until_us)
        return min((each for each in (soonest, self.round_at_us) if each is not None), default=None)

    def pulls(self, group_id: GroupId) -> TokenBucket:
        """Return the tokens for requests in a group, to all members together."""
        return self._pulls.setdefault(group_id, TokenBucket(PULLS_PER_SECOND, PULLS_SAVED))
