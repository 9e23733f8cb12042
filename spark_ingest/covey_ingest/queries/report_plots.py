"""Plots of the report as inline SVG, in the colours of the fleet's page: no script, no font, no other file.

pygal fixes its colours and scales its text with the picture; uPlot draws by script, and the report runs none.

1. An axis spans what is drawn: time from the first interval with readings to the last. Counts and seconds begin at 0,
   values of sensors at a round number that is not above the lowest; both end at one that is not below the highest.
2. Numbers and names stand as text, so that a screen reader and a search find them; the picture itself is named once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import NamedTuple

_WIDTH, _HEIGHT = 360, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 6, 8, 22
_ROW, _NAMES = 22, 130
_DAY_US = 86_400_000_000
_CLASSES = ("first", "second")

STYLE = """
figure { margin: 0; } figcaption { font-weight: 600; margin: .5rem 0; }
.plots { display: grid; gap: 1rem 2rem; margin: 1rem 0; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--quiet); font: 11px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .bar { fill: var(--link); }
svg .first, svg .second { fill: none; stroke: var(--link); stroke-width: 1.5; } svg .second { stroke: var(--wait); }
svg .band { fill: var(--link); opacity: .2; }
svg circle.first { fill: var(--link); } svg circle.second { fill: var(--wait); }
.first-name { color: var(--link); } .second-name { color: var(--wait); }
"""


class TimeAxis(NamedTuple):
    """Equal intervals of time, one after the other: when the first one begins, and how long each is."""

    first_us: int
    interval_us: int
    intervals: int

    def middle(self, place: int) -> float:
        """Return where an interval is drawn."""
        return _LEFT + (place + 0.5) * (_WIDTH - _LEFT - _RIGHT) / self.intervals


class _Scale(NamedTuple):
    """The values that a plot spans, and where it draws them."""

    lowest: float
    highest: float
    ticks: list[float]

    def height(self, value: float) -> float:
        share = (value - self.lowest) / (self.highest - self.lowest)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)


def over_time(title: str, axis: TimeAxis, values: Sequence[float]) -> str:
    """Return a bar for each interval."""
    scale = _scale(0, max(values))
    width = max(1.0, 0.8 * (_WIDTH - _LEFT - _RIGHT) / axis.intervals)
    drawn = [
        f'<rect class="bar" x="{axis.middle(place) - width / 2:.1f}" y="{scale.height(value):.1f}" '
        f'width="{width:.1f}" height="{scale.height(0) - scale.height(value):.1f}"/>'
        for place, value in enumerate(values)
        if value
    ]
    said = f"{title}: at most {max(values):,.6g} in an interval, {_span(axis)}"
    return _figure(escape(title), said, _HEIGHT, [*_axes(axis, scale), *drawn])


def values_over_time(title: str, axis: TimeAxis, values: Sequence[tuple[float, float, float] | None]) -> str:
    """Return a line of the mean values, in a band from the lowest to the highest: (lowest, mean, highest)."""
    found = [each for each in values if each is not None]
    lowest, highest = min(each[0] for each in found), max(each[2] for each in found)
    scale, bands = _scale(lowest, highest), list[str]()
    for has_value, run in groupby(enumerate(values), lambda each: each[1] is not None):
        if has_value:
            places = [(axis.middle(place), each) for place, each in run if each is not None]
            upper = [f"{x:.1f},{scale.height(each[2]):.1f}" for x, each in places]
            lower = [f"{x:.1f},{scale.height(each[0]):.1f}" for x, each in reversed(places)]
            bands.append(f'<polygon class="band" points="{" ".join([*upper, *lower])}"/>')
    means = [None if each is None else each[1] for each in values]
    said = f"{title}: {lowest:,.6g} to {highest:,.6g}, {_span(axis)}"
    drawn = [*_axes(axis, scale), *bands, *_line(_CLASSES[0], axis, means, scale)]
    return _figure(escape(title), said, _HEIGHT, drawn)


def lines_over_time(title: str, axis: TimeAxis, named: Mapping[str, Sequence[float | None]]) -> str:
    """Return a line for each of two names, broken where there is no value."""
    highest = max(value for values in named.values() for value in values if value is not None)
    scale = _scale(0, highest)
    drawn, names = list[str](), list[str]()
    for kind, (name, values) in zip(_CLASSES, named.items(), strict=True):
        drawn += _line(kind, axis, values, scale)
        names.append(f'<span class="{kind}-name">{escape(name)}</span>')
    said = f"{title}: at most {highest:,.6g}, {_span(axis)}"
    return _figure(f"{escape(title)}, {' and '.join(names)}", said, _HEIGHT, [*_axes(axis, scale), *drawn])


def _line(kind: str, axis: TimeAxis, values: Sequence[float | None], scale: _Scale) -> Iterator[str]:
    for has_value, run in groupby(enumerate(values), lambda each: each[1] is not None):
        if has_value:
            points = [(axis.middle(place), scale.height(value or 0.0)) for place, value in run]
            if len(points) == 1:
                yield f'<circle class="{kind}" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="2"/>'
            else:
                yield f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def shares(title: str, named: Sequence[tuple[str, int]]) -> str:
    """Return a bar for each name, with its number."""
    longest, drawn = max(number for _, number in named), []
    for place, (name, number) in enumerate(named):
        y, width = place * _ROW, (_WIDTH - _NAMES - 70) * number / max(longest, 1)
        drawn.append(f'<text x="0" y="{y + 15}">{escape(name[:24])}</text>')
        drawn.append(f'<rect class="bar" x="{_NAMES}" y="{y + 4}" width="{max(width, 1):.1f}" height="{_ROW - 8}"/>')
        drawn.append(f'<text x="{_NAMES + max(width, 1) + 6:.1f}" y="{y + 15}">{number:,}</text>')
    said = f"{title}: {', '.join(f'{name} {number:,}' for name, number in named)}"
    return _figure(escape(title), said, _ROW * len(named), drawn)


def _scale(lowest: float, highest: float) -> _Scale:
    rough = (highest - lowest) / 4
    if rough < sys.float_info.min:
        return _Scale(lowest, lowest + 1, [lowest])
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(each * magnitude for each in (1, 2, 2.5, 5, 10) if each * magnitude >= rough)
    first, last = math.floor(lowest / step + 1e-9), math.ceil(highest / step - 1e-9)
    return _Scale(first * step, last * step, [step * place for place in range(first, last + 1)])


def _axes(axis: TimeAxis, scale: _Scale) -> Iterator[str]:
    for value in scale.ticks:
        y = scale.height(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>'
    last_us = axis.first_us + axis.intervals * axis.interval_us
    places = [(_LEFT, "start", axis.first_us), (_WIDTH - _RIGHT, "end", last_us)]
    for x, anchor, at_us in places:
        yield f'<text x="{x}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{_moment(at_us, last_us - axis.first_us)}</text>'


def _span(axis: TimeAxis) -> str:
    last_us = axis.first_us + axis.intervals * axis.interval_us
    return f"{_moment(axis.first_us, _DAY_US)} to {_moment(last_us, _DAY_US)} UTC"


def _moment(at_us: int, span_us: int) -> str:
    """Return a UTC time as precisely as its axis needs; one beyond the calendar unchanged."""
    shown = "%H:%M:%S" if span_us < _DAY_US // 96 else "%H:%M" if span_us < _DAY_US else "%m-%d %H:%M"
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).strftime(shown)
    except (ValueError, OverflowError, OSError):
        return str(at_us)


def _figure(caption: str, said: str, height: int, drawn: Sequence[str]) -> str:
    return (
        f'<figure><figcaption>{caption}</figcaption><svg viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(said)}">{"".join(drawn)}</svg></figure>'
    )
