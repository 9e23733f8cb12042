"""The tables of groups: manifests, secrets, votes, and whom to tell of a removal. Part of `SqliteStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from covey.adapters.sqlite.outbox import OF_PEER, OLDEST
from covey.core.group.manifest import manifest_hash
from covey.core.records import MessageClass
from covey.errors import DamagedStateError
from covey.limits import MAXIMUM_EARLY_MANIFESTS, MAXIMUM_MEMBERS

_OPEN, _EARLY, _SETTLED = 0, 1, 2


class GroupTables(ABC):
    """What `core.records.Records` asks about groups."""

    @abstractmethod
    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Execute a statement and return its rows."""

    def manifests(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (group_id, hash, manifest) of what is open, by group, version and hash."""
        rows = self._run(
            "SELECT group_id, hash, raw FROM group_manifest WHERE state = ? ORDER BY group_id, version, hash", (_OPEN,)
        )
        if any(manifest_hash(raw) != stored for _, stored, raw in rows):
            raise DamagedStateError("a group manifest in the state database is not what was written")
        return rows

    def manifests_from(self, group_id: bytes, version: int) -> list[bytes]:
        """Return every accepted manifest of a group from a version on, by version and hash."""
        return [
            row[0]
            for row in self._run(
                "SELECT raw FROM group_manifest WHERE group_id = ? AND version >= ? AND state <> ? "
                "ORDER BY version, hash",
                (group_id, version, _EARLY),
            )
        ]

    def has_manifest(self, group_id: bytes, manifest_hash: bytes) -> bool:
        """Say whether a manifest was accepted before."""
        return bool(
            self._run(
                "SELECT 1 FROM group_manifest WHERE group_id = ? AND hash = ? AND state <> ?",
                (group_id, manifest_hash, _EARLY),
            )
        )

    def save_manifest(self, group_id: bytes, manifest_hash: bytes, version: int, raw: bytes, now_us: int) -> None:
        """Keep an accepted manifest for good."""
        self._run(
            "INSERT INTO group_manifest VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET state = excluded.state, stored_at = excluded.stored_at",
            (group_id, version, manifest_hash, _OPEN, raw, now_us),
        )

    def settle_manifests(self, group_id: bytes, version: int) -> None:
        """Note that everything below a version is followed by everything else."""
        self._run(
            "UPDATE group_manifest SET state = ? WHERE group_id = ? AND version < ? AND state = ?",
            (_SETTLED, group_id, version, _OPEN),
        )

    def reopen_manifests(self, group_id: bytes, version: int) -> None:
        """Note that what is at or above a version may have rivals."""
        self._run(
            "UPDATE group_manifest SET state = ? WHERE group_id = ? AND version >= ? AND state = ?",
            (_OPEN, group_id, version, _SETTLED),
        )

    def keep_early_manifest(self, group_id: bytes, manifest_hash: bytes, version: int, raw: bytes) -> None:
        """Keep a manifest that follows something unknown: a bounded number for each group, the lowest versions."""
        self._run(
            "INSERT OR IGNORE INTO group_manifest VALUES (?, ?, ?, ?, ?, 0)",
            (group_id, version, manifest_hash, _EARLY, raw),
        )
        self._run(
            "DELETE FROM group_manifest WHERE group_id = ?1 AND state = ?2 AND hash NOT IN ("
            "SELECT hash FROM group_manifest WHERE group_id = ?1 AND state = ?2 ORDER BY version, hash LIMIT ?3)",
            (group_id, _EARLY, MAXIMUM_EARLY_MANIFESTS),
        )

    def early_manifests(self, group_id: bytes) -> list[bytes]:
        """Return the manifests that follow something unknown."""
        return [
            row[0]
            for row in self._run(
                "SELECT raw FROM group_manifest WHERE group_id = ? AND state = ? ORDER BY version", (group_id, _EARLY)
            )
        ]

    def drop_early_manifest(self, group_id: bytes, manifest_hash: bytes) -> None:
        """Forget one of them."""
        self._run(
            "DELETE FROM group_manifest WHERE group_id = ? AND hash = ? AND state = ?",
            (group_id, manifest_hash, _EARLY),
        )

    def save_secret(self, group_id: bytes, epoch_id: bytes, secret: bytes, now_us: int) -> None:
        """Keep an epoch's secret."""
        self._run("INSERT OR IGNORE INTO epoch_secret VALUES (?, ?, ?, ?)", (group_id, epoch_id, secret, now_us))

    def secret(self, group_id: bytes, epoch_id: bytes) -> bytes | None:
        """Return an epoch's secret."""
        rows = self._run("SELECT secret FROM epoch_secret WHERE group_id = ? AND epoch_id = ?", (group_id, epoch_id))
        return bytes(rows[0][0]) if rows else None

    def forget_group(self, group_id: bytes) -> None:
        """Forget a group's manifests and secrets, and overwrite them."""
        self._run("PRAGMA secure_delete = ON")
        self._run("DELETE FROM group_manifest WHERE group_id = ?", (group_id,))
        self._run("DELETE FROM epoch_secret WHERE group_id = ?", (group_id,))
        self._run("DELETE FROM vote WHERE group_id = ?", (group_id,))
        self._run("PRAGMA secure_delete = FAST")

    def votes(self, group_id: bytes) -> list[bytes]:
        """Return votes about a group's members that have not decided yet."""
        return [row[0] for row in self._run("SELECT raw FROM vote WHERE group_id = ? ORDER BY raw", (group_id,))]

    def save_vote(self, group_id: bytes, raw: bytes) -> None:
        """Keep a vote; a bounded number for each group."""
        self._run(
            "INSERT OR IGNORE INTO vote SELECT ?1, ?2 WHERE (SELECT count(*) FROM vote WHERE group_id = ?1) < ?3",
            (group_id, raw, MAXIMUM_MEMBERS),
        )

    def drop_vote(self, group_id: bytes, raw: bytes) -> None:
        """Forget a vote."""
        self._run("DELETE FROM vote WHERE group_id = ? AND raw = ?", (group_id, raw))

    def revocations(self) -> list[tuple[bytes, int]]:
        """Return (group_id, noted at) of groups that are being destroyed."""
        return self._run("SELECT group_id, noted_at FROM revocation")

    def note_revocation(self, group_id: bytes, raw: bytes, now_us: int) -> None:
        """Note that a group is being destroyed."""
        self._run("INSERT OR IGNORE INTO revocation VALUES (?, ?, ?)", (group_id, raw, now_us))

    def end_revocation(self, group_id: bytes) -> None:
        """Forget that, with the group."""
        self._run("DELETE FROM revocation WHERE group_id = ?", (group_id,))
        self.forget_group(group_id)

    def departures(self) -> list[tuple[bytes, bytes]]:
        """Return (signing key, noise key) of removed devices that still have to be told."""
        return self._run("SELECT signing_public, noise_public FROM farewell")

    def departures_due(self, before_us: int) -> list[bytes]:
        """Return the devices of departures for which nothing waits, or the oldest message was queued before a time."""
        return [
            row[0]
            for row in self._run(
                "SELECT farewell.signing_public FROM farewell LEFT JOIN peer USING (signing_public) "  # noqa: S608
                f"WHERE coalesce(queued_messages, 0) = 0 OR ({OLDEST}) < ?",
                (before_us,),
            )
        ]

    def note_departure(self, signing_public: bytes, noise_public: bytes) -> None:
        """Keep the address of a device that was removed."""
        self._run("INSERT OR REPLACE INTO farewell VALUES (?, ?)", (signing_public, noise_public))

    def end_departure(self, signing_public: bytes) -> None:
        """Forget that address."""
        self._run("DELETE FROM farewell WHERE signing_public = ?", (signing_public,))

    def control_waits(self) -> bool:
        """Say whether any control message waits for an acknowledgement."""
        return bool(self._run("SELECT 1 FROM device WHERE control_bytes > 0"))

    def control_messages(self, recipient: bytes) -> list[tuple[int, bytes]]:
        """Return (link_seq, message) of the control messages that wait for a recipient."""
        return self._run(
            f"SELECT link_seq, message FROM peer JOIN outbox ON {OF_PEER} "  # noqa: S608 - our names
            "WHERE signing_public = ? AND class = ? ORDER BY outbox.id",
            (recipient, MessageClass.CONTROL),
        )
