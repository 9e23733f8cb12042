"""Who was heard when, and what the outbox is made of: what people ask. Part of `SqliteStore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covey.core.presence.status import PeerPresence, State
from covey.core.records import MessageClass

_HEARD_US = 60_000_000
"""A busy link notes a sign of life no more often than this: it costs its commits no page worth counting."""

_PEER_PRESENCE = "SELECT device, counter, state, interval_seconds, connections, since, heard_at FROM attendance"


def _peer_presence(
    counter: int, state: int, interval_s: int, connections: str, since_us: int, heard_us: int
) -> PeerPresence:
    held = tuple(int(each) for each in connections.split())
    return PeerPresence(counter, State(state), interval_s, held, since_us, heard_us)


class PresenceTables:
    """What `core.records.Records` notes of others' signs of life, and what status and metrics read."""

    _within = False

    def __init__(self) -> None:
        super().__init__()
        self._noted: set[bytes] = set()
        """Who was heard in the open transaction."""

    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        raise NotImplementedError

    def heard(self, device: bytes, now_us: int) -> None:
        """Note a sign of life, once a minute at most."""
        if self._within and device in self._noted:
            return
        self._noted.add(device)
        self._run(
            "INSERT INTO heard VALUES (?, ?) ON CONFLICT DO UPDATE SET heard_at = excluded.heard_at "
            "WHERE excluded.heard_at NOT BETWEEN heard_at AND heard_at + ?",
            (device, now_us, _HEARD_US),
        )

    def links_heard(self, since_us: int, limit: int) -> list[tuple[bytes, bytes]]:
        """Return (author, incarnation) of the links from who was heard since a time, to a minute; the newest first."""
        return self._run(
            "SELECT author, incarnation FROM heard JOIN received ON author = device WHERE heard_at >= ? "
            "ORDER BY heard_at DESC LIMIT ?",
            (since_us - _HEARD_US, limit),
        )

    def last_heard(self) -> dict[bytes, int]:
        """Return when each device was last heard, by its signing key, to a minute."""
        rows = self._run(
            "SELECT device, max(heard_at) FROM (SELECT device, heard_at FROM heard UNION ALL "
            "SELECT device, heard_at FROM attendance) GROUP BY device"
        )
        return {bytes(row[0]): row[1] for row in rows}

    def presence(self, device: bytes) -> PeerPresence | None:
        """Return what a device has last told of itself."""
        rows = self._run(f"{_PEER_PRESENCE} WHERE device = ?", (device,))
        return _peer_presence(*rows[0][1:]) if rows else None

    def presences(self) -> dict[bytes, PeerPresence]:
        """Return what each device has last told of itself, as far as it is written: to a minute."""
        return {bytes(row[0]): _peer_presence(*row[1:]) for row in self._run(_PEER_PRESENCE)}

    def note_presence(self, device: bytes, told: PeerPresence) -> None:
        """Keep what a device has told of itself."""
        connections = " ".join(map(str, told.connections))
        self._run(
            "INSERT OR REPLACE INTO attendance VALUES (?, ?, ?, ?, ?, ?, ?)",
            (device, told.counter, int(told.state), told.interval_s, connections, told.since_us, told.heard_at_us),
        )

    def presence_floor(self) -> int:
        """Return below which counters of this device's own presence may have been used."""
        [(floor,)] = self._run("SELECT presence_floor FROM device")
        return int(floor)

    def set_presence_floor(self, floor: int) -> None:
        """Raise that: all below may be used now."""
        self._run("UPDATE device SET presence_floor = ?", (floor,))

    def bytes_by_class(self) -> dict[MessageClass, int]:
        """Return the outbox's bytes of each class."""
        [row] = self._run("SELECT control_bytes, data_bytes, telemetry_bytes FROM device")
        return dict(zip(MessageClass, row, strict=True))
