"""The tables of groups: manifests, secrets, invites, joins, and whom to tell of a removal. Part of `SqliteStore`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from agent.core.crypto import DeviceKeys
from agent.core.limits import MAXIMUM_EARLY_MANIFESTS, MAXIMUM_MEMBERS
from agent.core.records import MessageClass, OpenInvite, PendingJoin

_OPEN, _EARLY, _SETTLED = 0, 1, 2

_INVITE_MEMORY_US = 86_400_000_000
"""A used invite is remembered for a day, so that a joiner's repeated request is answered again."""


class GroupTables(ABC):
    """What `core.records.Records` asks about groups."""

    @abstractmethod
    def _run(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Execute a statement and return its rows."""

    @abstractmethod
    def _forgotten(self, recipient: bytes, rows: int, size: int) -> None:
        """Take messages out of the totals."""

    def manifests(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (group_id, hash, manifest) of what is open, by group, version and hash."""
        return self._run(
            "SELECT group_id, hash, raw FROM group_manifest WHERE state = ? ORDER BY group_id, version, hash", (_OPEN,)
        )

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
        """Forget a group's manifests and secrets."""
        self._run("DELETE FROM group_manifest WHERE group_id = ?", (group_id,))
        self._run("DELETE FROM epoch_secret WHERE group_id = ?", (group_id,))
        self._run("DELETE FROM vote WHERE group_id = ?", (group_id,))

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

    def farewells(self) -> list[tuple[bytes, bytes]]:
        """Return (signing key, noise key) of removed devices that still have to be told."""
        return self._run("SELECT signing_public, noise_public FROM farewell")

    def say_farewell(self, signing_public: bytes, noise_public: bytes) -> None:
        """Keep the address of a device that was removed."""
        self._run("INSERT OR REPLACE INTO farewell VALUES (?, ?)", (signing_public, noise_public))

    def end_farewell(self, signing_public: bytes) -> None:
        """Forget that address."""
        self._run("DELETE FROM farewell WHERE signing_public = ?", (signing_public,))

    def withdraw_all(self, recipient: bytes) -> list[tuple[int, int]]:
        """Forget what waits for a recipient, control messages apart; return its ranges of link sequences."""
        rows = self._run(
            "DELETE FROM outbox WHERE peer = (SELECT id FROM peer WHERE signing_public = ?) AND class <> ? "
            "RETURNING link_seq, size",
            (recipient, MessageClass.CONTROL),
        )
        self._forgotten(recipient, len(rows), sum(size for _, size in rows))
        ranges: list[tuple[int, int]] = []
        for link_seq in sorted(link_seq for link_seq, _ in rows):
            if ranges and ranges[-1][1] == link_seq - 1:
                ranges[-1] = (ranges[-1][0], link_seq)
            else:
                ranges.append((link_seq, link_seq))
        return ranges

    # -- invites -------------------------------------------------------------------------------------------------------

    def invites(self) -> list[OpenInvite]:
        """Return the invites of this device."""
        return [
            OpenInvite(row[0], row[1], row[2], tuple(json.loads(row[3])), row[4])
            for row in self._run("SELECT secret_hash, group_id, expires_at, capabilities, used_by FROM invite")
        ]

    def open_invite(self, invite: OpenInvite) -> None:
        """Remember an invite, and forget those that nobody can use any more."""
        self._run("DELETE FROM invite WHERE expires_at < ?", (invite.expires_at_us - _INVITE_MEMORY_US,))
        self._run(
            "INSERT INTO invite VALUES (?, ?, ?, ?, NULL)",
            (invite.secret_hash, invite.group_id, invite.expires_at_us, json.dumps(invite.capabilities)),
        )

    def use_invite(self, secret_hash: bytes, joiner: bytes) -> None:
        """Mark an invite as used, for good."""
        self._run("UPDATE invite SET used_by = ? WHERE secret_hash = ?", (joiner, secret_hash))

    def pending_joins(self) -> list[PendingJoin]:
        """Return the joins that wait for an answer."""
        return [
            PendingJoin(row[0], DeviceKeys(row[1], row[2]), row[3])
            for row in self._run("SELECT * FROM pending_join ORDER BY expires_at")
        ]

    def begin_join(self, pending: PendingJoin) -> None:
        """Remember a join; a later invite to the same group replaces an earlier one."""
        inviter = pending.inviter
        self._run(
            "INSERT OR REPLACE INTO pending_join VALUES (?, ?, ?, ?)",
            (pending.group_id, inviter.signing_public, inviter.noise_public, pending.expires_at_us),
        )

    def end_join(self, group_id: bytes) -> None:
        """Forget a pending join."""
        self._run("DELETE FROM pending_join WHERE group_id = ?", (group_id,))
