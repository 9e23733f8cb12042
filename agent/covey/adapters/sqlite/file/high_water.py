"""The high-water mark of a state: counted in the database, copied to a file, and compared at each start.

A write-ahead log that ends early at a commit's end looks sound: SQLite starts there, as if nothing had followed. But
the file next to the database (`high_water_file.py`) was written after that commit. If the database is behind it, later
commits are lost. Rules:

    1. The file's counts were committed: a database that is read after it is behind only if it has lost commits.
    2. A state that is behind continues in another incarnation, with numbers after all that were ever used.
    3. The places between are noted as lost, each in its incarnation: loss records report them to recipients, as after
       any damage. Messages that arrived nevertheless count as received there.
    4. The file stays unchanged: a disk may lose the commit that notes all this, too. Row ids may change; then a
       recipient has two records, and the further one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.file.high_water_file import HighWaterFile, HighWaterMark, QueueEnd
from covey.adapters.sqlite.link.incarnations import Incarnations
from covey.adapters.sqlite.link.losses import Losses
from covey.core.ids import BatchNumber, DeviceKey, Incarnation, Place
from covey.core.link.incarnations import Gone
from covey.core.wire.message import LossReason
from covey.limits.storage import HIGH_WATER_AHEAD

_DEVICE = "commits, next_seq, next_batch"
_END = "SELECT id, base, next_place FROM peer WHERE signing_public = ?"


@dataclass(frozen=True, slots=True)
class FallBack:
    """What a state has lost: commits, and messages that they had queued (some of which may have come, or expired)."""

    commits: int
    messages: int

    def line(self) -> str:
        """Return it for people."""
        return (
            f"the state has lost its last {self.commits} commit{'' if self.commits == 1 else 's'}, and with them "
            f"{self.messages} queued message{'' if self.messages == 1 else 's'}: their recipients are notified"
        )


class HighWater:
    """Counts commits, and has the file say how far each has brought the state."""

    def __init__(
        self, database: Database, incarnations: Incarnations, losses: Losses, file: HighWaterFile | None
    ) -> None:
        self._database = database
        self._incarnations = incarnations
        self._losses = losses
        self._file = file
        self._changes_before = 0
        self._grown: set[DeviceKey] = set()
        self._unsaid: dict[int, QueueEnd] = {}
        """Queues whose ends the file does not say yet: another process wrote it."""
        database.remember(self._forget)
        database.before_commit(self._count)

    def queue_grew(self, recipient: DeviceKey) -> None:
        """Have the file say of a recipient's queue, after the commit, how far it has come."""
        self._grown.add(recipient)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    # -- each commit --------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._changes_before = self._database.connection.total_changes
        self._grown.clear()

    def _count(self) -> None:
        if self._database.connection.total_changes == self._changes_before:
            return
        lineage, incarnation, commits, next_seq, next_batch = self._database.first(
            f"UPDATE device SET commits = commits + 1 RETURNING lineage, incarnation, {_DEVICE}"  # noqa: S608
        )
        if lineage is None or self._file is None:
            return
        queues = {}
        for recipient in self._grown:
            number, base, next_place = self._database.first(_END, (recipient,))
            queues[number] = QueueEnd(recipient, incarnation, base, next_place)
        mark = HighWaterMark(commits, next_seq, next_batch, queues)
        self._database.after_commit(lambda: self._say(lineage, mark))

    def _say(self, lineage: bytes, mark: HighWaterMark) -> None:
        assert self._file is not None
        self._unsaid |= mark.queues
        if self._file.write(lineage, HighWaterMark(mark.commits, mark.next_seq, mark.next_batch, self._unsaid)):
            self._unsaid = {}

    # -- each start ---------------------------------------------------------------------------------------------------

    def said(self) -> HighWaterMark | None:
        """Return what the file says of this database, before it is looked at (rule 1); None: nothing to believe."""
        row = self._database.first("SELECT lineage FROM device")
        if self._file is None or row is None or row[0] is None:
            return None
        said = self._file.read(row[0])
        if said is not None and max(self._ahead(said)) > HIGH_WATER_AHEAD:
            self._file.clear()
            return None
        return said

    def is_behind(self, said: HighWaterMark | None) -> TypeGuard[HighWaterMark]:
        """Say whether the database lacks something of what the file says."""
        return said is not None and (max(self._ahead(said)) > 0 or any(True for _ in self._lost_runs(said)))

    def _ahead(self, said: HighWaterMark) -> list[int]:
        here = self._database.first(f"SELECT {_DEVICE} FROM device")  # noqa: S608 - our names
        return [there - number for there, number in zip(_numbers(said), here, strict=True)]

    def begin(self) -> None:
        """Have the file say all that there is, after the commit. Writes, so inside a transaction."""
        self._database.run("UPDATE device SET lineage = coalesce(lineage, randomblob(8))")
        self._grown |= {row[0] for row in self._database.run("SELECT signing_public FROM peer")}

    def recover(self, said: HighWaterMark, incarnation: Incarnation) -> FallBack:
        """Go on behind what was lost, in another incarnation, and note what is to be told (rules 2 and 3).

        Writes, so inside a transaction; only where the database is behind. The file is to `begin`.
        """
        present = self._incarnations.present()
        commits, _, next_batch = self._database.first(f"SELECT {_DEVICE} FROM device")  # noqa: S608 - our names
        lost = list(self._lost_runs(said))
        messages, batches = sum(each.messages for each in lost), said.next_batch - next_batch
        number = BatchNumber(next_batch) if len(lost) == 1 and messages == batches else None  # all of them were
        for each in lost:
            if each.incarnation == present:
                self._lose(each, number)
        self._incarnations.renew(incarnation)
        for each in lost:
            if each.incarnation != present:
                self._lose(each, number)
                self._end(each)
        self._database.run(
            "UPDATE device SET commits = max(commits, ?), next_seq = max(next_seq, ?), next_batch = max(next_batch, ?)",
            _numbers(said),
        )
        return FallBack(max(0, said.commits - commits), messages)

    def _lost_runs(self, said: HighWaterMark) -> Iterator[_LostRun]:
        present = self._incarnations.present()
        here = dict(self._database.run("SELECT signing_public, next_place FROM peer"))
        ends = sorted(said.queues.values(), key=lambda end: end.next_place)
        for end in {each.recipient: each for each in ends}.values():
            first = here.get(end.recipient, 1)
            if end.next_place - first > HIGH_WATER_AHEAD:
                continue
            if end.incarnation != present and first <= end.base:
                yield _LostRun(end.recipient, present, 0, first, end.base)
                first = end.base + 1
            if first < end.next_place:
                yield _LostRun(end.recipient, end.incarnation, end.base, first, end.next_place - 1)

    def _lose(self, run: _LostRun, number: BatchNumber | None) -> None:
        """Let a queue go on behind what is lost, and note that."""
        self._database.run(
            "INSERT INTO peer (signing_public, next_place) VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET next_place = excluded.next_place",
            (run.recipient, run.last + 1),
        )
        gone = Gone(Place(run.first), Place(run.last), LossReason.DAMAGED, number)
        self._losses.note_runs(run.recipient, [gone])

    def _end(self, run: _LostRun) -> None:
        self._database.run(
            "INSERT INTO incarnation_span SELECT id, ?, ?, ? FROM peer WHERE signing_public = ? "
            "ON CONFLICT DO UPDATE SET last = excluded.last",
            (run.incarnation, run.base, run.last, run.recipient),
        )
        self._database.run("UPDATE peer SET base = next_place - 1 WHERE signing_public = ?", (run.recipient,))


@dataclass(frozen=True, slots=True)
class _LostRun:
    """Places of a queue, both included; `base` is the place before the first of their incarnation, if not present."""

    recipient: DeviceKey
    incarnation: Incarnation
    base: int
    first: int
    last: int

    @property
    def messages(self) -> int:
        """Return how many messages those were."""
        return self.last - self.first + 1


def _numbers(mark: HighWaterMark) -> tuple[int, int, int]:
    return mark.commits, mark.next_seq, mark.next_batch
