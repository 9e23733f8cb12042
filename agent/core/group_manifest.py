"""The group manifest: the signed document that says who belongs to a group (docs/protocol.md, "Group manifests").

A manifest is `[signature64, document]`. `document` is the exact bytes of `[1, group_id, version, prev, mode, members,
banned, epoch, issuer]`, each member `[signing_pub, noise_pub, name, label, role, capabilities]`, sorted by signing
key. What may follow what is decided in `trust.py`; this module knows only what one document must look like by itself:

    1. The signature verifies under the issuer's key, over the exact bytes with a domain tag (000.05).
    2. Version 1 has an all-zero `prev`; every later one names the hash of the manifest before.
    3. Members are sorted, with no key twice among signing or noise keys, and at most 1,000.
    4. A member's name is the hex of its signing key's first 4 bytes (000.08); a name that lies is refused.
    5. The issuer of a genesis is its only member.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from agent.core import crypto, wire
from agent.core.crypto import DeviceKeys, Identity
from agent.core.ids import GROUP_ID_BYTES, KEY_BYTES, device_name
from agent.core.limits import (
    MAXIMUM_CAPABILITIES,
    MAXIMUM_CAPABILITY_BYTES,
    MAXIMUM_LABEL_BYTES,
    MAXIMUM_MANIFEST_BYTES,
    MAXIMUM_MEMBERS,
)
from agent.errors import LimitError, LocalError, MalformedError

_DOMAIN = b"covey/1 group manifest"
_HASH_DOMAIN = b"covey/1 gm hash"
_VERSION = 1
_HASH_BYTES = 32
_SIGNATURE_OVERHEAD = 1 + 2 + crypto.SIGNATURE_BYTES + 5
"""What `[signature64, document]` adds to a document."""
NO_MANIFEST = bytes(_HASH_BYTES)
"""`prev` of a genesis."""

COLLECTOR = "collector"
"""The capability of members that telemetry is sent to."""


class Mode(IntEnum):
    """Who may change the group; fixed at genesis. In the default mode every member is equal."""

    INVITES_ONLY = 2


class Role(IntEnum):
    """A member's role; admin modes give it meaning."""

    MEMBER = 0
    ADMIN = 1


@dataclass(frozen=True, slots=True)
class Member:
    """One device in a group."""

    keys: DeviceKeys
    label: str = ""
    role: Role = Role.MEMBER
    capabilities: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The 8 hex digits derived from the signing key."""
        return device_name(self.keys.signing_public)

    def to_wire(self) -> list[object]:
        """Return the member's array."""
        keys = self.keys
        return [
            keys.signing_public,
            keys.noise_public,
            self.name,
            self.label,
            int(self.role),
            list(self.capabilities),
        ]

    @classmethod
    def from_wire(cls, value: object) -> Member:
        """Parse a member.

        Raises:
            RemoteError: malformed, a bound exceeded, or a name that lies.
        """
        signing_public, noise_public, name, label, role, capabilities = wire.record(
            value,
            "member",
            wire.octets(KEY_BYTES),
            wire.octets(KEY_BYTES),
            wire.text(8),
            wire.text(MAXIMUM_LABEL_BYTES),
            wire.uint(255),
            wire.many(wire.text(MAXIMUM_CAPABILITY_BYTES), MAXIMUM_CAPABILITIES),
        )
        if name != device_name(signing_public):
            raise MalformedError("a member's name is not the one its key gives")
        if list(capabilities) != sorted(set(capabilities)):
            raise MalformedError("capabilities must be sorted and distinct")
        if role not in Role.__members__.values():
            raise MalformedError(f"role {role}: a newer Covey?")
        return cls(DeviceKeys(signing_public, noise_public), label, Role(role), capabilities)


