"""Destroying a group: a signed Revoke that every member obeys and passes on once before it forgets the group (000.22,
000.23).

`REVOKE` carries `[signature64, signed]`. `signed` is the bytes of `[1, group_id, epoch, version, targets, issuer]`,
with epoch and version as the issuer knows them:

    1. The issuer is a member and no board, without interruption since that version: a Revoke from before its removal
       does not count after it was added again. Changes that the issuer did not know do not save the group. A Revoke of
       a later epoch waits for the manifest that begins that epoch.
    2. A member stops sending and accepting in the group at once, and sends the same bytes once to every other member
       and target, because the issuer may not have known all members.
    3. A member forgets the group when all of them have acknowledged, or a day later. The commit that stored the Revoke
       is the only turning point: a crash changes nothing.
    4. A device without another group forgets everything, including its keys, and is a new device at its next start.
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
    if issuer is None or issuer.is_board:
        raise UnknownIssuerError("the issuer of the Revoke is not a member, or is a board")
    if revoke.version < issuer.since:
        raise RollbackError(f"the Revoke is for version {revoke.version}; its issuer is a member since {issuer.since}")
