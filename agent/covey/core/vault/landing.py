"""What a collector lands: the segment that it has decided to write, and the messages of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LandingPlan:
    """A segment that a collector has decided to write: fixed before any of it is written."""

    number: int
    incarnation: bytes
    last_id: int
    created_at_us: int
    nonce: bytes


@dataclass(frozen=True, slots=True)
class LandedMessage:
    """One message of a plan."""

    author: bytes
    incarnation: bytes
    link_seq: int
    received_at_us: int
    message: bytes
    recipient: bytes | None = None
    """Of a message of this device's own that waits for somebody: `link_seq` is its place in that queue."""