@dataclass(frozen=True, slots=True)
class GroupManifest:
    """One version of a group's membership; `raw` is the exact signed bytes, empty while unsigned."""

    group_id: bytes
    version: int
    prev: bytes
    mode: Mode
    members: tuple[Member, ...]
    banned: tuple[bytes, ...]
    epoch: int
    issuer: bytes
    raw: bytes = b""

    @property
    def hash(self) -> bytes:
        """The 32-byte BLAKE2b hash that the next version's `prev` names."""
        return crypto.digest(_HASH_DOMAIN, self.raw)

    def member(self, signing_public: bytes) -> Member | None:
        """Return the member with that signing key."""
        return next((member for member in self.members if member.keys.signing_public == signing_public), None)

    def with_capability(self, capability: str) -> tuple[Member, ...]:
        """Return the members that have a capability, in order."""
        return tuple(member for member in self.members if capability in member.capabilities)

    def adding(self, member: Member) -> GroupManifest:
        """Return the unsigned next version with one member more.

        Raises:
            LocalError: the group is full, or has a member with one of these keys; or the manifest would be
                longer than anybody accepts.
        """
        if len(self.members) >= MAXIMUM_MEMBERS:
            raise LocalError(f"the group has {MAXIMUM_MEMBERS} members, the most that a manifest holds")
        for present in self.members:
            if present.keys.signing_public == member.keys.signing_public:
                raise LocalError(f"device {member.name} is a member already")
            if present.keys.noise_public == member.keys.noise_public:
                raise LocalError(f"device {member.name} uses the noise key of member {present.name}")
        members = tuple(sorted((*self.members, member), key=lambda each: each.keys.signing_public))
        following = replace(self, version=self.version + 1, prev=self.hash, members=members, raw=b"")
        if len(_document(following, following.issuer)) + _SIGNATURE_OVERHEAD > MAXIMUM_MANIFEST_BYTES:
            raise LocalError(
                f"the group manifest would exceed {MAXIMUM_MANIFEST_BYTES} bytes", hint="use shorter labels"
            )
        return following


def genesis(group_id: bytes, creator: Member, mode: Mode = Mode.INVITES_ONLY) -> GroupManifest:
    """Return the unsigned first version of a group: its creator alone. `group_id` is 32 random bytes (000.01)."""
    return GroupManifest(group_id, 1, NO_MANIFEST, mode, (creator,), (), 1, creator.keys.signing_public)


def sign_manifest(manifest: GroupManifest, identity: Identity) -> GroupManifest:
    """Return the manifest issued and signed by `identity`."""
    document = _document(manifest, identity.signing_public)
    raw = wire.encode([crypto.sign(_DOMAIN, document, identity), document])
    return replace(manifest, issuer=identity.signing_public, raw=raw)


def _document(manifest: GroupManifest, issuer: bytes) -> bytes:
    return wire.encode(
        [
            _VERSION,
            manifest.group_id,
            manifest.version,
            manifest.prev,
            int(manifest.mode),
            [member.to_wire() for member in manifest.members],
            list(manifest.banned),
            manifest.epoch,
            issuer,
        ]
    )


def read_manifest(raw: bytes) -> GroupManifest:
    """Parse a manifest and check rules 1 to 5.

    Raises:
        LimitError: too long or too many members; nothing was parsed beyond the bound.
        MalformedError: rules 2 to 5, or an unknown version or mode.
        SignatureError: rule 1.
    """
    signature, document = wire.record(
        wire.decode(raw, MAXIMUM_MANIFEST_BYTES),
        "group manifest",
        wire.octets(crypto.SIGNATURE_BYTES),
        wire.octets_to(MAXIMUM_MANIFEST_BYTES),
    )
    format_version, group_id, version, prev, mode, members, banned, epoch, issuer = wire.record(
        wire.decode(document, MAXIMUM_MANIFEST_BYTES),
        "group manifest document",
        wire.uint(255),
        wire.octets(GROUP_ID_BYTES),
        wire.uint(),
        wire.octets(_HASH_BYTES),
        wire.uint(255),
        wire.many(Member.from_wire, MAXIMUM_MEMBERS),
        wire.many(wire.octets(KEY_BYTES), MAXIMUM_MEMBERS),
        wire.uint(),
        wire.octets(KEY_BYTES),
    )
    if format_version != _VERSION:
        raise MalformedError(f"group manifest format {format_version}: a newer Covey?")
    crypto.verify(_DOMAIN, document, signature, issuer)
    if mode not in Mode.__members__.values():
        raise MalformedError(f"group mode {mode}: a newer Covey?")
    manifest = GroupManifest(group_id, version, prev, Mode(mode), members, banned, epoch, issuer, raw)
    _check_members(manifest)
    return manifest


def _check_members(manifest: GroupManifest) -> None:
    """Rules 2, 3 and 5."""
    if manifest.version == 0 or (manifest.version == 1) != (manifest.prev == NO_MANIFEST):
        raise MalformedError("only version 1 has no manifest before it")
    signing = [member.keys.signing_public for member in manifest.members]
    noise = {member.keys.noise_public for member in manifest.members}
    if signing != sorted(set(signing)) or len(noise) != len(signing):
        raise MalformedError("members must be sorted, and no key may stand twice")
    if list(manifest.banned) != sorted(set(manifest.banned)):
        raise MalformedError("banned keys must be sorted and distinct")
    if not signing:
        raise LimitError("a group has at least one member")
    if manifest.version == 1 and signing != [manifest.issuer]:
        raise MalformedError("a genesis lists its issuer alone")
