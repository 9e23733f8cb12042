"""Imprints: the message by which an acknowledgement holds a number (docs/protocol/core.md, "Acknowledgements").

A message's imprint is the first 4 bytes of its signature: each message that an author signs has another one, however
often a restored state reuses the same number.
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.wire import cbor
from covey.core.wire.sequences import Range
from covey.errors import LimitError, MalformedError
from covey.limits.link import MAXIMUM_IMPRINT_RUNS, MAXIMUM_IMPRINTS
from covey.limits.message import MAXIMUM_SEQUENCE

IMPRINT_BYTES = 4
UNKNOWN = bytes(IMPRINT_BYTES)
"""For a message that its recipient holds without its imprint."""

NOTHING = b"\xff" * IMPRINT_BYTES
"""For a number that its recipient has closed because its author declared it lost: nothing was received."""

_SIGNATURE_AT = 3
"""A message begins `82 58 40`: an array of two, the first of them 64 bytes."""


def imprint_of(message: bytes) -> bytes:
    """Return a message's imprint, from its exact bytes."""
    return message[_SIGNATURE_AT : _SIGNATURE_AT + IMPRINT_BYTES]


def to_wire(imprints: Mapping[int, bytes]) -> list[list[object]]:
    """Return `[[first, imprints of consecutive numbers], ...]`, ascending; as many runs as there may be."""
    spans = runs(imprints)[:MAXIMUM_IMPRINT_RUNS]
    return [[first, b"".join(imprints[number] for number in range(first, last + 1))] for first, last in spans]


def runs(imprints: Mapping[int, bytes]) -> list[Range]:
    """Return the ranges of numbers that have an imprint, ascending."""
    found: list[Range] = []
    for number in sorted(imprints):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def from_wire(value: object) -> dict[int, bytes]:
    """Parse `to_wire`'s shape; return the imprint of each number.

    Raises:
        MalformedError: runs that are empty, no whole imprints, or do not ascend.
        LimitError: more of them than one acknowledgement may have.
    """
    imprints: dict[int, bytes] = {}
    highest = 0
    for first, run in cbor.many(_run, MAXIMUM_IMPRINT_RUNS)(value):
        count, rest = divmod(len(run), IMPRINT_BYTES)
        if rest or not count or first <= highest or first + count - 1 > MAXIMUM_SEQUENCE:
            raise MalformedError("runs of imprints must be complete and ascend")
        highest = first + count - 1
        if len(imprints) + count > MAXIMUM_IMPRINTS:
            raise LimitError(f"more than {MAXIMUM_IMPRINTS} imprints")
        for index in range(count):
            imprints[first + index] = run[index * IMPRINT_BYTES : (index + 1) * IMPRINT_BYTES]
    return imprints


def _run(value: object) -> tuple[int, bytes]:
    longest = MAXIMUM_IMPRINTS * IMPRINT_BYTES
    first, run = cbor.record(value, "imprints", cbor.uint(MAXIMUM_SEQUENCE), cbor.octets_to(longest))
    return first, run
