"""Destroying a group: a signed Revoke that every member obeys, passes on once, and forgets by (000.22, 000.23).

`REVOKE` carries `[signature64, signed]`, `signed` being the bytes of `[1, group_id, epoch, version, targets, issuer]`,
epoch and version being those of the group as its issuer knows it:

    1. The issuer is a member, and has been one without a break since that version: what it meant before it was removed
       is not obeyed once it is let in again. Whether it knew of all that happened does not matter: what members do at
       the same time does not save a group. One of a later epoch waits for the manifest that begins it.
    2. Whoever is in the group stops sending and taking anything in it at once, and sends the same bytes to every other
       member and target, once: there may be members whom the issuer did not know.
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
    version: int
    targets: tuple[DeviceKey, ...]
    issuer: DeviceKey
    raw: bytes = field(repr=False)


def sign_revoke(manifest: GroupManifest, identity: Identity) -> Revoke:
    """Return a Revoke of a group for all its members."""
    targets = [member.keys.signing_public for member in manifest.members]
    epoch, version, issuer = manifest.epoch, manifest.version, identity.signing_public
    signed = cbor.encode_growing([_VERSION, manifest.group_id, epoch, version, targets, issuer])
    raw = cbor.encode([crypto.sign(_DOMAIN, signed, identity), signed])
    return Revoke(manifest.group_id, epoch, version, tuple(targets), issuer, raw)


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
    fields = cbor.decode_growing(signed, MAXIMUM_REVOKE_BYTES)
    form = fields[0] if isinstance(fields, list) and fields else None
    if form != _VERSION:
        raise MalformedError(f"revoke format {form!r}: a newer Covey?")
    _, group_id, epoch, version, targets, issuer = cbor.record(
        fields,
        "signed revoke",
        cbor.uint(255),
        cbor.octets(GROUP_ID_BYTES),
        cbor.uint(),
        cbor.uint(),
        cbor.many(cbor.octets(KEY_BYTES), MAXIMUM_MEMBERS),
        cbor.octets(KEY_BYTES),
    )
    crypto.verify(_DOMAIN, signed, signature, issuer)
    return Revoke(group_id, epoch, version, targets, issuer, raw)


def check_revoke(revoke: Revoke, manifest: GroupManifest, own: DeviceKey) -> None:
    """Check rule 1.

    Raises:
        RemoteError: the rule that failed.
    """
    concerned = own in revoke.targets or manifest.member(own) is not None
    if revoke.group_id != manifest.group_id or not concerned:
        raise NotForUsError("the Revoke is for another group or other devices")
    if revoke.epoch > manifest.epoch:
        raise AheadError(f"the Revoke is for epoch {revoke.epoch}; this device holds {manifest.epoch}")
    issuer = manifest.member(revoke.issuer)
    if issuer is None:
        raise UnknownIssuerError("the issuer of the Revoke is not a member")
    if revoke.version < issuer.since:
        raise RollbackError(f"the Revoke is for version {revoke.version}; its issuer is a member since {issuer.since}")
