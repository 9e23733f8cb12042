"""Why a reading was left out, or came otherwise than it was measured: the reasons by which sensors and doors count.

Every drop is counted where it happens, and shown there (`covey status`, `covey check`, `covey metrics`, `covey door
status`). A reason stands here once; whatever shows it reads the table.
"""

from __future__ import annotations

from enum import StrEnum


class Drop(StrEnum):
    """A reason, as metrics and JSON name it."""

    TIME = "time"
    CUT = "cut"
    VALUE = "value"
    NAME = "name"
    SERIES = "series"
    RATE = "rate"
    FORMAT = "format"
    REFUSED = "refused"
    UNREAD = "unread"


MEANINGS = {
    Drop.TIME: "with a time that cannot be",
    Drop.CUT: "with a text that was cut",
    Drop.VALUE: "with a value that cannot be carried",
    Drop.NAME: "with a name that no reading can have",
    Drop.SERIES: "of more series than allowed",
    Drop.RATE: "faster than allowed",
    Drop.FORMAT: "in a form that cannot be read",
    Drop.REFUSED: "refused",
    Drop.UNREAD: "not read",
}
"""What is wrong with them, for people: "3 readings with a time that cannot be"."""
