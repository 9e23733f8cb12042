"""The tables of groups: manifests, secrets, groups that are being destroyed, votes, and departed members; the person's
own devices, and the operators that a person accepted with an invite."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.file.groups_copy import COPIED_SECRETS, CopiedGroup, GroupsCopy
from covey.adapters.sqlite.rows import unwrapped
from covey.core.group.manifest import manifest_hash, read_manifest, secret_id
from covey.core.ids import DeviceKey, EpochId, GroupId, Incarnation, ManifestHash, NoisePublic, OperationId
from covey.core.link.shares import has_room
from covey.core.pairing.pending import InvitedOperator
from covey.core.wire.message import Message
from covey.errors import DamagedStateError, MalformedError
from covey.limits.group import (
    MAXIMUM_EARLY_BYTES,
    MAXIMUM_EARLY_MANIFESTS,
    MAXIMUM_HEADS,
    MESSAGES_AHEAD,
    MESSAGES_AHEAD_OF_ONE,
    OPEN_VOTES,
)

if TYPE_CHECKING:
    from covey.adapters.keys.storage_key import StorageKey

_OPEN, _EARLY, _SETTLED = 0, 1, 2


def place_of_secret(group_id: GroupId, epoch_id: EpochId) -> tuple[str | bytes, ...]:
    """Return to which place the secret of an epoch is bound where it is stored."""
    return "epoch_secret", group_id, epoch_id


class TablesOfGroups(Protocol):
    """Tables that hold something of groups."""

    def forget(self, group_id: GroupId) -> None:
        """Forget all of a group."""


class GroupTables:
    """The manifests and secrets of this device's groups."""

    def __init__(
        self,
        database: Database,
        families: Iterable[TablesOfGroups],
        agreed: TablesOfGroups,
        arrived: Iterable[TablesOfGroups],
        storage_key: StorageKey,
    ) -> None:
        self._database = database
        self._families = tuple(families)
        self._agreed = agreed
        self._storage_key = storage_key
        self._arrived = tuple(arrived)
        """What came in a group stays to be read when this device joins the group again."""
        self.copy: GroupsCopy | None = None
        """Where manifests and secrets are written a second time."""
        self._has_changed = False
        database.remember(self._forget_change)

    # -- the second copy (file/groups_copy.py) -------------------------------------------------------------------------

    def write_copy(self) -> None:
        """Have the second copy say what is committed."""
        self._forget_change()
        if self.copy is None:
            return
        self.copy.write(self.copied())

    def copied(self) -> list[CopiedGroup]:
        """Return what a second copy holds of each group: open manifests and the newest secrets."""
        groups: dict[GroupId, list[bytes]] = {}
        for group_id, _, raw in self.manifests():
            groups.setdefault(group_id, []).append(raw)
        return [CopiedGroup(each, tuple(groups[each]), self._newest_secrets(each)) for each in groups]

    def restore(self, copied: Iterable[CopiedGroup], now_us: int) -> None:
        """Take up groups from a copy; one whose manifests or secrets are not valid is refused. Inside a transaction.

        Raises:
            RemoteError: a manifest is not valid.
            MalformedError: a manifest or a secret is another group's or epoch's.
        """
        for group in copied:
            for raw in group.manifests:
                manifest = read_manifest(raw)
                if manifest.group_id != group.group_id:
                    raise MalformedError("a manifest of another group")
                self.save_manifest(manifest.group_id, manifest.hash, manifest.version, raw, now_us)
            for age, (epoch_id, secret) in enumerate(group.secrets):
                if secret_id(secret) != epoch_id:
                    raise MalformedError("a secret of another epoch")
                self.save_secret(group.group_id, EpochId(epoch_id), secret, now_us - age)

    def _newest_secrets(self, group_id: GroupId) -> tuple[tuple[bytes, bytes], ...]:
        newest = (
            "SELECT epoch_id, secret FROM epoch_secret WHERE group_id = ? ORDER BY stored_at DESC, epoch_id LIMIT ?"
        )
        rows = self._database.run(newest, (group_id, COPIED_SECRETS))
        return tuple((epoch_id, self._unwrapped(group_id, epoch_id, stored)) for epoch_id, stored in rows)

    def _unwrapped(self, group_id: GroupId, epoch_id: EpochId, stored: bytes) -> bytes:
        return unwrapped(self._storage_key, stored, *place_of_secret(group_id, epoch_id))

    def _change(self) -> None:
        if not self._has_changed and self.copy is not None:
            self._has_changed = True
            self._database.after_commit(self.write_copy)

    def _forget_change(self) -> None:
        self._has_changed = False

    # -- manifests and secrets -----------------------------------------------------------------------------------------

    def manifests(self) -> list[tuple[GroupId, ManifestHash, bytes]]:
        """Return (group_id, hash, manifest) of what is open, by group, version and hash."""
        rows = self._database.run(
            "SELECT group_id, hash, raw FROM group_manifest WHERE state = ? ORDER BY group_id, version, hash", (_OPEN,)
        )
        if any(manifest_hash(raw) != stored for _, stored, raw in rows):
            raise DamagedStateError("a group manifest in the state database is damaged")
        return rows

    def manifest_hashes(self) -> list[tuple[GroupId, ManifestHash]]:
        """Return (group_id, hash) of what `manifests` returns, without reading the manifests."""
        return self._database.run("SELECT group_id, hash FROM group_manifest WHERE state = ?", (_OPEN,))

    def manifests_from(self, group_id: GroupId, version: int, most: int = -1, after: int = 0) -> list[bytes]:
        """Return the first accepted manifests of a group from a version on, by version and hash; -1: every one.

        The first ones, `after` of them, are passed over.
        """
        return [
            row[0]
            for row in self._database.run(
                "SELECT raw FROM group_manifest WHERE group_id = ? AND version >= ? AND state <> ? "
                "ORDER BY version, hash LIMIT ? OFFSET ?",
                (group_id, version, _EARLY, most, after),
            )
        ]

    def manifests_at(self, group_id: GroupId, version: int) -> list[bytes]:
        rows = self._database.run(
            "SELECT raw FROM group_manifest WHERE group_id = ? AND version = ? AND state <> ? ORDER BY hash",
            (group_id, version, _EARLY),
        )
        return [raw for (raw,) in rows]

    def largest_manifest(self, group_id: GroupId) -> int:
        """Return how many bytes the largest accepted manifest of a group has; 0 where there is none."""
        statement = "SELECT coalesce(max(length(raw)), 0) FROM group_manifest WHERE group_id = ? AND state <> ?"
        return int(self._database.run(statement, (group_id, _EARLY))[0][0])

    def changed_at(self, group_id: GroupId) -> int:
        statement = "SELECT coalesce(max(stored_at), 0) FROM group_manifest WHERE group_id = ? AND state <> ?"
        return int(self._database.run(statement, (group_id, _EARLY))[0][0])

    def has_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> bool:
        return bool(
            self._database.run(
                "SELECT 1 FROM group_manifest WHERE group_id = ? AND hash = ? AND state <> ?",
                (group_id, manifest_hash, _EARLY),
            )
        )

    def manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> bytes | None:
        row = self._database.first(
            "SELECT raw FROM group_manifest WHERE group_id = ? AND hash = ? AND state <> ?",
            (group_id, manifest_hash, _EARLY),
        )
        return None if row is None else row[0]

    def save_manifest(
        self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes, now_us: int
    ) -> None:
        self._change()
        self._database.run(
            "INSERT INTO group_manifest VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET state = excluded.state, stored_at = excluded.stored_at",
            (group_id, version, manifest_hash, _OPEN, raw, now_us),
        )

    def drop_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> None:
        self._change()
        self._database.run("DELETE FROM group_manifest WHERE group_id = ? AND hash = ?", (group_id, manifest_hash))

    def lowest_version(self, group_id: GroupId) -> int:
        return self._database.one(
            "SELECT coalesce(min(version), 0) FROM group_manifest WHERE group_id = ? AND state <> ?", group_id, _EARLY
        )

    def followed_from(self, group_id: GroupId) -> set[ManifestHash]:
        lowest = self.manifests_from(group_id, 1, MAXIMUM_HEADS)
        return {parent for raw in lowest for parent in read_manifest(raw, verify=False).prev}

    def save_past_manifest(
        self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes, now_us: int
    ) -> None:
        self._database.run(
            "INSERT INTO group_manifest VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET state = excluded.state, stored_at = excluded.stored_at WHERE state = ?",
            (group_id, version, manifest_hash, _SETTLED, raw, now_us, _EARLY),
        )

    def settle_manifests(self, group_id: GroupId, version: int) -> None:
        self._change()
        self._database.run(
            "UPDATE group_manifest SET state = ? WHERE group_id = ? AND version < ? AND state = ?",
            (_SETTLED, group_id, version, _OPEN),
        )

    def reopen_manifests(self, group_id: GroupId, version: int) -> None:
        self._change()
        self._database.run(
            "UPDATE group_manifest SET state = ? WHERE group_id = ? AND version >= ? AND state = ?",
            (_OPEN, group_id, version, _SETTLED),
        )

    def keep_early_manifest(self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes) -> None:
        """Keep a manifest that follows something unknown: of each group so many and so much, the lowest versions."""
        self._database.run(
            "INSERT OR IGNORE INTO group_manifest VALUES (?, ?, ?, ?, ?, 0)",
            (group_id, version, manifest_hash, _EARLY, raw),
        )
        self._database.run(
            "DELETE FROM group_manifest WHERE group_id = ?1 AND state = ?2 AND hash NOT IN (SELECT hash FROM ("
            "SELECT hash, row_number() OVER first AS place, sum(length(raw)) OVER first AS bytes FROM group_manifest "
            "WHERE group_id = ?1 AND state = ?2 WINDOW first AS (ORDER BY version, hash)) "
            "WHERE place = 1 OR (place <= ?3 AND bytes <= ?4))",
            (group_id, _EARLY, MAXIMUM_EARLY_MANIFESTS, MAXIMUM_EARLY_BYTES),
        )

    def early_manifests(self, group_id: GroupId) -> list[bytes]:
        """Return the manifests that follow something unknown."""
        return [
            row[0]
            for row in self._database.run(
                "SELECT raw FROM group_manifest WHERE group_id = ? AND state = ? ORDER BY version", (group_id, _EARLY)
            )
        ]

    def drop_early_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> None:
        """Forget a manifest that follows something unknown."""
        self._database.run(
            "DELETE FROM group_manifest WHERE group_id = ? AND hash = ? AND state = ?",
            (group_id, manifest_hash, _EARLY),
        )

    def save_secret(self, group_id: GroupId, epoch_id: EpochId, secret: bytes, now_us: int) -> None:
        self._change()
        stored = self._storage_key.wrap(secret, *place_of_secret(group_id, epoch_id))
        row = (group_id, epoch_id, stored, now_us)
        with self._database.leaving_no_copies():
            self._database.run("INSERT OR IGNORE INTO epoch_secret VALUES (?, ?, ?, ?)", row)

    def secret(self, group_id: GroupId, epoch_id: EpochId) -> bytes | None:
        rows = self._database.run(
            "SELECT secret FROM epoch_secret WHERE group_id = ? AND epoch_id = ?", (group_id, epoch_id)
        )
        return self._unwrapped(group_id, epoch_id, rows[0][0]) if rows else None

    def forget(self, group_id: GroupId) -> None:
        """Forget a group's manifests, secrets and history, and overwrite them."""
        self._agreed.forget(group_id)
        self.forget_before_joining(group_id)
        self._erase_arrived(group_id)

    def forget_before_joining(self, group_id: GroupId) -> None:
        self._change()
        with self._database.overwriting():
            self._database.run("DELETE FROM group_manifest WHERE group_id = ?", (group_id,))
        self._erase_all_but_unread_messages(group_id)

    def erase_content(self, group_id: GroupId) -> None:
        """Forget a group's secrets, history and unread messages, and overwrite them; its manifests stay."""
        self._erase_all_but_unread_messages(group_id)
        self._erase_arrived(group_id)

    def _erase_arrived(self, group_id: GroupId) -> None:
        with self._database.overwriting():
            for table in self._arrived:
                table.forget(group_id)

    def _erase_all_but_unread_messages(self, group_id: GroupId) -> None:
        self._change()
        with self._database.overwriting():
            for table in ("epoch_secret", "vote", "message_ahead"):
                self._database.run(f"DELETE FROM {table} WHERE group_id = ?", (group_id,))  # noqa: S608 - our names
            for family in self._families:
                family.forget(group_id)

    def revocations(self) -> list[tuple[GroupId, int]]:
        return self._database.run("SELECT group_id, device.age - revocation.since FROM revocation, device")

    def revocation(self, group_id: GroupId) -> bytes | None:
        rows = self._database.run("SELECT raw FROM revocation WHERE group_id = ?", (group_id,))
        return bytes(rows[0][0]) if rows else None

    def note_revocation(self, group_id: GroupId, raw: bytes) -> None:
        """Note that a group is being destroyed; its unread messages go at once, the rest when its members know."""
        self._database.run("INSERT OR IGNORE INTO revocation SELECT ?, ?, age FROM device", (group_id, raw))
        self._erase_arrived(group_id)

    def end_revocation(self, group_id: GroupId) -> None:
        """Forget a group that was destroyed, and that it was."""
        self._database.run("DELETE FROM revocation WHERE group_id = ?", (group_id,))
        self.forget(group_id)


