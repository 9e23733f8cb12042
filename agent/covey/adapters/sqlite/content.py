"""The tables of sealed files: which are asked for, which are here, and who has them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum

from covey.adapters.content_files import ContentFiles
from covey.adapters.content_parts import ContentParts
from covey.adapters.sqlite.database import Database
from covey.core.content.messages import WantedFile
from covey.core.history.files import HASH_BYTES, ContentReference
from covey.core.ids import ContentHash, DeviceKey, GroupId, OperationId
from covey.core.now import Now
from covey.errors import StorageError
from covey.limits.content import CHUNK_BYTES, MAXIMUM_HOLDERS, OFFERED_WITHIN_US, REFETCH_US
from covey.ports import GivenFile

DAMAGED_FILES = "content_damaged_files"
"""The counter of files that were here whole and that the disk has changed."""


class ContentState(IntEnum):
    """The state of a file here."""

    WANTED = 0
    HERE = 1
    REFUSED = 2
    SEALED = 3
    """Made here, and not offered to anybody yet."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file as it is here."""

    hash: ContentHash
    group_id: GroupId
    sealed_size: int
    state: ContentState
    pinned: bool
    used_at_us: int
    is_lacking: bool
    """Whether it was asked for without the secret that it opens by, which is asked for, too."""


class ContentTable:
    """Implements `core/content/records.ContentRecords`, and what commands ask of files, and of their parts."""

    def __init__(self, database: Database, files: ContentFiles) -> None:
        self._database = database
        self._elsewhere: set[ContentHash] = set()
        self._damaged: set[ContentHash] = set()
        """Files that were found damaged when somebody asked for them."""
        self._refetched_us: dict[ContentHash, int] = {}
        self.parts = ContentParts(files)
        self.files = files

    # -- what a person decides ----------------------------------------------------------------------------------------

    def want(self, group_id: GroupId, author: DeviceKey, reference: ContentReference, now_us: int) -> None:
        """Ask for a file."""
        self._put(group_id, author, reference, ContentState.WANTED, now_us)

    def seal(self, group_id: GroupId, author: DeviceKey, reference: ContentReference, now_us: int) -> None:
        """Note that a file was made here, which `put` follows once it is offered."""
        self._put(group_id, author, reference, ContentState.SEALED, now_us)

    def put(self, group_id: GroupId, author: DeviceKey, reference: ContentReference, now_us: int) -> None:
        """Note that a file is here whole."""
        self._put(group_id, author, reference, ContentState.HERE, now_us)

    def _put(
        self, group_id: GroupId, author: DeviceKey, reference: ContentReference, state: ContentState, now_us: int
    ) -> None:
        self._database.run(
            "INSERT INTO content (hash, index_hash, sealed_size, group_id, author, state, used_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET state = excluded.state, "
            "used_at = excluded.used_at",
            (reference.hash, reference.index, reference.sealed_size, group_id, author, int(state), now_us),
        )

    def pin(self, content: ContentHash, *, pinned: bool) -> None:
        """Have a file stay, or not, when room is short."""
        self._database.run("UPDATE content SET pinned = ? WHERE hash = ?", (pinned, content))

    def lack(self, content: ContentHash, offer: OperationId, now_us: int) -> None:
        """Have the secret asked for that a file opens by, as an operation offers it."""
        self._database.run("UPDATE content SET lacks = ?, used_at = ? WHERE hash = ?", (offer, now_us, content))

    def use(self, content: ContentHash, now_us: int) -> None:
        """Note that a file was used."""
        self._database.run("UPDATE content SET used_at = ? WHERE hash = ?", (now_us, content))

    def drop(self, content: ContentHash) -> None:
        """Forget a file; its bytes go after the commit, and where the power goes before, at the next look."""
        self._database.run("DELETE FROM content_holder WHERE hash = ?", (content,))
        self._database.run("DELETE FROM content WHERE hash = ?", (content,))
        self._database.after_commit(lambda: self.files.remove(content))

    def forget(self, group_id: GroupId) -> None:
        """Forget all files of a group."""
        for (content,) in self._database.run("SELECT hash FROM content WHERE group_id = ?", (group_id,)):
            self.drop(content)

    def sweep(self, now_us: int) -> None:
        """Remove what a power cut has left: the bytes of what is not known here, and what was made and not offered.

        A command that still makes files for a release has made the others within `OFFERED_WITHIN_US`.
        """
        if not self.files.exist:
            return
        abandoned = "SELECT hash FROM content WHERE state = ? AND used_at NOT BETWEEN ? AND ?"
        for (content,) in self._database.run(
            abandoned, (int(ContentState.SEALED), now_us - OFFERED_WITHIN_US, now_us + OFFERED_WITHIN_US)
        ):
            with self._database.transaction():
                self.drop(ContentHash(content))
        with self.files.locked():
            known = {ContentHash(row[0]) for row in self._database.run("SELECT hash FROM content")}
            self.files.remove_others(known)

    # -- looking ------------------------------------------------------------------------------------------------------

    def of(self, content: ContentHash) -> KeptFile | None:
        """Return a file as it is here."""
        return next(iter(self._kept("WHERE hash = ?", content)), None)

    def all(self) -> list[KeptFile]:
        """Return all files, what was used last, last."""
        return self._kept("ORDER BY used_at")

    def _kept(self, where: str, *parameters: object) -> list[KeptFile]:
        rows = self._database.run(
            f"SELECT hash, group_id, sealed_size, state, pinned, used_at, lacks FROM content {where}",  # noqa: S608 - ours
            parameters,
        )
        return [
            KeptFile(ContentHash(key), GroupId(group), size, ContentState(state), bool(pinned), used_at, bool(lacks))
            for key, group, size, state, pinned, used_at, lacks in rows
        ]

    def holders(self, content: ContentHash) -> list[DeviceKey]:
        """Return the members that have said they have a file."""
        rows = self._database.run("SELECT device FROM content_holder WHERE hash = ?", (content,))
        return [DeviceKey(row[0]) for row in rows]

    def come(self, content: ContentHash) -> int:
        """Return how many bytes of a file that is asked for have come."""
        wanted = next((each for each in self.all_wanted() if each.hash == content), None)
        return 0 if wanted is None or self.parts.index(wanted) is None else self.files.come(content)

    def given_files(self) -> dict[ContentHash, GivenFile]:
        """Return where files are that are here or on their way, and their indexes, by hash."""
        found: dict[ContentHash, GivenFile] = {}
        for content, index, size in self._database.run(
            "SELECT hash, index_hash, sealed_size FROM content WHERE state IN (?, ?)",
            (int(ContentState.WANTED), int(ContentState.HERE)),
        ):
            key, index_hash = ContentHash(content), ContentHash(index)
            path, part, index_path = (self.files.path(key, each) for each in ("", ".part", ".index"))
            index_size, looked_for = -(-size // CHUNK_BYTES) * HASH_BYTES, content in self._elsewhere
            found[key] = GivenFile(path, part, size, index_path, index_hash, key, looked_for)
            found[index_hash] = GivenFile(index_path, index_path, index_size, None, index_hash, key, looked_for)
        return found

    def put_by(self, author: DeviceKey) -> list[tuple[ContentHash, ContentHash]]:
        """Return what one device has offered and is here whole: hashes of files, and of their indexes."""
        rows = self._database.run(
            "SELECT hash, index_hash FROM content WHERE author = ? AND state = ?", (author, int(ContentState.HERE))
        )
        return [(ContentHash(content), ContentHash(index)) for content, index in rows]

    def remove_unknown(self, content: ContentHash) -> None:
        """Remove what has come of a file that was dropped meanwhile."""
        if self.of(content) is None:
            self.files.remove(content)

    # -- for the exchange ---------------------------------------------------------------------------------------------

    def elsewhere(self, content: ContentHash, *, held: bool) -> None:
        """Keep a file out of `wanted` while it comes from a place nearby, or no longer."""
        if held:
            self._elsewhere.add(content)
        else:
            self._elsewhere.discard(content)

    def wanted(self) -> list[WantedFile]:
        """Return what is to be asked of members, what was asked for first, first."""
        return [each for each in self.all_wanted() if each.hash not in self._elsewhere]

    def all_wanted(self) -> list[WantedFile]:
        """Return what is to be fetched in any way."""
        rows = self._database.run(
            "SELECT hash, index_hash, sealed_size, group_id, author FROM content WHERE state = ? ORDER BY used_at",
            (int(ContentState.WANTED),),
        )
        return [WantedFile(*row) for row in rows]

    def lacking(self) -> list[tuple[GroupId, OperationId]]:
        rows = self._database.run("SELECT group_id, lacks FROM content WHERE lacks IS NOT NULL ORDER BY used_at DESC")
        return [(GroupId(group_id), OperationId(offer)) for group_id, offer in rows]

    def is_pinned(self, group_id: GroupId, content: ContentHash) -> bool:
        query = "SELECT count(*) FROM content WHERE hash = ? AND group_id = ? AND state = ? AND pinned"
        return bool(self._database.one(query, content, group_id, int(ContentState.HERE)))

    def complete(self, wanted: WantedFile) -> bool:
        """Accept a file whose parts have all arrived; if its hash is wrong, delete it and stop asking."""
        whole = self.files.complete(wanted.hash, is_proved=self.parts.take_proof(wanted))
        state = ContentState.HERE if whole else ContentState.REFUSED
        self._database.run("UPDATE content SET state = ? WHERE hash = ?", (int(state), wanted.hash))
        return whole

    def read(self, group_id: GroupId, content: ContentHash, position: int, size: int) -> bytes | None:
        """Return bytes of a whole file of a group, or of its index; None where it is not here, or damaged."""
        row = self._database.first(
            "SELECT hash, index_hash FROM content WHERE (hash = ? OR index_hash = ?) AND group_id = ? AND state = ?",
            (content, content, group_id, int(ContentState.HERE)),
        )
        index = None if row is None else self.files.index(ContentHash(row[0]), ContentHash(row[1]))
        if row is None:
            return None
        found = index
        if row[0] == content and index is not None:
            found = self.files.read(content, index, position, size)
        if found is None:
            self.note_damaged(ContentHash(row[0]))
        return found if found is None or row[0] == content else found[position : position + size]

    def note_damaged(self, content: ContentHash) -> None:
        """Note that a file that is here is not what it should be; by any thread."""
        self._damaged.add(content)

    @property
    def has_damaged(self) -> bool:
        return bool(self._damaged)

    def fetch_damaged(self, now: Now) -> list[WantedFile]:
        """Have damaged files fetched again, each once in `REFETCH_US`; inside a transaction."""
        begun = []
        while self._damaged:
            content = self._damaged.pop()
            last_us = self._refetched_us.get(content)
            row = self._database.first(
                "SELECT hash, index_hash, sealed_size, group_id, author FROM content WHERE hash = ? AND state = ?",
                (content, int(ContentState.HERE)),
            )
            if row is None or (last_us is not None and now.monotonic_us < last_us + REFETCH_US):
                continue
            wanted = WantedFile(*row)
            with suppress(StorageError):  # a disk that takes nothing shows otherwise
                self.files.make_part(wanted)
                self._refetched_us[content] = now.monotonic_us
                self._database.run(
                    "UPDATE content SET state = ?, used_at = ? WHERE hash = ?",
                    (int(ContentState.WANTED), now.wall_us, content),
                )
                self._database.run(
                    "INSERT INTO counter VALUES (?, 1) ON CONFLICT DO UPDATE SET value = value + 1", (DAMAGED_FILES,)
                )
                begun.append(wanted)
        return begun

    def note_holder(self, group_id: GroupId, content: ContentHash, device: DeviceKey) -> None:
        """Note that a member has said it has a file that is here; of so many as a group has members."""
        assert len(content) == HASH_BYTES
        self._database.run(
            "INSERT OR IGNORE INTO content_holder SELECT hash, ? FROM content WHERE hash = ? AND group_id = ? "
            "AND (SELECT count(*) FROM content_holder WHERE hash = ?) < ?",
            (device, content, group_id, content, MAXIMUM_HOLDERS),
        )
