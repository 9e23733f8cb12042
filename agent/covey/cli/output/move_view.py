"""Print moves of devices from one group to another."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.app.wording import count
from covey.cli.output.status_view import duration
from covey.cli.output.terminal import print_table
from covey.cli.quantities import date_text
from covey.core.ids import labelled_name, printable

if TYPE_CHECKING:
    from covey.app.orders.group_moves import KnownMove, MovingDevice, OrderedMove

_WAITS = {
    "waiting": "the device",
    "delivering": "the collector of the old group",
    "leaving": "an operator, who removes it from the old group",
}
_SHOWN = 10


def show_ordered_move(ordered: OrderedMove) -> None:
    """Print a move that was ordered: the devices that move, those that stay, and the settings."""
    names = [printable(each, 40) for each in ordered.devices]
    further = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    print(
        f"{count(len(names), 'device')} will move to group {ordered.target[:8]}: {', '.join(names[:_SHOWN])}{further}"
    )
    for each in ordered.staying:
        print(f"{labelled_name(each.device[:8], each.label)} stays: {each.why}")
    if ordered.settings:
        print(f"settings that hold there as well: {', '.join(ordered.settings)}")
    if ordered.lost_settings:
        print(f"settings to give again in group {ordered.target[:8]}: {', '.join(ordered.lost_settings)}")
    print(f"to see how far they are: covey group moves --group {ordered.source[:8]}", file=sys.stderr)


def show_moves(moves: Sequence[KnownMove], now_us: int) -> None:
    """Print moves with their devices, those that wait for something first."""
    if not moves:
        print("no move was ordered; to divide a group: covey group split --into GROUP --for SELECTOR")
    for move in moves:
        tally = Counter(each.state for each in move.devices)
        states = ", ".join(f"{number} {state}" for state, number in tally.items())
        print(
            f"{move.id[:8]} from group {move.source[:8]} to {move.target[:8]}, {date_text(move.made_at_us)}: {states}"
        )
        rows = [_row(each, now_us) for each in sorted(move.devices, key=lambda each: (not each.is_open, each.label))]
        print_table(["device", "state", "waits for", "last seen"], rows)
        if any(each.is_open for each in move.devices) and not move.finishes:
            print(f"if device {move.author}, which ordered this, is lost: covey group moves --continue {move.id[:8]}")


def _row(device: MovingDevice, now_us: int) -> tuple[str, ...]:
    seen = "" if device.seen_at_us is None else f"{duration(max(0, now_us - device.seen_at_us) // 1_000_000)} ago"
    waits = printable(device.why, 80) if device.why else _WAITS.get(device.state, "")
    return labelled_name(device.name, printable(device.label, 32)), device.state, waits, seen
