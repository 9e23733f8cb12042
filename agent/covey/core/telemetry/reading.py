"""A reading: the common result of all sources, whatever their format (`senml.py`, `line_protocol.py`, sensors)."""

from __future__ import annotations

from dataclasses import dataclass

Value = float | bool | str | bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one sensor; `unit` is "" where there is none, `time_us` None where nobody knew the time."""

    name: str
    unit: str
    time_us: int | None
    """Unix microseconds; below `now.ABSOLUTE_US` this device's monotonic clock; `times.UNUSABLE_US`."""
    value: Value
