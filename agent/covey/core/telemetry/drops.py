"""The reasons for which sensors and doors drop or change a reading.

Each of them counts its drops; `covey status`, `covey check`, `covey metrics` and `covey door status` show the counts
with the words of this table.
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
    LATE = "late"


MEANINGS = {
    Drop.TIME: "with an impossible time",
    Drop.CUT: "with a shortened text",
    Drop.VALUE: "with an unsupported value",
    Drop.NAME: "with an invalid name",
    Drop.SERIES: "of more series than allowed",
    Drop.RATE: "faster than allowed",
    Drop.FORMAT: "in an unreadable format",
    Drop.REFUSED: "refused",
    Drop.UNREAD: "not read",
    Drop.LATE: "too late for its history",
}
"""Completes a sentence such as "3 readings with an impossible time"."""
