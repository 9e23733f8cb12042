"""Open the state database in any condition: locked, checked, salvaged if damaged, renewed if restored.

1. A process that is alone with a small file reads all of it; damage found later leaves a note (`note_damage`), and the
   next start salvages what is readable (`salvage.py`). The damaged file is kept.
2. Next to the file is a mark that the file names (`copy_mark.py`). If they do not match, one of them was restored or
   copied: the device begins another incarnation.
3. It does the same if the state fell back by itself: the write-ahead log holds unreadable commits, or the database is
   behind its high-water mark (`high_water.py`), which also tells what was lost.
4. On a read-only disk the state is read without a lock; each transaction is refused.
5. On a full disk, opening fails if a process was killed, because its log must be folded. Then the reserved space is
   released, and opening is tried again.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.files import is_read_only, remove_durably, storage_error
from covey.adapters.keys.key_file import write_secret
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.copy_mark import CopyMark
from covey.adapters.sqlite.file.groups_copy import GROUPS_COPY, GroupsCopy
from covey.adapters.sqlite.file.high_water import FallBack
from covey.adapters.sqlite.file.high_water_file import HighWaterFile, HighWaterMark
from covey.adapters.sqlite.file.inspection import verify
from covey.adapters.sqlite.file.reserved_space import ReservedSpace
from covey.adapters.sqlite.file.salvage_report import COMPLETE, SalvageReport
from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import Identity
from covey.core.ids import INCARNATION_BYTES, Incarnation
from covey.errors import DamagedStateError, DiskFullError, StorageError
from covey.limits.storage import LOOKED_THROUGH_BYTES

_HEADER = struct.Struct(">IIIIIIII")
_FRAME = struct.Struct(">IIIIII")
_MAGIC = 0x377F0682


def logged_commits(path: Path) -> list[int]:
    """Return the numbers of the frames that end a commit, from 1, whether their checksums hold or not.

    SQLite ends at the first frame whose checksum is wrong, and says nothing. A power cut leaves the frames of one
    commit that way, the last one, which nobody was told of. Where two or more follow, a disk has changed what was
    durable. The format: https://www.sqlite.org/fileformat2.html#walformat
    """
    found: list[int] = []
    try:
        with path.open("rb") as log:
            header = log.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return []
            magic, _, page_bytes, _, *salts = _HEADER.unpack(header)[:6]
            if magic & ~1 != _MAGIC or not 512 <= page_bytes <= 65_536:
                return []
            number = 0
            while len(head := log.read(_FRAME.size)) == _FRAME.size:
                number += 1
                _, pages_after, *frame_salts = _FRAME.unpack(head)[:4]
                if pages_after and frame_salts == salts:
                    found.append(number)
                log.seek(page_bytes, 1)
    except OSError:
        return []
    return found


_PATIENCE_S = 10.0
_LOOK_S = 0.05

Report = SalvageReport | FallBack
"""What a person is to know of an opening."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """One device's database, and the files next to it."""

    path: Path

    def beside(self, suffix: str) -> Path:
        """Return the path of a companion."""
        return self.path.with_name(f"{self.path.name}{suffix}")

    def companions(self) -> list[Path]:
        """Return everything that goes when the device is wiped: what was set aside, too."""
        return sorted(self.path.parent.glob(f"{self.path.name}*"), reverse=True)

    def is_read_only(self) -> bool:
        """Say whether its disk takes no writes. Asked of the lock's file: closing the database's would drop locks."""
        return is_read_only(self.beside("-lock"))

    def open(
        self, identity: Identity, outbox_bytes: int, moves: Callable[[], None] | None = None
    ) -> tuple[SqliteStore, list[Report]]:
        """Open it; create, migrate, salvage or renew it if needed; return what was salvaged or lost just now.

        `moves` is called again and again during conversion or salvage.

        Raises:
            ConfigurationError: a newer Covey wrote it.
            DamagedStateError: damaged, and another process has it open.
            StorageError: it cannot be read or written.
        """
        reports: list[Report] = []
        try:
            lock = os.open(self.beside("-lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if self.is_read_only():
                unused = Incarnation(bytes(INCARNATION_BYTES))
                return SqliteStore(self.path, unused, StorageKey.of(identity), outbox_bytes, reads_only=True), []
            raise storage_error("open", self.beside("-lock"), error) from error

        def locked(*, alone: bool) -> SqliteStore:
            return self._open_locked(identity, outbox_bytes, moves, reports, alone=alone)

        try:
            alone = self._lock(lock)
            try:
                store = locked(alone=alone)
            except DiskFullError:
                if not self._reserved().drop():
                    raise
                store = locked(alone=alone)
            fcntl.flock(lock, fcntl.LOCK_SH)
        except BaseException:
            os.close(lock)
            raise
        store.keep(lock)
        return store, reports

    def _open_locked(
        self,
        identity: Identity,
        outbox_bytes: int,
        moves: Callable[[], None] | None,
        reports: list[Report],
        *,
        alone: bool,
    ) -> SqliteStore:
        if alone:
            self._finish_salvage()
            if self._looks_damaged():
                reports.append(self._salvage(identity, outbox_bytes, moves))
        written = logged_commits(self.beside("-wal")) if alone else []
        try:
            store = self._open(identity, outbox_bytes, written, moves, reports)
        except DamagedStateError:
            if not alone:
                raise
            reports.append(self._salvage(identity, outbox_bytes, moves))
            store = self._open(identity, outbox_bytes, [], moves, reports)
        if alone:
            try:
                store.groups.write_copy()
            except BaseException:
                store.close()
                raise
        return store

    def _reserved(self) -> ReservedSpace:
        return ReservedSpace(self.beside("-reserved"))

    def _open(
        self,
        identity: Identity,
        outbox_bytes: int,
        written: list[int],
        moves: Callable[[], None] | None,
        reports: list[Report],
    ) -> SqliteStore:
        incarnation = Incarnation(secrets.token_bytes(INCARNATION_BYTES))
        high_water = HighWaterFile(self.beside("-high-water"))
        storage_key = StorageKey.of(identity)
        groups_copy = GroupsCopy(self.beside(GROUPS_COPY), storage_key)
        store = SqliteStore(
            *(self.path, incarnation, storage_key, outbox_bytes, self._reserved(), moves, high_water, groups_copy)
        )
        try:
            unread = sum(frame > store.frames_read for frame in written)
            try:
                lost = self._renew_if_restored(store, unread)
            except DiskFullError:  # which has dropped the reserved space
                lost = self._renew_if_restored(store, unread)
            if lost is not None:
                reports.append(lost)
        except BaseException:
            store.close()
            raise
        return store

    def _lock(self, lock: int) -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise StorageError(
                        "another process is repairing the state database", hint="wait until it has finished"
                    ) from error
                time.sleep(_LOOK_S)
            else:
                return False

    # -- damage -------------------------------------------------------------------------------------------------------

    def note_damage(self) -> None:
        """Have the next start save what can be read."""
        with suppress(StorageError):
            write_secret(self.beside("-suspect"), b"")

    def _looks_damaged(self) -> bool:
        if self.beside("-suspect").exists():
            return True
        marked = self._mark().there()
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return marked
        if size == 0 and not self.beside("-wal").exists():
            return marked
        if not marked or size > LOOKED_THROUGH_BYTES:
            return marked and self._has_other_versions()
        try:
            return self._has_other_versions() or bool(verify(self.path))
        except DiskFullError:
            raise
        except StorageError:
            return True

    def _has_other_versions(self) -> bool:
        """Say whether the header names read and write versions that SQLite does not know: it then writes nothing."""
        try:
            with self.path.open("rb") as file:
                return not {*file.read(20)[18:]} <= {1, 2}
        except OSError:
            return False

    def _finish_salvage(self) -> None:
        """Finish an interrupted salvage; otherwise load none of its code."""
        if self.beside(COMPLETE).exists():
            from covey.adapters.sqlite.file.salvage import finish

            finish(self.path)

    def _salvage(self, identity: Identity, outbox_bytes: int, moves: Callable[[], None] | None) -> SalvageReport:
        from covey.adapters.sqlite.file.salvage import salvage

        incarnation = Incarnation(secrets.token_bytes(INCARNATION_BYTES))
        report = salvage(self.path, identity, incarnation, outbox_bytes, time.time_ns(), moves)
        remove_durably(self.beside("-suspect"))
        return report

    # -- restored copies ----------------------------------------------------------------------------------------------

    def _renew_if_restored(self, store: SqliteStore, unread: int) -> FallBack | None:
        """Begin another incarnation if the state is a copy or has lost commits; return what was lost with these."""
        said = store.high_water.said()

        def is_sound() -> bool:
            return self._is_marked(store) and unread <= 1 and not store.high_water.is_behind(said)

        if said is not None and is_sound():
            return None
        with store.transaction():
            lost = None if is_sound() else self._renew(store, said, unread)  # another process was quicker
            store.high_water.begin()
        self._remove_other_marks(store)
        return lost

    def _renew(self, store: SqliteStore, said: HighWaterMark | None, unread: int) -> FallBack | None:
        incarnation = Incarnation(secrets.token_bytes(INCARNATION_BYTES))
        was_marked, lost = store.device.mark() is not None, None
        if was_marked and not self._is_marked(store):
            store.counters.count("restored_states")
        if store.high_water.is_behind(said):
            lost = store.high_water.recover(said, incarnation)
        elif was_marked:
            store.incarnations.renew(incarnation)
        commits = max(unread if unread > 1 else 0, lost.commits if lost else 0)
        if commits:
            store.counters.count("unreadable_commits", commits)
        store.device.set_mark(self._mark().make())
        return lost

    def change_mark(self, store: SqliteStore) -> None:
        """Make earlier copies of the file show: the agent's start and end. A disk that refuses leaves it as it is."""
        try:
            with store.transaction():
                store.device.set_mark(self._mark().make())
            self._remove_other_marks(store)
        except DamagedStateError:
            raise
        except StorageError:
            return

    def _is_marked(self, store: SqliteStore) -> bool:
        mark = store.device.mark()
        return mark is not None and self._mark().holds(mark)

    def _remove_other_marks(self, store: SqliteStore) -> None:
        with store.transaction():
            self._mark().remove_others(store.device.mark() or b"")

    def _mark(self) -> CopyMark:
        return CopyMark(self.path)
