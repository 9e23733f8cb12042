"""The table of losses: places of queues whose messages are gone, until loss records have reported them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.link.outbox_growth import OutboxGrowth
from covey.adapters.sqlite.rows import PLACE_BITS, extend, read_ranges, written_ranges
from covey.core.ids import BatchNumber, DeviceKey, Place
from covey.core.link.incarnations import Gone
from covey.core.wire.message import LossReason
from covey.core.wire.sequences import Range
from covey.limits.link import MAXIMUM_LOSS_RANGES

_REPORTED_AT_ONCE = 16 * MAXIMUM_LOSS_RANGES
"""Runs of places that are reported at a time; the others with the next occasion."""

_PEER = "(SELECT id FROM peer WHERE signing_public = ?)"


class Losses:
    """What is gone of each recipient's queue and no loss record has reported yet."""

    def __init__(self, database: Database, growth: OutboxGrowth) -> None:
        self._database = database
        self._growth = growth

    def recipients(self) -> list[DeviceKey]:
        query = "SELECT signing_public FROM peer WHERE id IN (SELECT peer FROM unreported_loss)"
        return [row[0] for row in self._database.run(query)]

    def unreported(self, recipient: DeviceKey) -> list[Gone]:
        """Return what is gone and not reported yet; nothing as long as an earlier record waits for the recipient."""
        return [
            Gone(first, last, LossReason(reason), number, read_ranges(numbers))
            for first, last, reason, number, numbers in self._database.run(
                "SELECT first, last, reason, number, numbers FROM unreported_loss "  # noqa: S608
                "JOIN peer ON peer.id = unreported_loss.peer "
                f"WHERE signing_public = ? AND NOT EXISTS (SELECT 1 FROM outbox WHERE "
                f"outbox.id = peer.id << {PLACE_BITS} | reported_place) ORDER BY first LIMIT ?",
                (recipient, _REPORTED_AT_ONCE),
            )
        ]

    def reported(self, recipient: DeviceKey, last_place: Place) -> None:
        self._database.run(f"DELETE FROM unreported_loss WHERE peer = {_PEER} AND last <= ?", (recipient, last_place))  # noqa: S608
        self._growth.write()
        self._database.run("UPDATE peer SET reported_place = next_place - 1 WHERE signing_public = ?", (recipient,))

    def note(
        self, recipient: DeviceKey, reason: LossReason, rows: Sequence[tuple[Place, BatchNumber | None, str | None]]
    ) -> list[Range]:
        """Note (place, number, numbers) of what will never come, ascending; return the places' ranges."""
        runs: list[Gone] = []
        for place, number, numbers in rows:
            gone = Gone(place, place, reason, number, read_ranges(numbers))
            if runs and _continues(runs[-1], gone):
                runs[-1] = replace(runs[-1], last=place)
            else:
                runs.append(gone)
        self.note_runs(recipient, runs)
        ranges: list[Range] = []
        for run in runs:
            extend(ranges, run.first, run.last)
        return ranges

    def note_runs(self, recipient: DeviceKey, runs: Sequence[Gone]) -> None:
        """Note runs of places that will never come, ascending."""
        peer = self._database.one("SELECT id FROM peer WHERE signing_public = ?", recipient)
        for run in runs:
            query = "SELECT first, number, numbers FROM unreported_loss WHERE peer = ? AND last = ? AND reason = ?"
            before = self._database.first(query, (peer, run.first - 1, run.reason))
            if before is not None:
                known = Gone(before[0], Place(run.first - 1), run.reason, before[1], read_ranges(before[2]))
                if _continues(known, run):
                    query = "UPDATE unreported_loss SET last = ? WHERE peer = ? AND first = ?"
                    self._database.run(query, (run.last, peer, known.first))
                    continue
            self._database.run(
                "INSERT INTO unreported_loss VALUES (?, ?, ?, ?, ?, ?)",
                (peer, run.first, run.last, run.reason, run.number, written_ranges(run.numbers)),
            )

    def forget(self, recipient: DeviceKey) -> None:
        """Forget what is gone of a recipient's queue: no loss record names it."""
        self._database.run(f"DELETE FROM unreported_loss WHERE peer = {_PEER}", (recipient,))  # noqa: S608 - our names


def _continues(run: Gone, gone: Gone) -> bool:
    following = None if run.number is None else run.number + gone.first - run.first
    return gone.first == run.last + 1 and gone.number == following and not (run.numbers or gone.numbers)
