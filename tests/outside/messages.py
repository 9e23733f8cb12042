"""Sections 5, 7 and 23: messages and operations as a vault holds them, and the losses that messages admit."""

from __future__ import annotations

from typing import NamedTuple

from tests.outside.primitives import (
    GROUP_ID,
    HASH,
    INCARNATION,
    KEY,
    SEQUENCE,
    SIGNATURE,
    UINT63,
    RefusedError,
    check_signature,
    either,
    grown,
    parsed,
)

TELEMETRY, LOSS, SUMMARY = 0x09, 0x0A, 0x1B
_UNSEQUENCED = {0x08, 0x0E, 0x11, 0x15, 0x18, 0x72, 0x73, 0x80}
_TYPES = {*range(0x03, 0x1C), 0x71, 0x72, 0x73, 0x80}
_FORWARD = 0x0F
_MAXIMUM_BYTES = 1_000_000
_LOSS_BYTES = 2_560
_LOSS_RANGES = 64
_SIGNED = (1, range(256), KEY, KEY, GROUP_ID, INCARNATION, SEQUENCE, SEQUENCE, UINT63, bytes)
_RANGE = (SEQUENCE, SEQUENCE)
_LOSS = (UINT63, [_RANGE], [_RANGE], INCARNATION)
_OPERATION = (
    *(1, GROUP_ID, KEY, INCARNATION, SEQUENCE, either(HASH, None), [HASH], SEQUENCE, HASH, UINT63),
    *(range(256), bytes),
)
REASONS = {1: "outbox_full", 2: "expired", 3: "withdrawn", 4: "damaged", 5: "recipient_lost"}

Range = tuple[int, int]


class Message(NamedTuple):
    """What an author signed; no time in it decides anything."""

    type: int
    author: bytes
    recipient: bytes
    group: bytes
    incarnation: bytes
    seq: int
    link_seq: int
    body: bytes


class Loss(NamedTuple):
    """Numbers of batches, and places of a link, that will never come."""

    reason: int
    places: list[Range]
    numbers: list[Range]
    earlier: bytes | None
    """The incarnation that both are of, where it is not the record's own."""


def landed_manifest(content: bytes) -> bytes | None:
    """Return the group manifest that a record is, or None: it begins with a number (section 13)."""
    first, inside = parsed(content, (either(0, SIGNATURE), bytes))
    return inside if first == 0 else None


def is_operation(content: bytes) -> bool:
    """Say whether a record is an operation, by the number of its fields (section 13)."""
    _, signed = parsed(content, (SIGNATURE, bytes))
    return len(grown(signed, list)) == len(_OPERATION)


def read_operation(content: bytes) -> tuple[bytes, bytes]:
    """Verify an operation of a group's history; return its author and group."""
    signature, document = parsed(content, (SIGNATURE, bytes))
    _, group, author, *_ = grown(document, _OPERATION)
    check_signature("covey/1 operation", author, signature, document)
    return author, group


def read_message(content: bytes) -> Message:
    """Verify and return a message."""
    if len(content) > _MAXIMUM_BYTES:
        raise RefusedError("limit", "message")
    signature, signed = parsed(content, (SIGNATURE, bytes))
    _, kind, author, recipient, group, incarnation, seq, link_seq, _, body = grown(signed, _SIGNED)
    check_signature("covey/1 message", author, signature, signed)
    unsequenced = kind in _UNSEQUENCED or (kind == _FORWARD and not seq)
    if (seq == 0) != (link_seq == 0) or (kind in _TYPES and (link_seq == 0) != unsequenced):
        raise RefusedError("malformed", "sequences")
    if kind not in _TYPES:
        raise RefusedError("unsupported", f"type {kind}")
    return Message(kind, author, recipient, group, incarnation, seq, link_seq, body)


def read_loss(body: bytes) -> Loss:
    """Return what the body of a loss record admits."""
    if len(body) > _LOSS_BYTES:
        raise RefusedError("limit", "loss")
    length = len(grown(body, list))
    reason, places, numbers, *earlier = grown(body, _LOSS[: max(3, min(4, length))])
    if reason not in range(1, 256) or not places:
        raise RefusedError("malformed", "loss")
    return Loss(reason, ranges_of(places), ranges_of(numbers), earlier[0] if earlier else None)


def ranges_of(ranges: list[list[int]]) -> list[Range]:
    """Check ranges of numbers that ascend and do not touch each other."""
    if len(ranges) > _LOSS_RANGES:
        raise RefusedError("limit", "ranges")
    end = -1
    for first, last in ranges:
        if not max(1, end + 2) <= first <= last:
            raise RefusedError("malformed", "ranges")
        end = last
    return [(first, last) for first, last in ranges]
