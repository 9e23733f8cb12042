"""Destroying a group: a signed Revoke that every member obeys, passes on once, and forgets by (000.22, 000.23).

`REVOKE` carries `[signature64, signed]`, `signed` being the bytes of `[1, group_id, epoch, targets, issuer]`:

    1. The issuer is a member, and the epoch is the group's: a Revoke of an earlier time or another group is nobody's.
       One of a later epoch waits for the manifest that begins it.
    2. Whoever is among the targets stops sending and taking anything in the group at once, and sends the same bytes to
       every other target, once.
    3. It forgets the group when all of them have acknowledged, or a day later. Between the two only the commit that
       noted the Revoke counts: a crash changes nothing.
    4. A device that is in no other group forgets everything, its keys too, and is a new one at its next start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, GroupId
from covey.core.wire import cbor
from covey.errors import AheadError, MalformedError, NotForUsError, RollbackError, UnknownIssuerError
from covey.limits.group import MAXIMUM_MEMBERS, MAXIMUM_REVOKE_BYTES

_DOMAIN = b"covey/1 revoke"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Revoke:
    """The end of a group; `raw` is the exact bytes."""

    group_id: GroupId
    epoch: int
    targets: tuple[DeviceKey, ...]
    issuer: DeviceKey
    raw: bytes = field(repr=False)


def sign_revoke(manifest: GroupManifest, identity: Identity) -> Revoke:
    """Return a Revoke of a group for all its members."""
    targets = [member.keys.signing_public for member in manifest.members]
    signed = cbor.encode([_VERSION, manifest.group_id, manifest.epoch, targets, identity.signing_public])
    raw = cbor.encode([crypto.sign(_DOMAIN, signed, identity), signed])
    return Revoke(manifest.group_id, manifest.epoch, tuple(targets), identity.signing_public, raw)


def read_revoke(raw: bytes) -> Revoke:
    """Parse a Revoke and verify its signature.

    Raises:
        RemoteError: malformed, beyond a bound, or not signed by its issuer.
    """
    signature, signed = cbor.record(
        cbor.decode(raw, MAXIMUM_REVOKE_BYTES),
        "revoke",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets_to(MAXIMUM_REVOKE_BYTES),
    )
    version, group_id, epoch, targets, issuer = cbor.record(
        cbor.decode(signed, MAXIMUM_REVOKE_BYTES),
        "signed revoke",
        cbor.uint(255),
        cbor.octets(GROUP_ID_BYTES),
        cbor.uint(),
        cbor.many(cbor.octets(KEY_BYTES), MAXIMUM_MEMBERS),
        cbor.octets(KEY_BYTES),
    )
    if version != _VERSION:
        raise MalformedError(f"revoke version {version}: a newer Covey?")
    crypto.verify(_DOMAIN, signed, signature, issuer)
    return Revoke(group_id, epoch, targets, issuer, raw)


def check_revoke(revoke: Revoke, manifest: GroupManifest, own: DeviceKey) -> None:
    """Check rule 1.

    Raises:
        RemoteError: the rule that failed.
    """
    if revoke.group_id != manifest.group_id or own not in revoke.targets:
        raise NotForUsError("a Revoke of another group or for other devices")
    if revoke.epoch > manifest.epoch:
        raise AheadError(f"a Revoke of epoch {revoke.epoch}, held {manifest.epoch}")
    if manifest.member(revoke.issuer) is None:
        raise UnknownIssuerError("the issuer of the Revoke is not a member")
    if revoke.epoch != manifest.epoch:
        raise RollbackError(f"a Revoke of epoch {revoke.epoch}, held {manifest.epoch}")
