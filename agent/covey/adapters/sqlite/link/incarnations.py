"""Which incarnation each part of a recipient's queue belongs to (`core/link/incarnations.py`)."""

from __future__ import annotations

from covey.adapters.sqlite.counters import Counters
from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.link.outbox_growth import OutboxGrowth
from covey.adapters.sqlite.rows import OF_PEER, PLACE_BITS
from covey.core.history.operation import next_log
from covey.core.ids import DeviceKey, GroupId, Incarnation
from covey.core.link.incarnations import IncarnationSpan
from covey.limits.history import OWN_PAST_US
from covey.limits.link import REPLACE_INCARNATION_US

_SPANS = (
    "SELECT incarnation, span.base, last, incarnation IN (SELECT incarnation FROM rolled_back_incarnation), "
    "0 AS present FROM peer JOIN incarnation_span AS span ON span.peer = peer.id WHERE signing_public = ?1 "
    "UNION ALL SELECT incarnation, base, next_place - 1, 0, 1 FROM peer, device WHERE signing_public = ?1 "
    "ORDER BY present, 2"
)


class Incarnations:
    """The present incarnation of this device, and the earlier ones that something still waits in."""

    def __init__(self, database: Database, counters: Counters, growth: OutboxGrowth) -> None:
        self._database = database
        self._growth = growth
        self._counters = counters
        self._present: Incarnation | None = None
        database.remember(self._forget)

    def present(self) -> Incarnation:
        """Return the 8 bytes of this device's present incarnation."""
        if self._present is None or not self._database.within:
            self._present = Incarnation(bytes(self._database.one("SELECT incarnation FROM device")))
        return self._present

    def of_log(self, group_id: GroupId) -> Incarnation:
        """Return the incarnation that this device's present log of a group's history names."""
        row = self._database.first(
            "SELECT log FROM own_log JOIN device USING (incarnation) WHERE group_id = ?", (group_id,)
        )
        return self.present() if row is None else Incarnation(bytes(row[0]))

    def forget(self, group_id: GroupId) -> None:
        """Write to a group whose history is about to be forgotten in another log from now on.

        Other members keep the log of before: where it has anything, its numbers must not come again.
        """
        log = self.of_log(group_id)
        if self._database.first("SELECT 1 FROM operation_log WHERE group_id = ? AND incarnation = ?", (group_id, log)):
            self._database.run(
                "INSERT OR REPLACE INTO own_log SELECT ?, incarnation, ?, age FROM device",
                (group_id, next_log(group_id, log)),
            )
        else:
            self._database.run(
                "UPDATE own_log SET awaits_since = device.age FROM device "
                "WHERE group_id = ? AND own_log.incarnation = device.incarnation",
                (group_id,),
            )

    def awaits_past(self, group_id: GroupId) -> bool:
        query = "SELECT 1 FROM own_log JOIN device USING (incarnation) WHERE group_id = ? AND age < awaits_since + ?"
        return self._database.first(query, (group_id, OWN_PAST_US)) is not None

    def end_awaiting(self, group_id: GroupId) -> None:
        self._database.run(
            "UPDATE own_log SET awaits_since = NULL WHERE group_id = ? AND awaits_since NOTNULL", (group_id,)
        )

    def _forget(self) -> None:
        self._present = None

    def spans(self, recipient: DeviceKey) -> list[IncarnationSpan]:
        self._growth.write()
        return [IncarnationSpan(*row[:-1]) for row in self._database.run(_SPANS, (recipient,))]

    def renew(self, incarnation: Incarnation) -> None:
        """Begin another incarnation; what waits keeps its own."""
        self._growth.write()
        self._database.run(
            "INSERT INTO incarnation_span SELECT id, (SELECT incarnation FROM device), base, next_place - 1 FROM peer "  # noqa: S608
            f"WHERE EXISTS (SELECT 1 FROM outbox WHERE {OF_PEER} AND outbox.id > peer.id << {PLACE_BITS} | base) "
            "OR EXISTS (SELECT 1 FROM unreported_loss WHERE peer = peer.id AND last > peer.base)"
        )
        self._database.run(
            "DELETE FROM incarnation_span AS span WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.id "  # noqa: S608 - our names
            f"BETWEEN (span.peer << {PLACE_BITS}) + base + 1 AND (span.peer << {PLACE_BITS}) + span.last) "
            "AND NOT EXISTS (SELECT 1 FROM unreported_loss AS loss "
            "WHERE loss.peer = span.peer AND loss.last > base AND first <= span.last)"
        )
        self._database.run(
            "DELETE FROM rolled_back_incarnation WHERE incarnation NOT IN (SELECT incarnation FROM incarnation_span)"
        )
        self._database.run("UPDATE peer SET base = next_place - 1")
        self._database.run("UPDATE device SET incarnation = ?", (incarnation,))
        self._forget()
        self._counters.count("incarnations")

    def replace(self, recipient: DeviceKey, incarnation: Incarnation, now_us: int) -> bool:
        """Begin another incarnation because a recipient has shown that another state used the present one.

        False where the same recipient said so a short time ago: nothing changes.
        """
        replaces = self._database.first(
            "UPDATE peer SET replaced_at = ?1 WHERE signing_public = ?2 "
            "AND ?1 NOT BETWEEN replaced_at AND replaced_at + ?3 RETURNING 1",
            (now_us, recipient, REPLACE_INCARNATION_US),
        )
        if replaces is None:
            return False
        self._database.run("INSERT OR IGNORE INTO rolled_back_incarnation SELECT incarnation FROM device")
        self.renew(incarnation)
        return True
