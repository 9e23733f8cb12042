"""Parse and print sizes and times: `4MiB`, `90s`, `7d`, `4w`, dates."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from covey.errors import UsageError

_SIZES = {"": 1, "B": 1, "kB": 1_000, "MB": 1_000_000, "KiB": 1024, "MiB": 1024 * 1024}
_TIMES_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000, "w": 7 * 86_400_000_000}
_LONGEST_US = 366 * _TIMES_US["d"]
_read = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([A-Za-z]*)").fullmatch


def date_text(wall_us: int) -> str:
    """Return a time in microseconds since 1970 as a date in UTC, however absurd the clock that it came from."""
    try:
        return datetime.fromtimestamp(wall_us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "at no time"


def read_bytes(option: str, text: str, smallest: int, largest: int) -> int:
    """Return a size in bytes.

    Raises:
        UsageError: not a size, or out of bounds.
    """
    return _quantity(option, text, _SIZES, "4MiB", smallest, largest)


def read_us(option: str, text: str, longest_us: int, shortest_us: int = 0) -> int:
    """Return a time in microseconds; `0` needs no unit.

    Raises:
        UsageError: not a time, or out of bounds.
    """
    example = "7d, 12h or 30m" if shortest_us else "7d, 12h, 30m or 0"
    return _quantity(option, text if text != "0" else "0s", _TIMES_US, example, shortest_us, longest_us)


def read_seconds(option: str, text: str) -> float:
    """Return a time in seconds; a number without a unit means seconds.

    Raises:
        UsageError: not a time, or out of bounds.
    """
    units = {"": 1_000_000, **_TIMES_US}
    return _quantity(option, text, units, "90, 90s, 10m or 1h", 0, _LONGEST_US) / 1_000_000


def _quantity(option: str, text: str, units: dict[str, int], example: str, smallest: int, largest: int) -> int:
    found = _read(text)
    unit = units.get(found[2]) if found else None
    if found is None or unit is None:
        raise UsageError(f"{option}: {text[:32]!r} is not a quantity", hint=f"write it like {example}")
    value = int(float(found[1]) * unit)
    if not smallest <= value <= largest:
        limits = f"{_spelled(smallest, units)} to {_spelled(largest, units)}"
        raise UsageError(f"{option}: {text} is out of bounds", hint=f"from {limits}")
    return value


def _spelled(value: int, units: dict[str, int]) -> str:
    if not value:
        return "0"
    unit, size = max((pair for pair in units.items() if value % pair[1] == 0), key=lambda pair: pair[1])
    return f"{value // size}{unit}"
