"""Say whether this is the moment to install: hours of the day, mains power, a program of the owner's.

Power is what the kernel shows in `/sys/class/power_supply` (kernel documentation, "Linux power supply class"): a
machine runs on mains unless a battery discharges, or it has mains supplies and none is connected. A machine without
such files, like most Raspberry Pis, runs on mains.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path

from covey.errors import UsageError

POWER_SUPPLIES = Path("/sys/class/power_supply")

_MAINS = frozenset({"Mains", "USB", "USB_C", "USB_PD", "Wireless"})


@dataclass(frozen=True, slots=True)
class DailyHours:
    """A part of each day, in local time; past midnight if `end` is the earlier one."""

    start: time
    end: time

    @classmethod
    def parse(cls, text: str) -> DailyHours:
        """Read `22:00-05:00`.

        Raises:
            UsageError: it is not that.
        """
        try:
            start, end = (datetime.strptime(each.strip(), "%H:%M").time() for each in text.split("-"))  # noqa: DTZ007 - of any day
        except ValueError as error:
            raise UsageError(f"'{text[:32]}' is not a part of the day", hint="for example 22:00-05:00") from error
        if start == end:
            raise UsageError(f"'{text}' is empty", hint="for example 22:00-05:00")
        return cls(start, end)

    def include(self, now: time) -> bool:
        """Say whether a time is in it; the end is not."""
        if self.start < self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    def __str__(self) -> str:
        """Return it as a person writes it."""
        return f"{self.start:%H:%M}-{self.end:%H:%M}"


def on_mains(supplies: Path = POWER_SUPPLIES) -> bool:
    """Say whether the machine runs on mains."""
    mains = []
    for each in sorted(supplies.glob("*")):
        kind = _line(each / "type")
        if kind == "Battery" and _line(each / "scope") != "Device" and _line(each / "status") == "Discharging":
            return False
        if kind in _MAINS:
            mains.append(_line(each / "online") not in {"", "0"})
    return any(mains) if mains else True


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