class Votes:
    """Votes about members that have not decided anything yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_group(self, group_id: GroupId) -> list[bytes]:
        return [
            row[0] for row in self._database.run("SELECT raw FROM vote WHERE group_id = ? ORDER BY raw", (group_id,))
        ]

    def save(self, group_id: GroupId, voter: DeviceKey, raw: bytes, admins: Collection[DeviceKey]) -> bool:
        held = dict(
            self._database.run("SELECT voter, count(*) FROM vote WHERE group_id = ? GROUP BY voter", (group_id,))
        )
        former = {each: held.pop(each) for each in held.keys() - set(admins)}
        if sum(former.values()) >= OPEN_VOTES:  # fewer may count again, when a conflict is resolved
            self._database.run_each(
                "DELETE FROM vote WHERE group_id = ? AND voter = ?", [(group_id, each) for each in former]
            )

        def beyond(share: int) -> int:
            return sum(max(0, number - share) for number in held.values())

        own = held.get(voter, 0)
        if own and not has_room(OPEN_VOTES, len(admins), own, 1, beyond):
            return False
        self._database.run("INSERT OR IGNORE INTO vote VALUES (?, ?, ?)", (group_id, voter, raw))
        return True

    def drop(self, group_id: GroupId, raw: bytes) -> None:
        self._database.run("DELETE FROM vote WHERE group_id = ? AND raw = ?", (group_id, raw))


class MessagesAhead:
    """Messages of groups that rest on a manifest that has not come yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def groups(self) -> list[GroupId]:
        return [row[0] for row in self._database.run("SELECT DISTINCT group_id FROM message_ahead ORDER BY group_id")]

    def of_group(self, group_id: GroupId) -> list[tuple[int, bytes]]:
        return self._database.run("SELECT id, message FROM message_ahead WHERE group_id = ? ORDER BY id", (group_id,))

    def keep(self, message: Message) -> bool:
        waiting, of_author = self._database.run(
            "SELECT count(*), coalesce(sum(author = ?), 0) FROM message_ahead", (message.author,)
        )[0]
        if of_author >= (MESSAGES_AHEAD_OF_ONE if waiting < MESSAGES_AHEAD else 1):  # one is there for every author
            return False
        self._database.run(
            "INSERT INTO message_ahead (group_id, author, message) VALUES (?, ?, ?)",
            (message.group_id, message.author, message.raw),
        )
        return True

    def drop(self, number: int) -> None:
        with self._database.leaving_no_copies():
            self._database.run("DELETE FROM message_ahead WHERE id = ?", (number,))


