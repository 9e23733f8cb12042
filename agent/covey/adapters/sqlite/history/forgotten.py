"""The remains of deleted operations: their ids, authors and parents.

1. Such a row has everything that is ever needed of an operation except its content; for an order also its targets. So
   judging by ancestry gives the same result as before the deletion, and an operation that rests on it is accepted.
2. One statement each way turns an operation into such a row, inside one transaction: it is here, or it is forgotten.
3. Its arrival stays, so later arrivals still come after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from covey.adapters.sqlite.database import Database
from covey.core.history.kinds import TARGETED_KINDS
from covey.core.history.operation import ID_BYTES, Held, Log, OperationShape, Remains, read_operation
from covey.core.ids import DeviceKey, GroupId, Incarnation, ManifestHash, OperationId
from covey.core.orders.target import target_of

_OF_LOG = "FROM forgotten_operation AS gone JOIN forgotten_log AS log ON log.id = gone.log "
_SHAPES = (
    f"SELECT arrival, gone.hash, author, manifest.hash, parents, kind, late, incarnation, length {_OF_LOG}"
    "JOIN forgotten_manifest AS manifest ON manifest.id = manifest"
)


class ForgottenOperations:
    """The operations that are not here any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def held(self, group_id: GroupId, operation_id: OperationId) -> Held | None:
        """Return what is known of one."""
        row = self._database.first(
            f"SELECT height, manifest_version, author, incarnation, number {_OF_LOG}WHERE hash = ? AND group_id = ?",
            (operation_id, group_id),
        )
        return None if row is None else Held(row[0], row[1], Log(row[2], row[3]), row[4])

    def shapes(self, group_id: GroupId) -> Iterator[OperationShape]:
        """Yield what each was and what it followed, each after all that follow it."""
        rows = self._database.each(f"{_SHAPES} WHERE group_id = ? ORDER BY arrival DESC", (group_id,))
        return itertools.starmap(_shape_of, rows)

    def shape(self, group_id: GroupId, operation_id: OperationId) -> OperationShape | None:
        """Return what one was and what it followed."""
        row = self._database.first(f"{_SHAPES} WHERE gone.hash = ? AND group_id = ?", (operation_id, group_id))
        return None if row is None else _shape_of(*row)

    def remains(self, group_id: GroupId) -> Iterator[tuple[int, Remains, None]]:
        """Yield by height and id what remains of each, with its arrival."""
        rows = self._database.each(
            "SELECT arrival, gone.hash, author, incarnation, number, height, manifest.hash, kind, length, parents, "
            f"target {_OF_LOG}JOIN forgotten_manifest AS manifest ON manifest.id = manifest "
            "WHERE group_id = ? ORDER BY height, gone.hash",
            (group_id,),
        )
        for arrival, found, author, incarnation, number, height, manifest, kind, length, parents, target in rows:
            log, is_judged = Log(author, incarnation), kind in TARGETED_KINDS
            place = found, log, number, height, manifest, kind, is_judged, length, parents_of(parents), target
            yield arrival, Remains(*place), None

    def remember(
        self,
        group_id: GroupId,
        remains: Remains,
        manifest_version: int,
        arrival: int,
        frontier: int,
        late: int,
        node: int,
    ) -> None:
        """Keep what remains of an operation that was never here."""
        log, it = self._log_and_manifest(group_id, remains.log, remains.number, remains.manifest), remains
        self._database.run(
            "INSERT INTO forgotten_operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(arrival, it.id, log[0], it.number, it.height, log[1], manifest_version, it.kind, late, it.length),
                *(frontier, node, b"".join(it.parents), it.target),
            ),
        )

    def _log_and_manifest(self, group_id: GroupId, log: Log, number: int, manifest: bytes) -> tuple[int, int]:
        self._database.run("INSERT OR IGNORE INTO forgotten_manifest (hash) VALUES (?)", (manifest,))
        self._database.run(
            "INSERT INTO forgotten_log (group_id, author, incarnation, last) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET last = max(last, excluded.last)",
            (group_id, log.author, log.incarnation, number),
        )
        of_log = "SELECT id FROM forgotten_log WHERE (group_id, author, incarnation) = (?, ?, ?)"
        return (
            self._database.one(of_log, group_id, log.author, log.incarnation),
            self._database.one("SELECT id FROM forgotten_manifest WHERE hash = ?", manifest),
        )

    def ends(self, group_id: GroupId) -> dict[Log, int]:
        """Return by log up to which number operations were forgotten."""
        rows = self._database.run("SELECT author, incarnation, last FROM forgotten_log WHERE group_id = ?", (group_id,))
        return {Log(author, incarnation): last for author, incarnation, last in rows}

    def ids_numbered(self, group_id: GroupId, log: Log, number: int) -> list[OperationId]:
        """Return the operations of a log under one number."""
        rows = self._database.run(
            f"SELECT gone.hash {_OF_LOG}WHERE (group_id, author, incarnation, number) = (?, ?, ?, ?)",
            (group_id, log.author, log.incarnation, number),
        )
        return [row[0] for row in rows]

    def numbered(self, group_id: GroupId, log: Log, number: int) -> int:
        """Return how many operations of a log there are under one number."""
        return len(self.ids_numbered(group_id, log, number))

    def is_continued(self, group_id: GroupId, log: Log, number: int, arrival: int) -> bool:
        """Say whether an operation that came at a place was the one before a forgotten one in its log.

        What was forgotten came after the one before it, and no operation after a fork is forgotten.
        """
        return bool(
            self._database.one(
                f"SELECT EXISTS (SELECT 1 {_OF_LOG}WHERE (group_id, author, incarnation, number) = (?, ?, ?, ?) "
                "AND arrival > ?)",
                *(group_id, log.author, log.incarnation, number + 1, arrival),
            )
        )

    def lengths(self) -> list[tuple[GroupId, Log, int]]:
        """Return how many bytes were forgotten of each log."""
        rows = self._database.run(f"SELECT group_id, author, incarnation, sum(length) {_OF_LOG} GROUP BY log.id")
        return [(group_id, Log(author, incarnation), length) for group_id, author, incarnation, length in rows]

    def last_arrival(self) -> int:
        """Return which one, of any group, was the last to come, 0 where there is none."""
        return self._database.one("SELECT coalesce(max(arrival), 0) FROM forgotten_operation")

    def count(self, group_id: GroupId) -> int:
        """Return how many there are."""
        return self._database.one(f"SELECT count(*) {_OF_LOG} WHERE group_id = ?", group_id)

    def beginning_with(self, group_id: GroupId, first: bytes, last: bytes) -> list[OperationId]:
        """Return the ids between two, both included."""
        rows = self._database.run(
            f"SELECT hash {_OF_LOG} WHERE hash BETWEEN ? AND ? AND group_id = ? ORDER BY hash",
            (first, last, group_id),
        )
        return [row[0] for row in rows]

    def take(self, arrivals: Sequence[int]) -> int:
        """Forget operations, those apart that are the last of their logs, of a fork or next after one; return how many
        (rule 2)."""
        taken = 0
        for arrival in arrivals:
            row = self._database.first(
                "SELECT group_id, author, incarnation, number, raw FROM operation WHERE arrival = ?", (arrival,)
            )
            if row is None:
                continue
            group_id, log, number, raw = row[0], Log(row[1], row[2]), row[3], row[4]
            if not self._is_needed(group_id, log, number):
                self._take_one(arrival, group_id, log, number, raw)
                taken += 1
        return taken

    def _is_needed(self, group_id: GroupId, log: Log, number: int) -> bool:
        of_log = "WHERE (group_id, author, incarnation) = (?1, ?2, ?3)"
        return bool(
            self._database.one(
                f"SELECT (SELECT last FROM operation_log {of_log}) <= ?4 "  # noqa: S608 - our names
                f"OR EXISTS (SELECT 1 FROM operation {of_log} AND number IN (?4 - 1, ?4) "
                "GROUP BY number HAVING count(*) > 1)",
                *(group_id, log.author, log.incarnation, number),
            )
        )

    def _take_one(self, arrival: int, group_id: GroupId, log: Log, number: int, raw: bytes) -> None:
        operation = read_operation(raw, verify=False)
        rows = self._log_and_manifest(group_id, log, number, operation.manifest)
        self._database.run(
            "INSERT INTO forgotten_operation SELECT arrival, hash, ?, number, height, ?, "
            "manifest_version, kind, late, length(raw), frontier, node, ?, ? FROM operation WHERE arrival = ?",
            (*rows, b"".join(operation.parents), target_of(operation), arrival),
        )
        with self._database.overwriting():
            self._database.run("DELETE FROM operation WHERE arrival = ?", (arrival,))

    def forget(self, group_id: GroupId) -> None:
        """Forget that there were any in a group."""
        of_group = "SELECT id FROM forgotten_log WHERE group_id = ?"
        self._database.run(f"DELETE FROM forgotten_operation WHERE log IN ({of_group})", (group_id,))  # noqa: S608
        self._database.run("DELETE FROM forgotten_log WHERE group_id = ?", (group_id,))


def parents_of(raw: bytes) -> tuple[OperationId, ...]:
    """Read the column of that name."""
    return tuple(OperationId(raw[start : start + ID_BYTES]) for start in range(0, len(raw), ID_BYTES))


def _shape_of(
    arrival: int,
    operation_id: OperationId,
    author: DeviceKey,
    manifest: ManifestHash,
    parents: bytes,
    kind: int,
    late: int,
    incarnation: Incarnation,
    length: int,
) -> OperationShape:
    log, place = Log(author, incarnation), (author, manifest, parents_of(parents), kind)
    return OperationShape(arrival, operation_id, *place, bool(late), log=log, length=length)
