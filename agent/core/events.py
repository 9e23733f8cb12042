"""What a node tells whoever runs it."""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.membership import GroupChanged, GroupDestroyed, RemovedFromGroup
from agent.core.voting import VoteArrived


@dataclass(frozen=True, slots=True)
class BlobArrived:
    """A member's blob lies in the inbox."""

    author: bytes
    size: int


@dataclass(frozen=True, slots=True)
class EnvelopeDropped:
    """An envelope broke a rule. `author` is known only where the signature verified."""

    code: str
    reason: str
    author: bytes | None


Event = GroupChanged | RemovedFromGroup | GroupDestroyed | VoteArrived | BlobArrived | EnvelopeDropped
