"""The tables of pairing: invites, joins, ceremonies, invitations to further groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.rows import unwrapped
from covey.core.crypto import DeviceKeys
from covey.core.ids import KEY_BYTES, DeviceKey, GroupId
from covey.core.pairing.pending import (
    GroupRequest,
    InviteWish,
    OpenInvite,
    Pairing,
    PendingJoin,
    Replacement,
    UnknownGroup,
)
from covey.core.pairing.preview import PREVIEW_BYTES, GroupPreview
from covey.core.wire import cbor
from covey.errors import RemoteError
from covey.limits.pairing import GROUP_REQUEST_US, MAXIMUM_DECLINED_GROUPS, MAXIMUM_GROUP_ASKS_OF_ONE

if TYPE_CHECKING:
    from covey.adapters.keys.storage_key import StorageKey

_INVITE_MEMORY_US = 86_400_000_000
"""A used invite is remembered for a day, so that a joiner's repeated request is answered again."""


_SEEN_US = 3_600_000_000
"""How often a device that goes on costs a write."""


class Invites:
    """The invites of this device."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[OpenInvite]:
        """Return the invites of this device."""
        rows = self._database.run(
            "SELECT secret_hash, group_id, expires_at, capabilities, used_by, bound_to, prepared_for, request "
            "FROM invite"
        )
        return [OpenInvite(row[0], row[1], row[2], tuple(json.loads(row[3])), *row[4:]) for row in rows]

    def open(self, invite: OpenInvite, now_us: int) -> None:
        self._database.run("DELETE FROM invite WHERE expires_at < ?", (now_us - _INVITE_MEMORY_US,))
        self._database.run(
            "INSERT INTO invite (secret_hash, group_id, expires_at, capabilities, bound_to, prepared_for) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                invite.secret_hash,
                invite.group_id,
                invite.expires_at_us,
                json.dumps(invite.capabilities),
                invite.bound_to,
                invite.prepared_for,
            ),
        )

    def use(self, secret_hash: bytes, joiner: DeviceKey) -> None:
        self._database.run("UPDATE invite SET used_by = ? WHERE secret_hash = ?", (joiner, secret_hash))

    def bind(self, secret_hash: bytes, joiner: DeviceKey, expires_at_us: int) -> None:
        """Make an invite one device's alone."""
        self._database.run(
            "UPDATE invite SET bound_to = ?, expires_at = ? WHERE secret_hash = ? AND used_by IS NULL",
            (joiner, expires_at_us, secret_hash),
        )

    def keep_request(self, secret_hash: bytes, joiner: DeviceKey, request: bytes) -> None:
        self._database.run(
            "UPDATE invite SET bound_to = ?, request = ? WHERE secret_hash = ?", (joiner, request, secret_hash)
        )

    def drop_request(self, secret_hash: bytes) -> None:
        self._database.run("UPDATE invite SET request = NULL WHERE secret_hash = ?", (secret_hash,))

    def cancel(self, secret_hash: bytes) -> None:
        """Forget an invite that was not used."""
        self._database.run("DELETE FROM invite WHERE secret_hash = ? AND used_by IS NULL", (secret_hash,))


