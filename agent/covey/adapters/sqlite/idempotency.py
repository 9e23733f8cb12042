"""The table of requests that named a key: what each was, and what came of it."""

from __future__ import annotations

from covey.adapters.sqlite.database import Database
from covey.limits.storage import IDEMPOTENCY_KEYS


class Idempotency:
    """The latest of these requests; a bounded number."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key: str) -> tuple[bytes, int] | None:
        """Return (digest, result) of the request that named a key."""
        row = self._database.first("SELECT digest, result FROM idempotency WHERE key = ?", (key,))
        return None if row is None else (row[0], row[1])

    def keep(self, key: str, digest: bytes, result: int) -> None:
        """Keep what came of a request; the oldest go when there are too many."""
        self._database.run("INSERT INTO idempotency (key, digest, result) VALUES (?, ?, ?)", (key, digest, result))
        self._database.run(
            "DELETE FROM idempotency WHERE id <= (SELECT max(id) FROM idempotency) - ?", (IDEMPOTENCY_KEYS,)
        )
