"""What boards say that went wrong before they could say who they are, kept for people as long as it holds.

`store.boards` has a row for each board that has introduced itself on a port. One whose flash is full at its first start
never does: its line alone is known, and what it says is a condition of that line (`LINE_CONDITION`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.core.now import Now
from covey.ports import LINE_CONDITION
from covey_boards.line import Line

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


class UnnamedBoards:
    """The lines on which something speaks that has not said who it is. What strangers say is not kept."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._noted: dict[str, str] = {}

    def start(self, lines: Sequence[Line]) -> None:
        """Take what an earlier life has noted: it holds until its line says otherwise."""
        for name, (value, _) in self._store.conditions.values().items():
            if name.startswith(LINE_CONDITION) and value:
                self._noted[name.removeprefix(LINE_CONDITION)] = value
        for line in lines:
            if line.board is None:
                line.trouble = self._noted.get(line.link.port, "")

    def look(self, line: Line, now: Now) -> None:
        """Note what is news of a line."""
        said = line.trouble if line.board is None and not line.is_strange else ""
        is_due = line.board is not None or now.monotonic_us >= line.note_at_us
        if is_due and said != self._noted.get(line.link.port, ""):
            self._note(line.link.port, said, now)

    def _note(self, port: str, said: str, now: Now) -> None:
        with self._store.transaction():
            self._store.conditions.set(LINE_CONDITION + port, said, now.wall_us)
        self._noted[port] = said
