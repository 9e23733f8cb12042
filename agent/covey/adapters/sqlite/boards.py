"""The tables of boards: who carries for whom, and what hangs on this machine's ports. Part of `SqliteStore`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from covey.core.crypto import DeviceKeys
from covey.ports import AttachedBoard


class BoardTables:
    """What `core.records.Records` and the bridge ask about boards."""

    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        raise NotImplementedError

    def carrier(self, device: bytes) -> bytes | None:
        """Return the device that carries for another one."""
        rows = self._run("SELECT carrier FROM carrier WHERE device = ?", (device,))
        return bytes(rows[0][0]) if rows else None

    def set_carrier(self, device: bytes, carrier: bytes) -> None:
        """Remember who carries for a device."""
        self._run("INSERT OR REPLACE INTO carrier VALUES (?, ?)", (device, carrier))

    def boards(self) -> list[AttachedBoard]:
        """Return the boards that have been seen, by port."""
        return [
            AttachedBoard(
                row[0], DeviceKeys(row[1], row[2]), row[3], bool(row[4]), bool(row[5]), row[6], json.loads(row[7])
            )
            for row in self._run(
                "SELECT port, signing_public, noise_public, software, enrolled, up, changed_at, statistics "
                "FROM board ORDER BY port"
            )
        ]

    def note_board(self, board: AttachedBoard) -> None:
        """Remember who is on a port; a wish to restart stays."""
        self._run(
            "INSERT INTO board VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT DO UPDATE SET "
            "signing_public = excluded.signing_public, noise_public = excluded.noise_public, "
            "software = excluded.software, enrolled = excluded.enrolled, up = excluded.up, "
            "changed_at = excluded.changed_at, statistics = excluded.statistics",
            (
                board.port,
                board.keys.signing_public,
                board.keys.noise_public,
                board.software,
                board.enrolled,
                board.up,
                board.changed_at_us,
                json.dumps(board.statistics),
            ),
        )

    def want_restart(self, port: str) -> None:
        """Ask the agent to restart the board on a port."""
        self._run("UPDATE board SET restart = 1 WHERE port = ?", (port,))

    def restarts_wanted(self) -> list[str]:
        """Return the ports whose boards somebody wants restarted."""
        return [row[0] for row in self._run("SELECT port FROM board WHERE restart = 1")]

    def restart_done(self, port: str) -> None:
        """Forget that wish."""
        self._run("UPDATE board SET restart = 0 WHERE port = ?", (port,))