class Departures:
    """Removed devices that have not acknowledged their departure notice, and their addresses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def addresses(self) -> list[tuple[DeviceKey, NoisePublic]]:
        """Return (signing key, noise key) of removed devices that have not acknowledged their departure notice."""
        return self._database.run("SELECT signing_public, noise_public FROM departure")

    def due(self, patience_us: int) -> list[DeviceKey]:
        self._database.flush()  # what was queued in this transaction waits, too
        return [
            row[0]
            for row in self._database.run(
                "SELECT departure.signing_public FROM device, departure LEFT JOIN peer USING (signing_public) "
                "WHERE coalesce(peer.queued_messages, 0) = 0 OR since < age - ? OR expires < age",
                (patience_us,),
            )
        ]

    def note(self, signing_public: DeviceKey, noise_public: NoisePublic, lifetime_us: int | None = None) -> None:
        self._database.run(
            "INSERT INTO departure SELECT ?, ?, age, age + ? FROM device WHERE true "
            "ON CONFLICT DO UPDATE SET noise_public = excluded.noise_public, "
            "expires = CASE WHEN expires IS NULL THEN NULL ELSE excluded.expires END",
            (signing_public, noise_public, lifetime_us),
        )

    def visitors(self) -> int:
        return int(self._database.run("SELECT count(*) FROM departure WHERE expires IS NOT NULL")[0][0])

    def end(self, signing_public: DeviceKey) -> None:
        """Forget the address of a device that was removed."""
        self._database.run("DELETE FROM departure WHERE signing_public = ?", (signing_public,))


_TABLES = ("personal_group", "own_group_obeyed", "own_group_invited", "own_group_owed", "own_device_incarnation")


class PersonalTables:
    """Which group is the person's own; implements `core/own`'s records."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pinned(self) -> GroupId | None:
        row = self._database.first("SELECT group_id FROM personal_group")
        return None if row is None else GroupId(row[0])

    def pin(self, group_id: GroupId) -> None:
        self.unpin()
        self._database.run("INSERT INTO personal_group VALUES (1, ?)", (group_id,))

    def unpin(self) -> None:
        for table in _TABLES:
            self._database.run(f"DELETE FROM {table}")  # noqa: S608 - names of this list

    def obeyed(self, group_id: GroupId) -> OperationId | None:
        row = self._database.first("SELECT operation FROM own_group_obeyed WHERE group_id = ?", (group_id,))
        return None if row is None else OperationId(row[0])

    def note_obeyed(self, group_id: GroupId, operation: OperationId) -> None:
        """Note that it was."""
        self._database.run("INSERT OR REPLACE INTO own_group_obeyed VALUES (?, ?)", (group_id, operation))

    def invited(self, group_id: GroupId, held_by: OperationId) -> set[DeviceKey]:
        rows = self._database.run(
            "SELECT device FROM own_group_invited WHERE group_id = ? AND operation = ?", (group_id, held_by)
        )
        return {DeviceKey(row[0]) for row in rows}

    def note_invited(self, group_id: GroupId, device: DeviceKey, held_by: OperationId) -> None:
        self._database.run("INSERT OR REPLACE INTO own_group_invited VALUES (?, ?, ?)", (group_id, device, held_by))
        self._database.run("DELETE FROM own_group_owed WHERE group_id = ? AND device = ?", (group_id, device))

    def note_incarnations(self, device: DeviceKey, incarnations: Collection[Incarnation]) -> bool:
        rows = self._database.run("SELECT incarnation FROM own_device_incarnation WHERE device = ?", (device,))
        known = {Incarnation(row[0]) for row in rows}
        if known != set(incarnations):
            self._database.run("DELETE FROM own_device_incarnation WHERE device = ?", (device,))
            for each in incarnations:
                self._database.run("INSERT INTO own_device_incarnation VALUES (?, ?)", (device, each))
        return bool(known) and not known.issuperset(incarnations)

    def owe_invitations(self, device: DeviceKey, groups: Iterable[GroupId]) -> None:
        self._database.run("DELETE FROM own_group_invited WHERE device = ?", (device,))
        for group_id in groups:
            self._database.run("INSERT OR IGNORE INTO own_group_owed VALUES (?, ?)", (group_id, device))

    def owed(self, group_id: GroupId) -> set[DeviceKey]:
        rows = self._database.run("SELECT device FROM own_group_owed WHERE group_id = ?", (group_id,))
        return {DeviceKey(row[0]) for row in rows}


