"""The tables of boards: which device carries for which board, and what hangs on this machine's ports."""

from __future__ import annotations

import json

from covey.adapters.sqlite.database import Database
from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey
from covey.ports import AttachedBoard


class Carriers:
    """Which gateway carries for which board."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, device: DeviceKey) -> DeviceKey | None:
        """Return the device that carries for another one."""
        rows = self._database.run("SELECT carrier FROM carrier WHERE device = ?", (device,))
        return DeviceKey(rows[0][0]) if rows else None

    def all(self) -> dict[DeviceKey, DeviceKey]:
        """Return the devices that are carried for, each with who does it."""
        return {
            DeviceKey(row[0]): DeviceKey(row[1]) for row in self._database.run("SELECT device, carrier FROM carrier")
        }

    def set(self, device: DeviceKey, carrier: DeviceKey) -> None:
        """Remember who carries for a device."""
        self._database.run("INSERT OR REPLACE INTO carrier VALUES (?, ?)", (device, carrier))


class Boards:
    """The boards on this machine's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[AttachedBoard]:
        """Return the boards that have been seen, by port."""
        return [
            AttachedBoard(
                port, DeviceKeys(signing, noise), software, bool(enrolled), bool(up), at_us, json.loads(counts), trouble
            )
            for port, signing, noise, software, enrolled, up, at_us, counts, trouble in self._database.run(
                "SELECT port, signing_public, noise_public, software, enrolled, up, changed_at, statistics, trouble "
                "FROM board ORDER BY port"
            )
        ]

    def note(self, board: AttachedBoard) -> None:
        """Remember who is on a port; a wish to restart stays."""
        self._database.run(
            "INSERT INTO board "
            "(port, signing_public, noise_public, software, enrolled, up, changed_at, statistics, trouble) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "signing_public = excluded.signing_public, noise_public = excluded.noise_public, "
            "software = excluded.software, enrolled = excluded.enrolled, up = excluded.up, "
            "changed_at = excluded.changed_at, statistics = excluded.statistics, trouble = excluded.trouble",
            (
                board.port,
                board.keys.signing_public,
                board.keys.noise_public,
                board.software,
                board.enrolled,
                board.up,
                board.changed_at_us,
                json.dumps(board.statistics),
                board.trouble,
            ),
        )

    def forget(self, port: str) -> None:
        """Forget who was on a port."""
        self._database.run("DELETE FROM board WHERE port = ?", (port,))

    def want_restart(self, port: str) -> None:
        """Ask the agent to restart the board on a port."""
        self._database.run("UPDATE board SET restart = 1 WHERE port = ?", (port,))

    def restarts_wanted(self) -> list[str]:
        """Return the ports whose boards somebody wants restarted."""
        return [row[0] for row in self._database.run("SELECT port FROM board WHERE restart = 1")]

    def restart_done(self, port: str) -> None:
        """Note that the board on a port was restarted."""
        self._database.run("UPDATE board SET restart = 0 WHERE port = ?", (port,))
