"""One line of a gateway: its board's state, and messages of boards that have not identified themselves.

`store.boards` has a row for each board that has introduced itself on a port. One whose flash is full at its first start
never does: its line alone is known, and what it says is a condition of that line (`LINE_CONDITION`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.core.ids import OperationId
from covey.core.now import Now
from covey.ports import LINE_CONDITION, AttachedBoard, SerialLink, SerialMessage

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


NO_COLLECTOR = bytes(32)


class Line:
    """One port, and what is known of the board behind it."""

    def __init__(self, link: SerialLink) -> None:
        self.link = link
        self.board: AttachedBoard | None = None
        self.collector = NO_COLLECTOR
        self.held: SerialMessage | None = None
        self.held_until_us = 0
        self.received_us = 0
        self.warned: set[str] = set()
        self.synchronised = False
        self.time_at_us = self.enrol_at_us = self.note_at_us = self.noted_us = 0
        self.numbers: dict[str, int] = {}
        self.noted: AttachedBoard | None = None
        self.trouble = self.copy = ""
        self.trouble_at_us = 0
        self.order_at_us = self.firmware_at_us = self.up_at_us = 0
        self.handed: OperationId | None = None
        self.handed_until_us = 0
        self.sleeps_until_us: int | None = None
        self.is_missed = False
        """Whether its board is gone because it did not wake in time."""
        self.is_strange = False

    @property
    def up(self) -> bool:
        """Whether the board has identified itself since the link came up."""
        return self.board is not None and self.board.up

    @property
    def wrong(self) -> str:
        """What a person should see to."""
        return self.copy or self.trouble

    def statistics(self) -> dict[str, int]:
        """Return the board's numbers and the line's own, whose names begin with `line_`."""
        return self.numbers | {f"line_{name}": value for name, value in self.link.statistics().items()}


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