class InvitedOperators:
    """The operators accepted with a group's invite."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, group_id: GroupId) -> list[InvitedOperator]:
        """Return those of a group, by key."""
        rows = self._database.run(
            "SELECT operator, inviter, pinned_at FROM invited_operator WHERE group_id = ? ORDER BY operator",
            (group_id,),
        )
        return [InvitedOperator(*row) for row in rows]

    def all(self) -> list[tuple[GroupId, InvitedOperator]]:
        """Return those of every group, by group and key."""
        rows = self._database.run(
            "SELECT group_id, operator, inviter, pinned_at FROM invited_operator ORDER BY group_id, operator"
        )
        return [(GroupId(group_id), InvitedOperator(*rest)) for group_id, *rest in rows]

    def any(self) -> bool:
        """Say whether there is one."""
        return self._database.first("SELECT 1 FROM invited_operator") is not None

    def pin(self, group_id: GroupId, operators: Iterable[DeviceKey], inviter: DeviceKey, now_us: int) -> None:
        """Keep what was accepted with a group's invite, in place of what an earlier one brought."""
        self.forget(group_id)
        for operator in sorted(set(operators)):
            self._database.run(
                "INSERT INTO invited_operator VALUES (?, ?, ?, ?)", (group_id, operator, inviter, now_us)
            )

    def forget(self, group_id: GroupId) -> None:
        """Forget those of a group."""
        self._database.run("DELETE FROM invited_operator WHERE group_id = ?", (group_id,))
