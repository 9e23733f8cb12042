"""What the link to the relays costs: bytes by kind, of today and of this month.

1. Envelopes are counted by the kind of their message, both ways; a resend counts as such. What carries them is counted
   by the adapter: `mqtt` (topics, connecting, pings, relay acknowledgements), `tls` and `tcp` (TCP and IP headers, lost
   segments).
2. Days and months are those of UTC. A clock that is set forward by more than time has passed takes what was counted
   with it, and one that is set back over midnight stays in the day that has begun, so that no correction brings a
   fresh day. Nor does a midnight within half a day of another one, if the clock was set in between. The ledger's note
   has all of that, so a restart forgets nothing; how long the device was off only the wall clock can say.
3. A *synchronised* clock (a time source disciplines it) is believed when a process sees it for the first time, and from
   then on until it jumps. Of two such looks on different days, midnight was in between: a day begins, also for a device
   that is without a clock at each start, and all that was counted between the two counts to the new one. Of two on one
   day, that day has cost what was counted since its first look, whatever midnights a wrong clock has passed meanwhile.
4. A count is durable only once it is noted. `CostLedger.granted` is the bound up to which the agent may count before it
   notes again: after a power cut counting continues there, so that nothing is ever missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from covey.core.now import Now
from covey.core.wire.message import MessageType

READINGS, ALARMS, ACKNOWLEDGEMENTS, BEATS, HEADS = "readings", "alarms", "acknowledgements", "beats", "heads"
CONTROL, MESSAGES, HISTORY, FILES, RESENDS = "control", "messages", "history", "files", "resends"
MQTT, TLS, TCP, UNKNOWN = "mqtt", "tls", "tcp", "unknown"
KINDS = (
    *(READINGS, ALARMS, ACKNOWLEDGEMENTS, BEATS, HEADS, CONTROL, MESSAGES, HISTORY, FILES, RESENDS),
    *(MQTT, TLS, TCP, UNKNOWN),
)
"""`control` is what groups, orders (`history/urgency.py`) and results need. `unknown` was granted before a power cut:
perhaps used."""

_KIND_OF = {
    MessageType.TELEMETRY: READINGS,
    MessageType.FORWARD: READINGS,
    MessageType.REDIRECTED: READINGS,
    MessageType.SUMMARY: READINGS,
    MessageType.ACK: ACKNOWLEDGEMENTS,
    MessageType.PRESENCE: BEATS,
    MessageType.HEADS: HEADS,
    MessageType.BLOB: MESSAGES,
    MessageType.EPHEMERAL: MESSAGES,
    MessageType.OPERATIONS: HISTORY,
    MessageType.HISTORY_GRAPH: HISTORY,
    MessageType.CONTENT_ACK: FILES,
    MessageType.CONTENT_PULL: FILES,
    MessageType.CONTENT_PART: FILES,
}
_STEP_US = 3_600_000_000
"""A wall clock that moves by so much more than the time that has passed was set."""
_DAY_US = 86_400_000_000


def kind_of(message_type: MessageType | None) -> str:
    """Return the kind of a message's bytes; what groups and orders need has no kind of its own."""
    return CONTROL if message_type is None else _KIND_OF.get(message_type, CONTROL)


@dataclass(slots=True)
class Traffic:
    """Bytes of envelopes by kind, since they were taken last, and how many were sent and received."""

    bytes: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    sent_bytes: int = 0
    received: int = 0

    def count_sent(self, kind: str, size: int) -> None:
        """Add the envelope of a message that was handed to a relay."""
        self.bytes[kind] += size
        self.sent += 1
        self.sent_bytes += size

    def count_received(self, kind: str, size: int) -> None:
        """Add the envelope of a message that a relay has delivered."""
        self.bytes[kind] += size
        self.received += 1

    def take(self) -> Counter[str]:
        """Return what was counted, and begin again."""
        taken, self.bytes = self.bytes, Counter()
        self.sent = self.sent_bytes = self.received = 0
        return taken


