"""What happens on which day of the year. Pure: the same days give the same plan.

1. Everything scales with the number of days, so that a test of some days meets all of it.
2. 29 February is in the middle.
3. What begins ends in time for the last days to be quiet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

LEAP_DAY = datetime(2028, 2, 29, tzinfo=UTC)
DAYS = 365
DAY_S, HOUR_S = 86_400, 3_600
_CERTIFICATE_DAYS, _RENEWED_DAYS_BEFORE = 397, 30
_RENEWAL = 0.88
"""The part of the year after which the relay's certificate is due."""

BARN, MEADOW, SHED, BUOY, HUB = "barn", "meadow", "shed", "buoy", "hub"
EDGES = (BARN, MEADOW, SHED, BUOY)


class What(Enum):
    """Kinds of events; the value says it in the output."""

    SILENCE = "loses its network"
    NETWORK = "has its network again"
    OFF = "loses its power"
    ON = "is switched on again"
    RELAY_DOWN = "the relay's power is cut"
    RELAY_UP = "the relay is back"
    DISK_FULL = "has a full disk"
    DISK_FREE = "has room on its disk again"
    CLOCK_WRONG = "has its clock set wrong"
    CLOCK_RIGHT = "has its clock set right"
    KILL = "its agent is killed, and starts again"
    ORDER = "orders"
    ROTATE = "logs are rotated"
    TABLES = "readings are taken into tables"


@dataclass(frozen=True, slots=True)
class Event:
    """One event, so many hours after the beginning."""

    hour: int
    what: What
    machine: str = HUB
    seconds: int | None = None
    """What a clock is wrong by; None: it says 1970."""

    @property
    def said(self) -> str:
        """What a reader is told."""
        who = "" if self.what in {What.RELAY_DOWN, What.RELAY_UP} else f"{self.machine} "
        if self.what is not What.CLOCK_WRONG:
            return f"{who}{self.what.value}"
        return f"{who}{self.what.value}" + (": 1970" if self.seconds is None else f" by {self.seconds // DAY_S:+} days")

    @property
    def is_news(self) -> bool:
        """Whether a reader wants to know the day."""
        return self.what not in {What.KILL, What.ORDER, What.ROTATE, What.TABLES}


@dataclass(frozen=True, slots=True)
class Plan:
    """A year of so many days."""

    days: int
    events: tuple[Event, ...]

    @property
    def begins(self) -> datetime:
        """The first midnight."""
        return LEAP_DAY - timedelta(days=self.days // 2)

    @property
    def relay_begins(self) -> datetime:
        """When the relay is set up: so early that its certificate is due within the year."""
        return self.begins - timedelta(
            days=_CERTIFICATE_DAYS - _RENEWED_DAYS_BEFORE - max(1, int(_RENEWAL * self.days))
        )

    @property
    def hours(self) -> int:
        """How long it is."""
        return self.days * 24

    def at(self, hour: int) -> list[Event]:
        """Return what happens in an hour, in order."""
        return [each for each in self.events if each.hour == hour]


_SPANS = (
    (0.08, 0.14, MEADOW, What.SILENCE, What.NETWORK, None),
    (0.11, 0.16, BARN, What.CLOCK_WRONG, What.CLOCK_RIGHT, -40 * DAY_S),
    (0.20, 0.28, SHED, What.OFF, What.ON, None),
    (0.28, 0.30, SHED, What.CLOCK_WRONG, What.CLOCK_RIGHT, None),
    (0.33, 0.40, HUB, What.RELAY_DOWN, What.RELAY_UP, None),
    (0.44, 0.48, BUOY, What.SILENCE, What.NETWORK, None),
    (0.52, 0.60, MEADOW, What.SILENCE, What.NETWORK, None),
    (0.62, 0.64, HUB, What.DISK_FULL, What.DISK_FREE, None),
    (0.66, 0.69, BARN, What.DISK_FULL, What.DISK_FREE, None),
    (0.72, 0.75, HUB, What.CLOCK_WRONG, What.CLOCK_RIGHT, -10 * DAY_S),
    (0.78, 0.81, MEADOW, What.CLOCK_WRONG, What.CLOCK_RIGHT, 400 * DAY_S),
    (0.84, 0.90, BUOY, What.CLOCK_WRONG, What.CLOCK_RIGHT, -365 * DAY_S),
)
"""From one part of the year to another: who, what begins it, what ends it, and what a clock is wrong by."""

_LAST = 0.97
"""The part of the year after which nothing more happens."""


def make_plan(days: int) -> Plan:
    """Return the plan of a year of so many days."""
    hours = days * 24
    events: list[Event] = []
    for begins, ends, machine, what, back, seconds in _SPANS:
        events += [
            Event(round(begins * hours), what, machine, seconds),
            Event(max(round(ends * hours), round(begins * hours) + 1), back, machine),
        ]
    last = round(_LAST * hours)
    events += [Event(hour, What.ORDER) for hour in _every(max(24, hours // 52), last)]
    events += [Event(hour, What.ROTATE) for hour in _every(max(24, 7 * 24 * days // 365), last)]
    events += [Event(hour, What.TABLES) for hour in _every(max(48, hours // 6), last)]
    killed = (*EDGES, HUB)
    events += [
        Event(hour, What.KILL, killed[place % len(killed)])
        for place, hour in enumerate(_every(max(17, hours // 20), last))
    ]
    # Two orders right after each other by an operator whose clock was set back meanwhile: the newest is the last.
    set_back = next(each.hour for each in events if each.what is What.CLOCK_WRONG and each.machine == HUB)
    events += [Event(set_back - 1, What.ORDER), Event(set_back + 1, What.ORDER), Event(set_back + 1, What.ORDER)]
    return Plan(days, tuple(sorted(events, key=lambda each: each.hour)))


def _every(hours: int, last: int) -> range:
    return range(hours, last, hours)
