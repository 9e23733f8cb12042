"""The documents of files: what commands print with `--json`, and the local API answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from covey.app.documents import Count, Says

OFFERED, REQUESTED, HERE, LOCKED, WRONG = "offered", "requested", "here", "locked", "wrong"

WAITING = frozenset({REQUESTED, LOCKED})
"""The states of a file that this device has asked for and cannot open yet."""

_HASH = Says(pattern="^[0-9a-f]{64}$")


@dataclass(frozen=True, slots=True)
class ContentStatus:
    """The files of this device's groups as they are here."""

    here: Annotated[Count, Says(description="complete local files")]
    here_bytes: Annotated[Count, Says(description="their encrypted bytes")]
    pinned_bytes: Annotated[Count, Says(description="of these, bytes that are pinned")]
    maximum_bytes: Annotated[Count, Says(description="limit for all files: content.maximum_mb")]
    wanted: Annotated[Count, Says(description="requested files that have not arrived")]
    wrong: Annotated[Count, Says(description="files that did not match their offer and were deleted")]
    peers: Annotated[Count | None, Says(description="peers on this network; null: unknown")]


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """A file of a group as it is here. `size` and `fetched` are bytes; `holders` counts the members known to have it.

    `state` is offered, requested, here, locked (all of it arrived, but not the secret that opens it), or wrong (all of
    it arrived, but it does not match the offer).
    """

    id: Annotated[str, _HASH]
    name: str
    size: Count
    author: Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="signing key")]
    label: str
    offered_at_us: Annotated[int, Says(description="Unix microseconds, by its author's clock")]
    hash: Annotated[str, _HASH]
    state: Annotated[str, Says(enum=[OFFERED, REQUESTED, HERE, LOCKED, WRONG])]
    fetched: Annotated[Count, Says(description="bytes of the encrypted file that are here")]
    pinned: bool
    holders: Count
    saved: Annotated[Count, Says(description="bytes that a patch saved")] = 0


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file of a group, and who has said to have it: keys, with what the members are called."""

    file: OfferedFile
    held_by: dict[str, str]


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """Whether a file stays when room is short."""

    pinned: bool


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """The file is no longer here, and no longer requested."""