class Replacements:
    """Members that newcomers replace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, replacement: Replacement) -> None:
        """Note whom the newcomer with an invite replaces."""
        row = replacement.secret_hash, replacement.group_id, replacement.replaced, replacement.label
        self._database.run("INSERT INTO replacement VALUES (?, ?, ?, ?, NULL)", row)

    def waiting(self) -> list[Replacement]:
        """Return those whose newcomer has not taken over yet."""
        rows = self._database.run(
            "SELECT secret_hash, group_id, replaced, label FROM replacement WHERE device IS NULL ORDER BY secret_hash"
        )
        return [Replacement(*row) for row in rows]

    def finish(self, secret_hash: bytes, device: DeviceKey) -> None:
        """Note that a newcomer has taken over."""
        self._database.run("UPDATE replacement SET device = ? WHERE secret_hash = ?", (device, secret_hash))

    def finished(self) -> list[tuple[Replacement, DeviceKey]]:
        """Return those whose newcomer has taken over, and that newcomer."""
        rows = self._database.run(
            "SELECT secret_hash, group_id, replaced, label, device FROM replacement WHERE device IS NOT NULL "
            "ORDER BY secret_hash"
        )
        return [(Replacement(*row[:4]), DeviceKey(row[4])) for row in rows]

    def drop(self, secret_hash: bytes) -> None:
        """Forget one whose newcomer never came."""
        self._database.run("DELETE FROM replacement WHERE secret_hash = ?", (secret_hash,))

    def replaced_by(self, device: DeviceKey) -> list[DeviceKey]:
        """Return the devices that one has replaced, also those that these had replaced, the latest first."""
        rows = self._database.run(
            "WITH RECURSIVE before (device) AS (SELECT replaced FROM replacement WHERE device = ? "
            "UNION SELECT replacement.replaced FROM replacement JOIN before ON replacement.device = before.device) "
            "SELECT device FROM before",
            (device,),
        )
        return [DeviceKey(row[0]) for row in rows]

    def forget(self, group_id: GroupId) -> None:
        """Forget those of a group."""
        self._database.run("DELETE FROM replacement WHERE group_id = ?", (group_id,))


class Joins:
    """The groups that this device has asked to join."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self) -> list[PendingJoin]:
        return [
            PendingJoin(row[0], DeviceKeys(row[1], row[2]), *row[3:])
            for row in self._database.run(
                "SELECT group_id, inviter_signing, inviter_noise, expires_at, label FROM pending_join "
                "ORDER BY expires_at, group_id, inviter_signing"
            )
        ]

    def begin(self, pending: PendingJoin) -> None:
        """Remember a join; by an invite, those to the same public group are forgotten, and the other way round."""
        inviter = pending.inviter
        self._database.run(
            "DELETE FROM pending_join WHERE group_id = ?1 AND (?2 IS NULL) <> (label IS NULL)",
            (pending.group_id, pending.label),
        )
        self._database.run(
            "INSERT OR REPLACE INTO pending_join VALUES (?, ?, ?, ?, ?)",
            (pending.group_id, inviter.signing_public, inviter.noise_public, pending.expires_at_us, pending.label),
        )

    def end(self, group_id: GroupId, inviter: DeviceKey | None = None) -> None:
        """Forget the pending joins of a group, or what one inviter was asked."""
        self._database.run(
            "DELETE FROM pending_join WHERE group_id = ?1 AND (?2 IS NULL OR inviter_signing = ?2)", (group_id, inviter)
        )


class Pairings:
    """The ceremonies of this device's codes."""

    def __init__(self, database: Database, storage_key: StorageKey) -> None:
        self._database = database
        self._storage_key = storage_key

    def all(self) -> list[Pairing]:
        rows = self._database.run(
            "SELECT secret_hash, number, code, secret, expires_at, accepts, joiner, label, verifier, lacks_account, "
            "minted, ended, operators, prepared FROM pairing ORDER BY expires_at"
        )
        return [
            Pairing(
                secret_hash=row[0],
                number=row[1],
                code=_text(self._unwrapped(row[0], "code", row[2])),
                secret=self._unwrapped(row[0], "secret", row[3]) or b"",
                expires_at_us=row[4],
                accepts=None if row[5] is None else bool(row[5]),
                joiner=row[6],
                label=row[7],
                verifier=tuple(json.loads(row[8])),
                lacks_account=bool(row[9]),
                minted=bool(row[10]),
                ended=row[11],
                operators=_keys(row[12]),
                prepared=bool(row[13]),
            )
            for row in rows
        ]

    def any_to_look_after(self) -> bool:
        """Say whether a code is open, or one that is over has left an account at the relay."""
        found = "SELECT 1 FROM pairing WHERE ended IS NULL OR minted OR prepared"
        return bool(self._database.one(f"SELECT EXISTS ({found})"))

    def open(self, pairing: Pairing, now_us: int) -> None:
        self._database.run(
            "DELETE FROM pairing WHERE ended IS NOT NULL AND minted = 0 AND prepared = 0 AND expires_at < ?",
            (now_us - _INVITE_MEMORY_US,),
        )
        self._database.run(
            "INSERT INTO pairing (secret_hash, number, code, secret, expires_at, accepts, operators, prepared) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                pairing.secret_hash,
                pairing.number,
                None if pairing.code is None else self._wrapped(pairing, "code", pairing.code.encode()),
                self._wrapped(pairing, "secret", pairing.secret),
                pairing.expires_at_us,
                pairing.accepts,
                b"".join(pairing.operators),
                pairing.prepared,
            ),
        )

    def _wrapped(self, pairing: Pairing, column: str, secret: bytes) -> bytes:
        return self._storage_key.wrap(secret, *place_in_pairing(pairing.secret_hash, column))

    def _unwrapped(self, secret_hash: bytes, column: str, stored: bytes | None) -> bytes | None:
        if stored is None:
            return None
        return unwrapped(self._storage_key, stored, *place_in_pairing(secret_hash, column))

    def note_joiner(self, pairing: Pairing) -> None:
        self._database.run(
            "UPDATE pairing SET joiner = ?, label = ?, verifier = ?, lacks_account = ? WHERE secret_hash = ?",
            (
                pairing.joiner,
                pairing.label,
                json.dumps(pairing.verifier),
                pairing.lacks_account,
                pairing.secret_hash,
            ),
        )

    def decide(self, secret_hash: bytes, accepts: bool) -> None:
        self._database.run("UPDATE pairing SET accepts = ? WHERE secret_hash = ?", (accepts, secret_hash))

    def note_minted(self, secret_hash: bytes, minted: bool) -> None:
        self._database.run("UPDATE pairing SET minted = ? WHERE secret_hash = ?", (minted, secret_hash))

    def note_account_gone(self, secret_hash: bytes) -> None:
        self._database.run("UPDATE pairing SET prepared = 0 WHERE secret_hash = ?", (secret_hash,))

    def end(self, secret_hash: bytes, ended: str) -> None:
        self._database.run(
            "UPDATE pairing SET ended = ?, code = NULL, secret = NULL WHERE secret_hash = ? AND ended IS NULL",
            (ended, secret_hash),
        )


