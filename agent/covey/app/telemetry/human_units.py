"""Readings as people read them: `72.5 GB` instead of `72531791900 B`, `21.4 °C` instead of `21.4 Cel`."""

from __future__ import annotations

from typing import NamedTuple

from covey.core.ids import printable


class Scale(NamedTuple):
    """How numbers of one series are shown: multiplied by `factor`, in `unit`."""

    factor: float
    unit: str


_PREFIXED = frozenset({"B", "B/s", "bit/s", "bit", "W", "Wh", "VA", "VAs", "J", "Hz", "g", "m", "N", "Ohm", "S"})
"""Units that take a decimal prefix. SenML has no prefixes (RFC 8428, section 12.1)."""

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"))
_WORDS = {
    "Cel": Scale(1, "°C"),
    "/": Scale(100, "%"),
    "%RH": Scale(1, "% RH"),
    "%EL": Scale(1, "%"),
    "count": Scale(1, ""),
    "Ohm": Scale(1, "Ω"),
    "Pa": Scale(1, "Pa"),
}
_PRESSURE = Scale(0.01, "hPa")
_LEAST_PRESSURE = 1_000
_GROUPED = 10_000
_TEXT = 200


def scale_of(unit: str, largest: float) -> Scale:
    """Return the scale for numbers of a unit, the largest of which is `largest`."""
    size = abs(largest)
    if unit == "Pa" and size >= _LEAST_PRESSURE:
        return _PRESSURE
    if unit == "s":
        return next((Scale(1 / length, word) for length, word in _TIMES if size >= 2 * length), Scale(1, "s"))
    if unit in _PREFIXED:
        word = _WORDS.get(unit, Scale(1, unit)).unit
        return next((Scale(1 / power, prefix + word) for power, prefix in _PREFIXES if size >= power), Scale(1, word))
    return _WORDS.get(unit, Scale(1, printable(unit, 32)))


def reading_text(value: float | bool | str, unit: str) -> str:
    """Return a reading in at most four significant digits, with a unit that suits its size."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return printable(value, _TEXT)
    scale = scale_of(unit, value)
    return f"{number_text(value * scale.factor)} {scale.unit}".rstrip()


def number_text(number: float) -> str:
    """Return a number in at most four significant digits; a larger one whole, its thousands separated."""
    if abs(number) >= _GROUPED:
        return f"{number:,.0f}" if abs(number) < 1e15 else f"{number:.4g}"
    return f"{number:.4g}"
