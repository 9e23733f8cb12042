"""The table of heads: what each device has last said of the groups that it shares with this one."""

from __future__ import annotations

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, GroupId
from covey.core.membership.agreement import SaidHeads

_SEEN_INTERVAL_US = 60_000_000
"""When a device last said the same is written no more often than this: the commits of a busy link stay small."""


class PeerHeads:
    """What each device has said, since when, and when it last did."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, device: DeviceKey, said: GroupId, report: bytes | None, now_us: int) -> None:
        """Keep what a device has said; the last report stays as long as what is said is the same."""
        self._database.run(
            "INSERT INTO peer_heads VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT DO UPDATE SET "
            "since = CASE WHEN digest = ?2 THEN since ELSE ?4 END, "
            "report = CASE WHEN digest = ?2 THEN coalesce(?3, report) ELSE ?3 END, "
            "digest = ?2, seen_at = ?4 "
            "WHERE digest <> ?2 OR coalesce(?3 <> coalesce(report, x''), FALSE) "
            "OR ?4 NOT BETWEEN seen_at AND seen_at + ?5",
            (device, said, report, now_us, _SEEN_INTERVAL_US),
        )

    def seen_at(self) -> dict[DeviceKey, int]:
        return {DeviceKey(row[0]): row[1] for row in self._database.run("SELECT device, seen_at FROM peer_heads")}

    def all(self) -> dict[DeviceKey, SaidHeads]:
        rows = self._database.run("SELECT device, digest, report, since, seen_at FROM peer_heads")
        return {DeviceKey(row[0]): SaidHeads(GroupId(row[1]), *row[2:]) for row in rows}
