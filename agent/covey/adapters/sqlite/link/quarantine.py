"""The table of messages that were set aside for a person to look at."""

from __future__ import annotations

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.queued import Quarantined
from covey.core.wire.message import read_message
from covey.errors import RemoteError
from covey.limits.storage import QUARANTINED_MESSAGES


class Quarantine:
    """Authentic messages that could not be used, or sent; a bounded number."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, code: str, message: bytes, now_us: int, party: DeviceKey, recipient: DeviceKey | None = None) -> None:
        """Keep a message that could not be used, or sent to a recipient.

        `party` is its author, or its recipient. When there are too many, the oldest of the device with the most goes:
        no device hides what others have sent.
        """
        with self._database.leaving_no_copies():
            self._database.run(
                "INSERT INTO quarantine (code, stored_at, message, recipient, party) VALUES (?, ?, ?, ?, ?)",
                (code, now_us, message, recipient, party),
            )
            if self._database.one("SELECT count(*) FROM quarantine") > QUARANTINED_MESSAGES:
                self._database.run(
                    "DELETE FROM quarantine WHERE id = (SELECT min(id) FROM quarantine GROUP BY party "
                    "ORDER BY count(*) DESC, min(id) LIMIT 1)"
                )

    def count(self) -> int:
        """Return how many messages are in quarantine."""
        return int(self._database.one("SELECT count(*) FROM quarantine"))

    def parties(self) -> list[tuple[DeviceKey, int]]:
        """Return of which devices something is in quarantine, and how many messages; the most first."""
        return self._database.run("SELECT party, count(*) FROM quarantine GROUP BY party ORDER BY 2 DESC, 1")

    def kinds(self) -> list[tuple[str, bool, int]]:
        """Return how many messages are in quarantine by code, and by whether they could not be sent."""
        rows = self._database.run("SELECT code, recipient IS NOT NULL, count(*) FROM quarantine GROUP BY 1, 2")
        return [(code, bool(outgoing), messages) for code, outgoing, messages in rows]

    def entries(self) -> list[Quarantined]:
        """Return what is in quarantine, oldest first."""
        return [
            Quarantined(*row)
            for row in self._database.run("SELECT id, code, stored_at, recipient, message FROM quarantine ORDER BY id")
        ]

    def remove(self, identifier: int) -> bool:
        """Forget a message in quarantine; False where there is none of that number."""
        with self._database.leaving_no_copies():
            return bool(self._database.run("DELETE FROM quarantine WHERE id = ? RETURNING id", (identifier,)))

    def forget(self, group_id: GroupId) -> None:
        """Forget the messages of a group: it is erased."""
        for identifier, raw in self._database.run("SELECT id, message FROM quarantine"):
            if _group_of(raw) == group_id:
                self._database.run("DELETE FROM quarantine WHERE id = ?", (identifier,))


def _group_of(raw: bytes) -> GroupId | None:
    try:
        return read_message(raw, verify=False).group_id
    except RemoteError:
        return None
