"""The tables of other devices: when each was last seen, its last report, and silent collectors."""

from __future__ import annotations

from collections.abc import Collection

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, GroupId, Incarnation
from covey.core.link.budget import Budget
from covey.core.link.reported_cost import ReportedCost
from covey.core.membership.agreement import SaidHeads
from covey.core.presence.status import PeerPresence, State

_SEEN_INTERVAL_US = 60_000_000
"""Least interval between writes of when a device was last seen, so that the commits of a busy link stay small."""
_STATES = tuple(State)
"""By their numbers: a fleet's page reads a hundred thousand of them at each look."""
_SEEN = (
    "INSERT INTO last_seen VALUES (?, ?) ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at "
    "WHERE excluded.seen_at NOT BETWEEN seen_at AND seen_at + ?"
)
_PEER_PRESENCE = (
    "SELECT device, counter, state, interval_seconds, connections, since, seen_at, cost_at, cost_today, cost_month, "
    "cost_forecast, budget, budget_monthly FROM peer_presence"
)


def _peer_presence(
    counter: int,
    state: int,
    interval_s: int,
    connections: str,
    since_us: int,
    seen_us: int,
    cost_us: int,
    *reported: int | None,
) -> PeerPresence:
    held = tuple(map(int, connections.split()))
    return PeerPresence(counter, _STATES[state], interval_s, held, since_us, seen_us, _cost(*reported), cost_us)


def _cost(
    today: int | None, month: int | None, forecast: int | None, budget: int | None, monthly: int | None
) -> ReportedCost | None:
    if today is None or month is None:
        return None
    return ReportedCost(today, month, forecast, None if budget is None else Budget(budget, bool(monthly)))


def _cost_row(cost: ReportedCost | None) -> tuple[int | None, ...]:
    if cost is None:
        return (None,) * 5
    budget = (None, None) if cost.budget is None else (cost.budget.bytes, int(cost.budget.monthly))
    return (cost.today, cost.month, cost.forecast, *budget)


def _among(devices: Collection[DeviceKey] | None) -> tuple[str, tuple[DeviceKey, ...]]:
    return ("", ()) if devices is None else (f"WHERE device IN ({', '.join('?' * len(devices))})", tuple(devices))


class PresenceCounters:
    """When other devices were last seen, what they reported, and the counter of this device's own presence."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[DeviceKey, int] = {}
        """Which devices were seen in the open transaction, and when; written at its end."""
        database.remember(self._noted.clear, self._flush)

    def _flush(self) -> None:
        if self._noted:
            rows = [(device, now_us, _SEEN_INTERVAL_US) for device, now_us in sorted(self._noted.items())]
            self._database.run_each(_SEEN, rows)
            self._noted.clear()

    def seen(self, device: DeviceKey, now_us: int) -> None:
        """Note that a device was seen now; written once a minute at most."""
        self._noted.setdefault(device, now_us)
        if not self._database.within:
            self._flush()

    def links_seen(self, since_us: int, limit: int) -> list[tuple[DeviceKey, Incarnation]]:
        """Return (author, incarnation) of the links from who was seen since a time, to a minute; the newest first."""
        self._flush()
        return self._database.run(
            "SELECT author, incarnation FROM last_seen JOIN received ON author = device WHERE seen_at >= ? "
            "ORDER BY seen_at DESC LIMIT ?",
            (since_us - _SEEN_INTERVAL_US, limit),
        )

    def last_seen(self, devices: Collection[DeviceKey] | None = None) -> dict[DeviceKey, int]:
        """Return when each device, or each of some, was last seen, by its signing key, to a minute."""
        where, keys = _among(devices)
        self._flush()
        rows = self._database.run(
            f"SELECT device, max(seen_at) FROM (SELECT device, seen_at FROM last_seen {where} "  # noqa: S608 - ours
            f"UNION ALL SELECT device, seen_at FROM peer_presence {where}) GROUP BY device",
            (*keys, *keys),
        )
        return {DeviceKey(row[0]): row[1] for row in rows}

    def of_peer(self, device: DeviceKey) -> PeerPresence | None:
        rows = self._database.run(f"{_PEER_PRESENCE} WHERE device = ?", (device,))
        return _peer_presence(*rows[0][1:]) if rows else None

    def of_peers(self, devices: Collection[DeviceKey] | None = None) -> dict[DeviceKey, PeerPresence]:
        """Return by signing key what each device, or each of some, has last reported of itself.

        Its times may lag by a minute.
        """
        where, keys = _among(devices)
        rows = self._database.run(f"{_PEER_PRESENCE} {where}", keys)
        return {DeviceKey(row[0]): _peer_presence(*row[1:]) for row in rows}

    def note(self, device: DeviceKey, presence: PeerPresence) -> None:
        connections = " ".join(map(str, presence.connections))
        self._database.run(
            "INSERT OR REPLACE INTO peer_presence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                device,
                presence.counter,
                int(presence.state),
                presence.interval_s,
                connections,
                presence.since_us,
                presence.seen_at_us,
                *_cost_row(presence.cost),
                presence.cost_us,
            ),
        )

    def changed_since(self, at_us: int) -> list[DeviceKey]:
        """Return the devices of which something was noted that is of this time or later."""
        self._flush()
        rows = self._database.run(
            "SELECT device FROM last_seen WHERE seen_at >= ?1 "
            "UNION SELECT device FROM peer_presence WHERE seen_at >= ?1 OR since >= ?1",
            (at_us,),
        )
        return [DeviceKey(row[0]) for row in rows]

    def floor(self) -> int:
        [(floor,)] = self._database.run("SELECT presence_floor FROM device")
        return int(floor)

    def set_floor(self, floor: int) -> None:
        """Raise the counter below which this device's own presence may have been used."""
        self._database.run("UPDATE device SET presence_floor = ?", (floor,))

    def silent_collectors(self) -> set[DeviceKey]:
        return {row[0] for row in self._database.run("SELECT device FROM silent_collector")}

    def set_silent_collector(self, device: DeviceKey, since_us: int | None) -> None:
        if since_us is None:
            self._database.run("DELETE FROM silent_collector WHERE device = ?", (device,))
        else:
            self._database.run("INSERT OR IGNORE INTO silent_collector VALUES (?, ?)", (device, since_us))


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
