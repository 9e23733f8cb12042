"""Who was heard when, and what the outbox is made of: what people ask. Part of `SqliteStore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.core.records import MessageClass

_HEARD_US = 60_000_000
"""A busy link notes a sign of life no more often than this: it costs its commits no page worth counting."""


class PresenceTables:
    """What `core.records.Records` notes of others' signs of life, and what status and metrics read."""

    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        raise NotImplementedError

    def heard(self, device: bytes, now_us: int) -> None:
        """Note a sign of life, once a minute at most."""
        self._run(
            "INSERT INTO heard VALUES (?, ?) ON CONFLICT DO UPDATE SET heard_at = excluded.heard_at "
            "WHERE excluded.heard_at NOT BETWEEN heard_at AND heard_at + ?",
            (device, now_us, _HEARD_US),
        )

    def last_heard(self) -> dict[bytes, int]:
        """Return when each device was last heard, by its signing key, to a minute."""
        return {bytes(row[0]): row[1] for row in self._run("SELECT device, heard_at FROM heard")}

    def bytes_by_class(self) -> dict[MessageClass, int]:
        """Return the outbox's bytes of each class."""
        [row] = self._run("SELECT control_bytes, data_bytes, telemetry_bytes FROM device")
        return dict(zip(MessageClass, row, strict=True))