class GroupRequests:
    """Invitations to further groups that wait for a person, and the groups that a person has declined."""

    def __init__(self, database: Database, storage_key: StorageKey) -> None:
        self._database = database
        self._storage_key = storage_key

    def pending(self) -> list[GroupRequest]:
        """Return the invitations that wait for a person, the oldest first."""
        return [
            GroupRequest(
                row[0],
                DeviceKeys(row[1], row[2]),
                unwrapped(self._storage_key, row[3], *place_in_request(row[0], row[1])),
                row[4],
                row[5],
                _preview(row[6]),
            )
            for row in self._database.run(
                "SELECT group_id, inviter_signing, inviter_noise, secret, expires_at, received_at, preview "
                "FROM group_request ORDER BY received_at, group_id, inviter_signing"
            )
        ]

    def save(self, request: GroupRequest) -> None:
        self._database.run(
            "INSERT OR REPLACE INTO group_request VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                request.group_id,
                request.inviter.signing_public,
                request.inviter.noise_public,
                self._storage_key.wrap(
                    request.secret, *place_in_request(request.group_id, request.inviter.signing_public)
                ),
                request.expires_at_us,
                request.received_at_us,
                b"" if request.preview is None else cbor.encode(request.preview.to_wire()),
            ),
        )

    def drop(self, group_id: GroupId, inviter: DeviceKey | None = None) -> None:
        self._database.run(
            "DELETE FROM group_request WHERE group_id = ?1 AND (?2 IS NULL OR inviter_signing = ?2)",
            (group_id, inviter),
        )

    def declined(self) -> dict[GroupId, int]:
        """Return the declined groups, and when each was, the last one first."""
        return dict(
            self._database.run("SELECT group_id, declined_at FROM declined_group ORDER BY declined_at DESC, group_id")
        )

    def decline(self, group_id: GroupId, now_us: int) -> None:
        """Remember that a group was declined; of very many the one that was declined first is forgotten."""
        self._database.run("INSERT OR REPLACE INTO declined_group VALUES (?, ?)", (group_id, now_us))
        self._database.run(
            "DELETE FROM declined_group WHERE group_id NOT IN "
            "(SELECT group_id FROM declined_group ORDER BY declined_at DESC, group_id LIMIT ?)",
            (MAXIMUM_DECLINED_GROUPS,),
        )

    def reconsider(self, group_id: GroupId) -> None:
        self._database.run("DELETE FROM declined_group WHERE group_id = ?", (group_id,))


