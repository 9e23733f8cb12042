"""What the exchange of files reads and writes of the durable state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from covey.core.ids import ContentHash, DeviceKey, GroupId, OperationId


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that this device asks for: `sealed_size` bytes, offered in a group by `author`."""

    hash: ContentHash
    index: ContentHash
    sealed_size: int
    group_id: GroupId
    author: DeviceKey


class PartRecords(Protocol):
    """What has come of files; whoever fetches one, in the loop or in a thread, is alone with it."""

    def index(self, wanted: WantedFile) -> bytes | None:
        """Return the hashes of a file's chunks, verified; None where it is not here yet."""

    def save_index(self, wanted: WantedFile, index: bytes) -> bool:
        """Keep the hashes of a file's chunks durably; False where the file has no room, or the disk refuses."""

    def fetched(self, wanted: WantedFile) -> int:
        """Return how many bytes of a file, from its first on, are here and verified: a number of whole chunks."""

    def append(self, wanted: WantedFile, position: int, pieces: Sequence[memoryview]) -> bool:
        """Keep one more chunk, at the end of what is here, durably from the next `synchronise` on.

        Returns False where the disk refuses.
        """

    def synchronise(self, wanted: WantedFile) -> int | None:
        """Begin to bring the chunks of a file that are kept to the disk, when what was begun before has ended.

        Returns the microseconds that the last one took which has ended, 0 for none; None: the disk refuses, and what
        of the chunks is there, `fetched` of a new start tells.
        """

    def has_ended(self, wanted: WantedFile, wait_us: int) -> bool:
        """Say whether what `synchronise` has begun last has ended, or does within so long."""

    def settle(self, wanted: WantedFile) -> bool:
        """Wait for the end of what `synchronise` has begun last; False where the disk has refused."""


class PinnedRecords(Protocol):
    """What is known of files for whose sake secrets are asked for and given."""

    def lacking(self) -> list[tuple[GroupId, OperationId]]:
        """Return what offered the files that were asked for without the secret they open by: last asked, first."""

    def is_pinned(self, group_id: GroupId, content: ContentHash) -> bool:
        """Say whether a file of a group is here whole, and stays."""


class ContentRecords(PinnedRecords, Protocol):
    """Sealed files, whole and in part. What is not whole counts as not here, but for who fetches it."""

    @property
    def parts(self) -> PartRecords:
        """What has come of what is wanted."""

    def wanted(self) -> list[WantedFile]:
        """Return what is to be fetched, what was asked for first, first."""

    def complete(self, wanted: WantedFile) -> bool:
        """Take a file of which all chunks are here for whole; False where it has another hash: then it is deleted."""

    def read(self, group_id: GroupId, content: ContentHash, position: int, size: int) -> bytes | None:
        """Return bytes of a whole file of a group, or of its index; None where this device does not have it."""

    def note_holder(self, group_id: GroupId, content: ContentHash, device: DeviceKey) -> None:
        """Note that a member has said it has a file that is here."""