@dataclass(slots=True)
class CostLedger:
    """Bytes by kind, of the day and the month that the ledger is in; `granted` is a bound on all of them (rule 4)."""

    day: int = 0
    """In days since 1970."""
    today: Counter[str] = field(default_factory=Counter)
    month: Counter[str] = field(default_factory=Counter)
    granted: int = 0
    """Bytes of the month that may be counted before the ledger is noted again."""
    began: int = 0
    """The first day of this month that was counted."""
    lasted_us: int | None = None
    """How long ago midnight has begun this day; None where nothing says that midnight did."""
    was_set: bool = False
    """Whether the clock was set since."""
    wall_us: int = 0
    """What the wall clock said when it was looked at last."""
    monotonic_us: int | None = None
    """...and the monotonic one; not noted: another boot counts from another moment."""
    believed_us: int | None = None
    """What a synchronised clock has said last (rule 3)."""
    of_day: Counter[str] = field(default_factory=Counter)
    """All that was counted since the first such look on its day, and between that and the look before."""
    of_month: Counter[str] = field(default_factory=Counter)
    """...and of its month."""
    since: Counter[str] = field(default_factory=Counter)
    """What was counted since the last one."""
    _believes: bool | None = None
    """Whether this process believes a synchronised clock: not one that has jumped; None before the first look."""

    def roll(self, now: Now, *, synchronised: bool = False) -> bool:
        """Enter the day of a moment; return whether what today has cost is another count now (rules 2 and 3)."""
        day, cost = self.day, self.bytes_today
        step_us = self._enter(now)
        if synchronised and self._believes is not False:
            self._believes = self._believes is None or abs(step_us) <= _STEP_US
            if self._believes:
                self._believe(now.wall_us)
        return self.day != day or self.bytes_today != cost

    def _believe(self, wall_us: int) -> None:
        """Take what a synchronised clock says (rule 3)."""
        day = wall_us // _DAY_US
        if self.believed_us is None:
            self.of_day, self.of_month = Counter(self.today), Counter(self.month)
        else:
            last = self.believed_us // _DAY_US
            if last < day:
                self.of_day = Counter(self.since)
                self.lasted_us, self.was_set = wall_us % _DAY_US, False
            if month_of(last) < month_of(day):
                self.of_month, self.granted, self.began = Counter(self.since), 0, day
            elif month_of(self.began) != month_of(day):
                self.began = month_begins(day)
        if self.believed_us is None or wall_us >= self.believed_us:
            self.believed_us, self.day = wall_us, day
            self.since.clear()
        self.today, self.month = Counter(self.of_day), Counter(self.of_month)

    def _enter(self, now: Now) -> int:
        """Enter the day of a moment by rule 2; return by how much the clock was set."""
        day, passed_us = now.wall_us // _DAY_US, now.wall_us - self.wall_us
        step_us = 0
        if self.monotonic_us is not None:
            step_us = passed_us - (now.monotonic_us - self.monotonic_us)
            passed_us -= step_us
        self.wall_us, self.monotonic_us = now.wall_us, now.monotonic_us
        self.was_set = self.was_set or abs(step_us) > _STEP_US
        if self.lasted_us is not None:
            self.lasted_us += max(0, passed_us)
        if day in (self.day, self.day - 1):  # set back over midnight: the day that has begun goes on, or it would twice
            return step_us
        is_other_month = month_of(day) != month_of(self.day)
        if step_us > _STEP_US or day < self.day or self._has_just_begun:  # set: today's count continues
            if is_other_month:
                self.began = day
            self.day = day
            return step_us
        self.today.clear()
        if is_other_month:
            self.month.clear()
            self.granted, self.began = 0, day
        self.day = day
        self.lasted_us, self.was_set = 0, False
        return step_us

    @property
    def _has_just_begun(self) -> bool:
        """Whether the clock passes a second midnight so soon after one only because it was set in between."""
        return self.was_set and self.lasted_us is not None and self.lasted_us < _DAY_US // 2

    def add(self, counted: Mapping[str, int]) -> None:
        """Add bytes by kind."""
        for kind, amount in counted.items():
            if amount:
                for each in (self.today, self.month, self.of_day, self.of_month, self.since):
                    each[kind] += amount

    @property
    def bytes_today(self) -> int:
        """The cost of today."""
        return self.today.total()

    @property
    def bytes_this_month(self) -> int:
        """The cost of this month."""
        return self.month.total()

    def forecast(self, wall_us: int) -> int | None:
        """Return the month's cost if it continues as so far; None in the first hours of counting."""
        began_us, ends_us = self.began * _DAY_US, month_ends(self.day) * _DAY_US
        counted_us = wall_us - began_us
        if counted_us < 6 * _STEP_US:
            return None
        return round(self.bytes_this_month * max(1.0, (ends_us - began_us) / counted_us))

    def to_text(self) -> str:
        """Return the ledger as it is noted."""
        counted = self.day, dict(self.today), dict(self.month), self.granted, self.began
        believed = self.believed_us, dict(self.of_day), dict(self.of_month), dict(self.since)
        return json.dumps([*counted, self.lasted_us, self.was_set, self.wall_us, *believed])

    @classmethod
    def of_text(cls, text: str, *, ended: bool = True) -> CostLedger:
        """Return the ledger that was noted, an empty one if damaged; not `ended`: what was granted counts as used."""
        try:
            day, today, month, granted, began, lasted, was_set, wall, *believed = json.loads(text)
            believed_us, of_day, of_month, since = believed
            found = cls(int(day), _counter(today), _counter(month), int(granted), int(began))
            found.lasted_us, found.was_set, found.wall_us = (
                None if lasted is None else int(lasted),
                bool(was_set),
                int(wall),
            )
            found.believed_us = None if believed_us is None else int(believed_us)
            found.of_day, found.of_month, found.since = map(_counter, (of_day, of_month, since))
        except (ValueError, TypeError, AttributeError):
            return cls()
        if not ended:
            found.add({UNKNOWN: max(0, found.granted - found.bytes_this_month)})
        return found


def month_of(day: int) -> tuple[int, int]:
    """Return the year and the month of a day since 1970 ("chrono-Compatible Low-Level Date Algorithms", H. Hinnant)."""
    shifted = day + 719_468  # days since 1 March of the year 0
    cycle, of_cycle = divmod(shifted, 146_097)
    cycle_year = (of_cycle - of_cycle // 1_460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * cycle_year + cycle_year // 4 - cycle_year // 100)
    month = (5 * of_year + 2) // 153  # from March on
    return cycle * 400 + cycle_year + (month >= 10), month + 3 if month < 10 else month - 9


def month_begins(day: int) -> int:
    """Return the first day of a day's month."""
    month = month_of(day)
    return next(each for each in range(day, day - 31, -1) if month_of(each - 1) != month)


def month_ends(day: int) -> int:
    """Return the first day of the month after a day's."""
    month = month_of(day)
    return next(each for each in range(day + 1, day + 32) if month_of(each) != month)


def _counter(value: dict[str, Any]) -> Counter[str]:
    return Counter({str(kind): int(amount) for kind, amount in value.items() if kind in KINDS})
