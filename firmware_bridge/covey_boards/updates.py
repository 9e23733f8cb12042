"""Bring the boards on this device's ports to the firmware that an installer has put here.

docs/protocol/boards.md, section 18, "Firmware".

1. A firmware is a file that is replaced whole; while it exists, each board on its line is updated to it.
2. A board receives the announcement, reports how far it has come, and is sent the next part, each once, as the line
   loses none. After a power cut on either side, or a minute of silence, that starts again with the announcement.
3. A board's verdict on a firmware is final until another one is put here, or the board restarts; it is kept for checks.
4. A board may report anything, and a board outside all groups is sent nothing: reports are noted every `_NOTE_US` at
   most, and requested again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.core.group.device_labels import DeviceLabels
from covey.core.ids import DeviceKey, printable
from covey.core.node import Node
from covey.core.now import Now
from covey.errors import RemoteError
from covey.limits.board import BOARD_PART_BYTES, MAXIMUM_BOARD_IMAGE_BYTES
from covey.ports import Report
from covey_boards.shared import line_orders, messages

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey_boards.images import BoardImage

FIRMWARE_CONDITION = "firmware "
"""What a condition of a board's update is called, before the board's key."""

RECEIVING, RUNS, TRIED, FAILED, REFUSED = range(5)
_WORDS = ("receiving", "runs", "tried", "failed", "refused")
_LOOK_US = 2_000_000
_ANNOUNCE_US = 60_000_000
_POLL_US = 10_000_000
"""How soon a board is asked whether what it tries has proved good."""
_NOTE_US = 5_000_000


@dataclass(slots=True)
class _Progress:
    """How far one board has come: `said` is what it said last."""

    announce_at_us: int = 0
    next_part: int | None = None
    sent_part: int | None = None
    said: str = ""
    note_at_us: int = 0


class BoardUpdates:
    """The firmware that boards are to run; `path` is where an installer puts a firmware."""

    def __init__(self, path: Path, store: SqliteStore, report: Report) -> None:
        self._path = path
        self._store = store
        self._report = report
        self._image: BoardImage | None = None
        self._seen: tuple[int, int, int] | None = None
        self._look_at_us = 0
        self._boards: dict[DeviceKey, _Progress] = {}

    def begin(self, board: DeviceKey) -> None:
        """Note that a board has started, or its line has come up."""
        before = self._boards.get(board)
        if before is not None:
            self._boards[board] = _Progress(note_at_us=before.note_at_us)

    def next_message(self, board: DeviceKey, now: Now) -> bytes | None:
        """Return what is to be told a board now."""
        self._look(now)
        image = self._image
        if image is None:
            return None
        progress = self._boards.setdefault(board, _Progress())
        if progress.next_part is not None:
            at, progress.next_part = progress.next_part, None
            progress.sent_part = at
            return bytes(messages.to_line(line_orders.PART, at, image.contents[at : at + BOARD_PART_BYTES]))
        if now.monotonic_us >= progress.announce_at_us:
            progress.announce_at_us = now.monotonic_us + _ANNOUNCE_US
            progress.sent_part = None
            return bytes(messages.to_line(line_orders.FIRMWARE, image.announced))
        return None

    def receive(self, board: DeviceKey, digest: bytes, state: int, offset: int, why: str, node: Node, now: Now) -> None:
        """Take what a board says of a firmware."""
        image, progress = self._image, self._boards.get(board)
        if image is None or progress is None or digest != image.digest:
            return
        progress.announce_at_us = now.monotonic_us + (_POLL_US if state == TRIED else _ANNOUNCE_US)
        wants_part = state == RECEIVING and offset < len(image.contents) and offset != progress.sent_part
        progress.next_part = offset if wants_part else None
        if state in {RUNS, FAILED, REFUSED}:
            progress.announce_at_us = 1 << 62
        said = f"{digest.hex()[:16]} {_WORDS[state]} {printable(why)}".strip()
        if said == progress.said:
            return
        if now.monotonic_us < progress.note_at_us:
            progress.announce_at_us = min(progress.announce_at_us, progress.note_at_us)
            return
        name = FIRMWARE_CONDITION + board.hex()
        is_news = self._store.conditions.values().get(name, ("",))[0] != said
        if is_news:
            with self._store.transaction():
                self._store.conditions.set(name, said, now.wall_us)
        progress.said, progress.note_at_us = said, now.monotonic_us + _NOTE_US
        if is_news:
            level = "warning" if state in {FAILED, REFUSED} else "notice"
            named = DeviceLabels(node.groups.joined()).named(board)
            self._report(level, f"board {named}: firmware {said}")

    def _look(self, now: Now) -> None:
        """See whether another firmware lies there."""
        if now.monotonic_us < self._look_at_us:
            return
        self._look_at_us = now.monotonic_us + _LOOK_US
        try:
            about = self._path.stat()
        except OSError:
            self._image = self._seen = None
            return
        seen = about.st_ino, about.st_mtime_ns, about.st_size
        if seen == self._seen:
            return
        self._seen, self._image = seen, None
        self._boards.clear()
        from covey_boards.images import read_image  # few gateways ever update a board

        try:
            if about.st_size <= MAXIMUM_BOARD_IMAGE_BYTES:
                self._image = read_image(self._path.read_bytes())
        except (OSError, RemoteError) as error:
            self._report("warning", f"{self._path} is not board firmware: {error}")
