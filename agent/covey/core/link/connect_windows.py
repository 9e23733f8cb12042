"""When a device on a metered link connects to its relays: always, or in windows (`link.connect`).

1. `every 1h` opens a window an interval after the last one began. `at 02:00` opens one a day, at that time in UTC.
2. Devices of a fleet start together after a power cut and are told the same time. Each shifts its windows by a share of
   its own, drawn from its key, so that they do not all connect in the same second.
3. `every` counts the monotonic clock. `at` asks the wall clock again at each look, so a corrected clock counts at once.
   It looks for the first such time an hour or more after the last window began: a clock that is set back repeats no
   window, and whatever a clock says, the next window opens within 25 hours and 15 minutes of the last one.
4. A start opens a window, and so does anything that cannot wait (`open`): a person, a pairing, an alarm.
5. A window closes once nothing has moved for `WINDOW_QUIET_US`, or for `WINDOW_ANSWER_US` while a recipient still owes
   an answer: that answer waits at the relay. It never lasts longer than half of the interval, or an hour.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from covey.core.ids import DeviceKey
from covey.core.now import Now
from covey.errors import ConfigurationError
from covey.limits.link import (
    AT_SPREAD_US,
    CONNECT_EVERY_US_MAX,
    CONNECT_EVERY_US_MIN,
    WINDOW_ANSWER_US,
    WINDOW_QUIET_US,
    WINDOW_US_MAX,
)

_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
_UNITS_US = {"m": 60_000_000, "h": _HOUR_US, "d": _DAY_US}
_EVERY = re.compile(r"every ([1-9][0-9]{0,4})([mhd])").fullmatch
_AT = re.compile(r"at ([01][0-9]|2[0-3]):([0-5][0-9])").fullmatch


@dataclass(frozen=True, slots=True)
class ConnectSchedule:
    """A window `every_us`, or, with `at_us`, one each day at that time after midnight UTC."""

    every_us: int
    at_us: int | None = None

    @property
    def longest_us(self) -> int:
        """The longest time between the beginnings of two windows."""
        return self.every_us if self.at_us is None else _DAY_US + _HOUR_US + AT_SPREAD_US


def connect_schedule(text: str) -> ConnectSchedule | None:
    """Return the schedule that `link.connect` names; None for `always`.

    Raises:
        ConfigurationError: it names none.
    """
    if text == "always":
        return None
    if (found := _EVERY(text)) is not None:
        every_us = int(found[1]) * _UNITS_US[found[2]]
        if CONNECT_EVERY_US_MIN <= every_us <= CONNECT_EVERY_US_MAX:
            return ConnectSchedule(every_us)
        raise ConfigurationError(
            f"link.connect: '{text}' is out of bounds", hint="from 'every 10m' to 'every 7d'; or 'always'"
        )
    if (found := _AT(text)) is not None:
        return ConnectSchedule(_DAY_US, int(found[1]) * _HOUR_US + int(found[2]) * 60_000_000)
    raise ConfigurationError(
        f"link.connect: '{text[:32]}' is no schedule", hint="write always, every 1h, or at 02:00 (UTC)"
    )


class ConnectWindows:
    """Whether a device should be connected now, by its schedule."""

    def __init__(self, schedule: ConnectSchedule, device: DeviceKey, now: Now) -> None:
        """Open the first window (rule 4)."""
        self._schedule = schedule
        self._share = int.from_bytes(device[:4]) / 2**32
        self._opened_us = self._moved_us = now.monotonic_us
        self._gap_us = int(schedule.every_us * (1 + self._share) / 2)  # rule 2: the first interval is the shorter one
        self.is_open = True

    @property
    def every_us(self) -> int:
        """The time from one regular window to the next."""
        return self._schedule.every_us

    def open(self, now: Now) -> None:
        """Open a window out of turn; the next regular one opens when it would have."""
        if not self.is_open:
            self._gap_us = self.next_us(now) - now.monotonic_us
            self._opened_us = self._moved_us = now.monotonic_us
            self.is_open = True

    def close(self) -> None:
        """Close the window now; the next regular one opens when it would have."""
        self.is_open = False

    def skip(self, now: Now) -> None:
        """Pass over a regular window that is due: the next one opens an interval later, at this device's own time."""
        self._opened_us, self._gap_us = now.monotonic_us, self._schedule.every_us

    def moved(self, now: Now) -> None:
        """Note that something was sent or received."""
        self._moved_us = now.monotonic_us

    def next_us(self, now: Now) -> int:
        """Return when the next window after the last one begins, in monotonic microseconds."""
        at_us = self._schedule.at_us
        if at_us is None:
            return self._opened_us + self._gap_us
        opened_wall_us = now.wall_us - (now.monotonic_us - self._opened_us)
        earliest_us = opened_wall_us + _HOUR_US
        wait_us = (at_us + int(self._share * AT_SPREAD_US) - earliest_us) % _DAY_US
        return self._opened_us + _HOUR_US + wait_us

    def turn(self, now: Now, *, awaits_answer: bool, busy: bool = False) -> bool:
        """Open or close the window where that is due; return whether it is open.

        `awaits_answer`: a recipient owes one. `busy`: something needs the connection for as long as it lasts.
        """
        if not self.is_open:
            if busy:
                self.open(now)
            elif now.monotonic_us >= self.next_us(now):
                self._opened_us = self._moved_us = now.monotonic_us
                self._gap_us = self._schedule.every_us
                self.is_open = True
        elif not busy and now.monotonic_us >= self._closes_us(awaits_answer=awaits_answer):
            self.is_open = False
        return self.is_open

    def next_deadline(self, now: Now, *, awaits_answer: bool) -> int:
        """Return when `turn` should be called next, in monotonic microseconds."""
        return self._closes_us(awaits_answer=awaits_answer) if self.is_open else self.next_us(now)

    def _closes_us(self, *, awaits_answer: bool) -> int:
        quiet_us = self._moved_us + (WINDOW_ANSWER_US if awaits_answer else WINDOW_QUIET_US)
        return min(quiet_us, self._opened_us + min(WINDOW_US_MAX, self._schedule.every_us // 2))
