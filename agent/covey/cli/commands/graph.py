"""`covey graph`: draw what a device measured in the terminal, from the vault alone."""

from __future__ import annotations

import argparse
import shutil
import sys
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from covey.app.fleet.fleet import vault_of
from covey.app.groups.groups import pick_device
from covey.app.telemetry.curves import Window, curves
from covey.app.wording import reading_name, size_text
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.terminal import print_json
from covey.cli.quantities import read_us
from covey.core.ids import labelled_name, printable
from covey.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covey.app.telemetry.curves import Curve

_NAMED = 12
"""Series that a hint names."""
_LONGEST_US = 3_650 * 86_400_000_000
_ROWS, _SCALE, _LEAST_COLUMNS, _MOST_COLUMNS = 10, 11, 20, 200
_DOTS_WIDE, _DOTS_HIGH = 2, 4
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of the dots of a braille character (Unicode U+2800), by row and column."""
_BRAILLE = 0x2800


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("device", metavar="DEVICE", help="device: label, or start of key")
    parser.add_argument("series", nargs="?", metavar="SERIES", help="series, e.g. air:temperature (default: name them)")
    parser.add_argument(
        "--since", metavar="TIME", default="1d", help="how far to look back: 7d, 12h, 30m (default: 1d)"
    )
    parser.add_argument("--vault", metavar="WHERE", help="folder or s3://BUCKET/PREFIX (default: vault.location)")
    json_option(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the series.

    Raises:
        LocalError: the device does not exist, has no such readings in that time, or no series is given.
    """
    since_us = read_us("--since", options.since, _LONGEST_US, 60_000_000)
    columns = min(max(shutil.get_terminal_size().columns - _SCALE - 2, _LEAST_COLUMNS), _MOST_COLUMNS)
    with open_device(options) as device, ProgressLine() as line:
        member = pick_device(device.node.groups.joined(), options.device)
        now_us, key = device.clock.wall_us(), member.keys.signing_public
        window = Window(now_us - since_us, now_us, _DOTS_WIDE * columns)
        reader, nodes = vault_of(device, options.vault)
        replaced = device.store.replacements.replaced_by(key)

        def read(series: str | None) -> dict[tuple[str, str], Curve]:
            return curves(
                *(reader, nodes, key, window),
                replaced=replaced,
                series=series,
                progress=lambda size: line.show(f"read {size_text(size)}"),
            )

        found = read(options.series) if options.series is not None else {}
        others = [] if found else sorted({reading_name(series) for series, _ in read(None)})
    name = labelled_name(key.hex()[:8], member.label)
    if not found:
        hint = _other_series(others) if others else "look back further with --since"
        if options.series is None and others:
            raise LocalError(f"which series of {name}?", hint=hint)
        what = f"of {printable(options.series)!r} " if options.series is not None else ""
        raise LocalError(f"{name} has no readings {what}in the last {options.since}", hint=hint)
    if options.json:
        print_json({"device": key.hex(), "label": member.label, **_document(window, found)})
        return
    for (series, unit), curve in found.items():
        print("\n".join(_drawn(f"{name}: {reading_name(series)} {printable(unit)}".rstrip(), window, curve)))


def _other_series(names: list[str]) -> str:
    more = len(names) - _NAMED
    listed = f"in that time it has: {', '.join(names[:_NAMED])}"
    return f"{listed}, and {more} more: 'covey fleet DEVICE' shows them" if more > 0 else listed


def _document(window: Window, found: dict[tuple[str, str], Curve]) -> dict[str, object]:
    return {
        "since_us": window.since_us,
        "until_us": window.until_us,
        "intervals": window.intervals,
        "series": [
            {"name": name, "unit": unit, "points": [{"interval": at, **curve[at]._asdict()} for at in sorted(curve)]}
            for (name, unit), curve in found.items()
        ],
    }


def _drawn(title: str, window: Window, curve: Curve) -> Iterator[str]:
    lowest, highest = min(each.lowest for each in curve.values()), max(each.highest for each in curve.values())
    newest = curve[max(curve)]
    yield title
    for place, row in enumerate(_rows(window, curve, lowest, highest)):
        scale = _scale(place, lowest, highest)
        yield f"{scale:>{_SCALE}} |{row}".rstrip()
    first, last = _moment(window.since_us), _moment(window.until_us)
    yield f"{'':>{_SCALE}} +{first}{last:>{max(window.intervals // _DOTS_WIDE - len(first), len(last) + 1)}}"
    yield f"lowest {lowest:.6g}, highest {highest:.6g}, last {newest.last:.6g} at {_moment(newest.at_us)}"


def _scale(line: int, lowest: float, highest: float) -> str:
    """Return the label of a row: the highest value at the top, the lowest at the bottom, where its curve runs."""
    if line == _ROWS - 1:
        return f"{lowest:.6g}"
    return f"{highest:.6g}" if line == 0 and highest > lowest else ""


def _rows(window: Window, curve: Curve, lowest: float, highest: float) -> Iterator[str]:
    """Yield lines of braille characters: a bar from the lowest to the highest value of each interval, and a line
    between neighbours unless the device was silent for more than three times as long as usual."""
    most = _ROWS * _DOTS_HIGH - 1
    dots = [[0] * (window.intervals // _DOTS_WIDE) for _ in range(_ROWS)]

    def height(value: float) -> float:
        return (value - lowest) / (highest - lowest) * most if highest > lowest else 0.0

    def bar(column: int, *ends: float) -> None:
        for dot in range(round(min(ends)), round(max(ends)) + 1):
            row, within = divmod(most - dot, _DOTS_HIGH)
            dots[row][column // _DOTS_WIDE] |= _DOTS[within][column % _DOTS_WIDE]

    for place, interval in curve.items():
        bar(place, height(interval.lowest), height(interval.highest))
    neighbours = [*pairwise(sorted(curve))]
    joined = 3 * median([after - before for before, after in neighbours] or [0])
    for before, after in neighbours:
        if after - before <= joined:
            begin, step = height(curve[before].last), height(curve[after].last) - height(curve[before].last)
            for place in range(before, after):
                share, next_share = (place - before) / (after - before), (place + 1 - before) / (after - before)
                bar(place, begin + step * share, begin + step * next_share)
    draws = _can_print(chr(_BRAILLE))
    for cells in dots:
        yield "".join((chr(_BRAILLE + cell) if draws else "*") if cell else " " for cell in cells)


def _can_print(character: str) -> bool:
    try:
        character.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6).astimezone().strftime("%b %d %H:%M")
