"""Durable state of files and mailboxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from covey.core.content.messages import WantedFile
from covey.core.ids import ContentHash, DeviceKey, GroupId, OperationId, Place
from covey.core.mailbox.messages import BlobEntry, BlobRefusal, InboxState, Kept, Push, WakeHook
from covey.core.now import Now
from covey.core.wire.sequences import Range


class PartRecords(Protocol):
    """Received parts of files; only one thread, or the loop, works on a file at a time."""

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


class ContentRecords(Protocol):
    """Sealed files."""

    def lacking(self) -> list[tuple[GroupId, OperationId]]:
        """Return what offered the files that were asked for without the secret they open by: last asked, first."""

    def is_pinned(self, group_id: GroupId, content: ContentHash) -> bool:
        """Say whether a file of a group is here whole, and stays."""

    @property
    def parts(self) -> PartRecords:
        """What has come of what is wanted."""

    def wanted(self) -> list[WantedFile]:
        """Return what is to be fetched, what was asked for first, first."""

    def complete(self, wanted: WantedFile) -> bool:
        """Take a file of which all chunks are here for whole; False where it has another hash: then it is deleted."""

    @property
    def has_damaged(self) -> bool:
        """Whether a read has found a file damaged that was here whole."""

    def fetch_damaged(self, now: Now) -> list[WantedFile]:
        """Have such files fetched again, from the first damaged chunk on, each once an hour; return them."""

    def read(self, group_id: GroupId, content: ContentHash, position: int, size: int) -> bytes | None:
        """Return bytes of a whole file of a group, or of its index; None where this device does not have it."""

    def note_holder(self, group_id: GroupId, content: ContentHash, device: DeviceKey) -> None:
        """Note that a member has said it has a file that is here."""


class MailboxRecords(Protocol):
    """What mailboxes keep, and who uses them."""

    def relay_id(self) -> str:
        """Return by what devices know this state of the mailbox: another one when it was restored."""

    def put(
        self, sender: DeviceKey, push: Push, ttl_us: int, now_us: int, maximum_bytes: int, senders: int
    ) -> Kept | BlobRefusal:
        """Keep a blob under the next cursor of its recipient's inbox; one that is there keeps its own."""

    def state(self, device: DeviceKey) -> InboxState:
        """Return how a device's inbox stands."""

    def after(self, device: DeviceKey, cursor: int, last: int, limit: int, size: int) -> tuple[list[BlobEntry], bool]:
        """Return what has a cursor above one and up to another, and whether that was cut short.

        At most `limit` blobs of at most `size` bytes in all, but one in any case.
        """

    def delete(self, device: DeviceKey, cursors: Range) -> int:
        """Delete some cursors of a device's inbox; return the number of blobs."""

    def forget(self, device: DeviceKey) -> None:
        """Delete a device's inbox and hooks permanently."""

    def devices(self) -> list[DeviceKey]:
        """Return the devices that have an inbox here."""

    def forget_sender(self, device: DeviceKey) -> int:
        """Delete some blobs of a sender, and the sender with the last one; return the number of blobs."""

    def senders(self) -> list[DeviceKey]:
        """Return the devices that have blobs here, or had some."""

    def expire(self) -> int:
        """Delete some expired blobs, by this state's age; return their number."""

    def add_hook(self, device: DeviceKey, hook: WakeHook) -> bool:
        """Remember how a device wants to be woken; False where it has too many hooks."""

    def remove_hook(self, device: DeviceKey, hook: WakeHook) -> None:
        """Forget a hook."""

    def hooks(self, device: DeviceKey) -> list[WakeHook]:
        """Return how a device wants to be woken."""

    def position(self, mailbox: DeviceKey) -> tuple[str, int]:
        """Return (the mailbox's state, up to which cursor of it all is dealt with); an empty one and 0 at first."""

    def set_position(self, mailbox: DeviceKey, relay_id: str, cursor: int) -> None:
        """Note up to which cursor all is dealt with."""

    def pushed_upto(self, recipient: DeviceKey, mailbox: DeviceKey) -> tuple[Place, int]:
        """Return (up to which place of a queue a mailbox has said that it keeps all, when the first of it was)."""

    def set_pushed(self, recipient: DeviceKey, mailbox: DeviceKey, upto: Place, since_us: int) -> None:
        """Note up to which place of a queue a mailbox has said that it keeps all, the first of it at a time."""

    def forget_pushed(self, mailbox: DeviceKey) -> None:
        """Forget what a mailbox has said that it keeps."""

    def lifetime_left_us(self, recipient: DeviceKey, place: Place) -> int | None:
        """Return how much longer a message may wait by this state's age, 0 at least; None: for ever."""

    def handed_over(self) -> dict[DeviceKey, Place]:
        """Return for each queue the place up to which a person wants everything pushed to a mailbox."""