class GroupAsks:
    """Unknown groups that this device is addressed in, and devices that ask to be let into its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note_unknown(self, group_id: GroupId, author: DeviceKey, now_us: int) -> None:
        """Note a group; of more than an author may have, the newest are kept."""
        if not self._note(group_id, author, 0, now_us):
            return
        newest = "SELECT group_id FROM group_ask WHERE device = ?1 AND is_wish = 0 ORDER BY seen_at DESC, group_id"
        self._database.run(
            f"DELETE FROM group_ask WHERE device = ?1 AND is_wish = 0 AND group_id NOT IN ({newest} LIMIT ?2)",  # noqa: S608
            (author, MAXIMUM_GROUP_ASKS_OF_ONE),
        )

    def note_wish(self, group_id: GroupId, device: DeviceKey, now_us: int) -> bool:
        """Note a request; of more than a device may have, the oldest are kept: so it cannot displace a declined one."""
        others = "SELECT count(*) FROM group_ask WHERE device = ? AND is_wish = 1 AND group_id <> ? AND seen_at >= ?"
        [kept] = self._database.first(others, (device, group_id, now_us - GROUP_REQUEST_US)) or (0,)
        if kept >= MAXIMUM_GROUP_ASKS_OF_ONE or not self._note(group_id, device, 1, now_us):
            return False
        declined = "SELECT 1 FROM group_ask WHERE group_id = ? AND device = ? AND is_wish = 1 AND answered_at > 0"
        return self._database.first(declined, (group_id, device)) is None

    def decline_wishes(self, group_id: GroupId, now_us: int) -> None:
        self._database.run(
            "UPDATE group_ask SET answered_at = ? WHERE group_id = ? AND is_wish = 1", (now_us, group_id)
        )

    def _note(self, group_id: GroupId, device: DeviceKey, is_wish: int, now_us: int) -> bool:
        """Note something unless it was noted a short time ago; return whether it was not."""
        key = (group_id, device, is_wish)
        row = self._database.first(
            "SELECT seen_at FROM group_ask WHERE group_id = ? AND device = ? AND is_wish = ?", key
        )
        if row is not None and 0 <= now_us - row[0] < _SEEN_US:
            return False
        self._database.run("DELETE FROM group_ask WHERE seen_at < ?", (now_us - GROUP_REQUEST_US,))
        self._database.run(
            "INSERT INTO group_ask VALUES (?, ?, ?, ?, 0) ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at",
            (*key, now_us),
        )
        return True

    def unknown(self, since_us: int) -> list[UnknownGroup]:
        """Return the unknown groups that were named since a moment, the newest first."""
        return [
            UnknownGroup(GroupId(group_id), DeviceKey(author), seen_at, asked_at)
            for group_id, author, seen_at, asked_at in self._database.run(
                "SELECT group_id, device, seen_at, answered_at FROM group_ask WHERE is_wish = 0 AND seen_at >= ? "
                "ORDER BY seen_at DESC, group_id, device",
                (since_us,),
            )
        ]

    def note_asked(self, group_id: GroupId, author: DeviceKey, now_us: int) -> None:
        self._database.run(
            "UPDATE group_ask SET answered_at = ? WHERE group_id = ? AND device = ? AND is_wish = 0",
            (now_us, group_id, author),
        )

    def wishes(self, since_us: int) -> list[InviteWish]:
        """Return which devices have asked since a moment, the newest first, without those that were declined."""
        return [
            InviteWish(GroupId(group_id), DeviceKey(device), seen_at)
            for group_id, device, seen_at in self._database.run(
                "SELECT group_id, device, seen_at FROM group_ask WHERE is_wish = 1 AND answered_at = 0 "
                "AND seen_at >= ? ORDER BY seen_at DESC, group_id, device",
                (since_us,),
            )
        ]

    def drop(self, group_id: GroupId, device: DeviceKey | None = None) -> None:
        self._database.run(
            "DELETE FROM group_ask WHERE group_id = ?1 AND (?2 IS NULL OR device = ?2)", (group_id, device)
        )


def place_in_pairing(secret_hash: bytes, column: str) -> tuple[str | bytes, ...]:
    """Return to which place the secret in a column of a pairing is bound where it is stored."""
    return "pairing", column, secret_hash


def place_in_request(group_id: GroupId, inviter_signing: DeviceKey) -> tuple[str | bytes, ...]:
    """Return to which place the secret of an invitation to a further group is bound where it is stored."""
    return "group_request", group_id, inviter_signing


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()


def _keys(stored: bytes) -> tuple[DeviceKey, ...]:
    return tuple(DeviceKey(stored[at : at + KEY_BYTES]) for at in range(0, len(stored), KEY_BYTES))


def _preview(stored: bytes) -> GroupPreview | None:
    """Return an inviter's description of a group; None if a worn card has changed it."""
    try:
        return GroupPreview.from_wire(cbor.decode(stored, PREVIEW_BYTES))
    except RemoteError:
        return None
