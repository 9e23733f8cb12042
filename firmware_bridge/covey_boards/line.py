"""One line of a gateway, and what is known of the board behind it."""

from __future__ import annotations

from covey.ports import AttachedBoard, SerialLink, SerialMessage

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
        self.order_at_us = self.up_at_us = 0
        self.sleeps_until_us: int | None = None
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
