"""What the link to the relays costs: bytes by kind, of today and of this month.

1. Envelopes are counted by the kind of their message, both ways; a resend counts as such. What carries them is counted
   by the adapter: `mqtt` (topics, connecting, pings, relay acknowledgements), `tls` and `tcp` (TCP and IP headers, lost
   segments).
2. Days and months are those of UTC. A clock that is set forward by more than time has passed takes what was counted
   with it, and one that is set back over midnight stays in the day that has begun, so that no correction brings a
   fresh day. Nor does a midnight within half a day of another one, if the clock was set in between. The ledger's note
   has all of that, so a restart forgets nothing; how long the device was off only the wall clock can say.
3. A count is durable only once it is noted. `CostLedger.granted` is the bound up to which the agent may count before it
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
    """Bytes by kind, of the day and the month that the ledger is in; `granted` is a bound on all of them (rule 3)."""

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

    def roll(self, now: Now) -> None:
        """Enter the day of a moment (rule 2)."""
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
            return
        is_other_month = month_of(day) != month_of(self.day)
        if step_us > _STEP_US or day < self.day or self._has_just_begun:  # set: today's count continues
            if is_other_month:
                self.began = day
            self.day = day
            return
        self.today.clear()
        if is_other_month:
            self.month.clear()
            self.granted, self.began = 0, day
        self.day = day
        self.lasted_us, self.was_set = 0, False

    @property
    def _has_just_begun(self) -> bool:
        """Whether the clock passes a second midnight so soon after one only because it was set in between."""
        return self.was_set and self.lasted_us is not None and self.lasted_us < _DAY_US // 2

    def add(self, counted: Mapping[str, int]) -> None:
        """Add bytes by kind."""
        for kind, amount in counted.items():
            if amount:
                self.today[kind] += amount
                self.month[kind] += amount

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
        return json.dumps([*counted, self.lasted_us, self.was_set, self.wall_us])

    @classmethod
    def of_text(cls, text: str, *, ended: bool = True) -> CostLedger:
        """Return the ledger that was noted, an empty one if damaged; not `ended`: what was granted counts as used."""
        try:
            day, today, month, granted, began, lasted, was_set, wall = json.loads(text)
            found = cls(int(day), _counter(today), _counter(month), int(granted), int(began))
            found.lasted_us, found.was_set, found.wall_us = (
                None if lasted is None else int(lasted),
                bool(was_set),
                int(wall),
            )
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
