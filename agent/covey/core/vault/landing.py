"""A collector's plan: the segment that it has decided to write, and its messages."""

from __future__ import annotations

from dataclasses import dataclass

from covey.core.ids import DeviceKey, Incarnation, LinkSeq, Place

VAULT_CONDITION = "vault takes nothing"
"""The condition that says what keeps a collector from landing; empty where nothing does."""

RESTORED_CONDITION = "vault restored"
"""The condition that says how many messages a restored vault lacked, and when that was seen."""

DAMAGED_CONDITION = "vault damaged"
"""The condition that lists the positions of segments that are damaged or missing, as ranges; empty where none is."""

HELD_BACK_CONDITION = "vault held back"
"""The condition that lists the devices whose share of the landing is used up, as hex keys; one may be cut off."""

HELD_BACK_NAMED = 64
"""So many of them are listed, newest first."""


@dataclass(frozen=True, slots=True)
class LandingPlan:
    """A segment that a collector has decided to write: fixed before any of it is written."""

    number: int
    incarnation: Incarnation
    last_id: int
    created_at_us: int
    nonce: bytes


@dataclass(frozen=True, slots=True)
class LandedMessage:
    """One message of a plan: it came over a link, or is this device's own and waits in a recipient's queue.

    Or an operation of a group's history, which neither came over a link nor waits.
    """

    author: DeviceKey
    incarnation: Incarnation
    link_seq: LinkSeq
    """Its number on the link; 0 where none brought it."""
    received_at_us: int
    message: bytes
    recipient: DeviceKey | None = None
    place: Place | None = None
    """Where in the recipient's queue a message of this device's own waits."""
