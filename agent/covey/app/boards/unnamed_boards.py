"""Boards on this machine's ports that cannot say who they are, and what went wrong on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from covey.core.ids import printable
from covey.ports import LINE_CONDITION

if TYPE_CHECKING:
    from covey.adapters.sqlite.counters import Conditions


CANNOT_START_HINT = (
    "it restarts every half minute: free space on its flash, or flash its firmware again (covey mcu flash)"
)


def unnamed_boards(conditions: Conditions, ports: Collection[str], now_us: int) -> Iterator[tuple[str, str, int]]:
    """Yield (port, what it says went wrong, for how many seconds) of boards on some ports that cannot say who they are.

    Notes about ports that are no longer watched are ignored.
    """
    for name, (trouble, since_us) in sorted(conditions.values().items()):
        port = name.removeprefix(LINE_CONDITION)
        if name.startswith(LINE_CONDITION) and trouble and port in ports:
            yield port, printable(trouble), max(0, (now_us - since_us) // 1_000_000)
