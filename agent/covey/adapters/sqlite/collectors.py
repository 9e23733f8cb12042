"""Which collectors are silent, and what went another way than the relay's. Part of `SqliteStore`."""

from __future__ import annotations

from covey.adapters.sqlite.outbox import OutboxTables


class CollectingTables(OutboxTables):
    """What `core.records.Records` notes of collectors."""

    def silent_collectors(self) -> set[bytes]:
        """Return the collectors that new telemetry does not go to."""
        return {row[0] for row in self._run("SELECT device FROM silent_collector")}

    def set_silent(self, device: bytes, since_us: int | None) -> None:
        """Note that a collector is silent, or, with None, that it is not."""
        if since_us is None:
            self._run("DELETE FROM silent_collector WHERE device = ?", (device,))
        else:
            self._run("INSERT OR IGNORE INTO silent_collector VALUES (?, ?)", (device, since_us))

    def recipients_of_batches(self) -> set[bytes]:
        """Return the recipients whose queues may hold telemetry of this device."""
        query = "SELECT signing_public FROM peer WHERE queued_messages > 0 AND holds_batches"
        return {row[0] for row in self._run(query)}

    def holds_no_batches(self, recipient: bytes) -> None:
        """Note that a queue has been looked through and holds none, until one is queued."""
        self._run("UPDATE peer SET holds_batches = 0 WHERE signing_public = ?", (recipient,))

    def moved(self, recipient: bytes, place: int) -> None:
        """Forget a place of a queue whose message goes another way: nothing of it is lost, and nothing told."""
        self._drop(recipient, place, place)
