"""The group manifest: the signed document that lists a group's members (docs/protocol/core.md, "Group manifests").

A manifest is `[signature64, document]`. `document` is the exact bytes of `[1, group_id, version, prev, mode, invited,
members, banned, epoch, epoch_id, votes, issuer]`; each member is `[signing_pub, noise_pub, name, label, role,
capabilities, since, allowance]`, sorted by signing key. Document and member may end with an extension map. `trust.py`
decides which manifest may follow which; this module checks one document by itself:

    1. The signature verifies under the issuer's key, over the exact bytes with a domain tag (000.05).
    2. Version 1 has no `prev`. Every later version names the hashes of the manifests that it follows, sorted: one, or
       several if it ends a conflict.
    3. Members are sorted; no signing or noise key appears twice; there are at most 1,000. No device is both a member
       and banned. Every noise key can be sealed for.
    4. A member's name is the hex of its signing key's first 4 bytes (000.08); any other name is refused.
    5. The issuer of a genesis is its only member, and an admin if the mode has admins. A genesis bans nobody.
    6. `since` is the version that added the member or the ban, so it is at most the manifest's own version. `epoch_id`
       is the hash of the epoch's secret, so a member that passes the secret on cannot change it.
    7. Only a one-to-one group names the one device that it is for (003.07).
    8. The founder's allowance in a genesis is `FOUNDER_ALLOWANCE` (`allowance.py`).
    9. If the version of the judging rules is above 1, every member announces that it supports that version (`RULES`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, lru_cache

from covey.core import crypto
from covey.core.crypto import DeviceKeys, Identity
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, EpochId, GroupId, ManifestHash, device_name
from covey.core.wire import cbor
from covey.core.wire.announcement import FEATURES, KNOWN_RULES, announced, check_announcement, read_rules_version
from covey.errors import LimitError, LocalError, MalformedError
from covey.limits.group import (
    ALLOWANCE_PART,
    FOUNDER_ALLOWANCE,
    LEAST_ALLOWANCE,
    MANIFEST_PAGE_BYTES,
    MAXIMUM_CAPABILITIES,
    MAXIMUM_CAPABILITY_BYTES,
    MAXIMUM_HEADS,
    MAXIMUM_LABEL_BYTES,
    MAXIMUM_LISTED_BYTES,
    MAXIMUM_MANIFEST_BYTES,
    MAXIMUM_MEMBERS,
    MEMBER_ALLOWANCE,
    REMEMBERED_MANIFEST_BYTES,
    REMEMBERED_MANIFESTS,
    RESERVED_PAGES,
    RESERVED_REMOVALS,
    STRANGER_ALLOWANCE,
)

_DOMAIN = b"covey/1 group manifest"
_HASH_DOMAIN = b"covey/1 gm hash"
_EPOCH_DOMAIN = b"covey/1 epoch"
_VERSION = 1
_HASH_BYTES = 32
_VOTE_BYTES = 256
_SIGNATURE_OVERHEAD = 1 + 2 + crypto.SIGNATURE_BYTES + 5
"""What `[signature64, document]` adds to a document."""
COLLECTOR = "collector"
"""The capability of members that telemetry is sent to."""

MAILBOX = "mailbox"
"""The capability of members that keep sealed envelopes for others that sleep (`core/mailbox/`)."""

BOARD = "board"
"""The capability of members behind a gateway: they are sent nothing of the group (`forwarding.py`)."""


RULES = 4
"""The key of a document's extension map that names the version of the rules by which what follows it is judged; without
it, that is version 1."""


class Mode(IntEnum):
    """Who may change the group; fixed at genesis (003.07). In the default mode every member is equal."""

    ONE_TO_ONE = 0
    ADMIN_INVITES = 1
    INVITES_ONLY = 2
    PUBLIC = 3
    PERSONAL = 4
    """One person's own devices, each equal to the others."""


EQUAL_MODES = frozenset({Mode.INVITES_ONLY, Mode.PERSONAL})
"""Modes that know no admins, and in which every member may do everything."""


class Role(IntEnum):
    """A member's role; admin modes give it meaning."""

    MEMBER = 0
    ADMIN = 1


@dataclass(frozen=True, slots=True)
class Member:
    """One device in a group; `since` is the version that let it in."""

    keys: DeviceKeys
    label: str = ""
    role: Role = Role.MEMBER
    capabilities: tuple[str, ...] = ()
    since: int = 1
    extensions: bytes = b""
    """What the device says of its build: an encoded extension map, kept whole, with what this build does not know."""
    allowance: int = field(default=0, compare=False)
    """How many pages of manifests the member can still issue (`allowance.py`). Two records that differ only by it list
    the same: who ends a conflict pays for that, and a rival end of it lists what the other one paid."""

    @property
    def features(self) -> frozenset[int] | None:
        """The protocol features that the device announces (`core/group/features.py`); None where it announces none."""
        said = announced(self.extensions).get(FEATURES)
        return None if said is None else frozenset(said)

    @property
    def known_rules(self) -> int:
        """The highest version of judging rules that the device announces."""
        found: int = announced(self.extensions).get(KNOWN_RULES, 1)
        return found

    @property
    def name(self) -> str:
        """The 8 hex digits derived from the signing key."""
        return device_name(self.keys.signing_public)

    @property
    def is_board(self) -> bool:
        """Whether it hangs behind a gateway, and is sent nothing of the group."""
        return BOARD in self.capabilities

    @property
    def wire_bytes(self) -> int:
        """How long the member's array is."""
        texts = [self.label, *self.capabilities]
        headers = 1 + 2 * cbor.head_bytes(KEY_BYTES) + cbor.head_bytes(8) + 1 + cbor.head_bytes(len(self.capabilities))
        lengths = [len(each.encode()) for each in texts]
        headers += sum(map(cbor.head_bytes, lengths)) + cbor.head_bytes(self.since)
        headers += cbor.head_bytes(self.allowance)
        return headers + 2 * KEY_BYTES + 8 + sum(lengths) + len(self.extensions)

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
            self.since,
            self.allowance,
            *([announced(self.extensions)] if self.extensions else []),
        ]

    @classmethod
    def from_wire(cls, value: object) -> Member:
        """Parse a member.

        Raises:
            RemoteError: malformed, a bound exceeded, or a name that lies.
        """
        fields, extensions = cbor.split_extensions(value)
        check_announcement(extensions)
        signing_public, noise_public, name, label, role, capabilities, since, allowance = cbor.record(
            fields, "member", *_MEMBER_READERS
        )
        if name != device_name(signing_public):
            raise MalformedError("a member's name does not match its key")
        crypto.check_noise_key(noise_public)
        if list(capabilities) != sorted(set(capabilities)):
            raise MalformedError("capabilities must be sorted and distinct")
        if role not in Role.__members__.values():
            raise MalformedError(f"role {role}: a newer Covey?")
        said = cbor.encode(extensions) if extensions else b""
        keys = DeviceKeys(signing_public, noise_public)
        return cls(keys, label, Role(role), capabilities, since, said, allowance)


_MEMBER_READERS = (
    cbor.octets(KEY_BYTES),
    cbor.octets(KEY_BYTES),
    cbor.text(8),
    cbor.text(MAXIMUM_LABEL_BYTES),
    cbor.uint(255),
    cbor.many(cbor.text(MAXIMUM_CAPABILITY_BYTES), MAXIMUM_CAPABILITIES),
    cbor.uint(),
    cbor.uint(FOUNDER_ALLOWANCE),
)


@dataclass(frozen=True, slots=True)
class Ban:
    """Who may not come in until it is unbanned; `since` is the version that banned it.

    Named is a device by its signing key, or an outstanding invite by its id (`Invite.secret_hash`): with that, nobody
    is let in any more.
    """

    signing_public: DeviceKey
    since: int

    @property
    def wire_bytes(self) -> int:
        """How long the ban's array is."""
        return 1 + cbor.head_bytes(KEY_BYTES) + KEY_BYTES + cbor.head_bytes(self.since)

    @classmethod
    def from_wire(cls, value: object) -> Ban:
        """Parse a ban.

        Raises:
            RemoteError: malformed.
        """
        return cls(*cbor.record(value, "ban", cbor.octets(KEY_BYTES), cbor.uint()))


@dataclass(frozen=True)
class GroupManifest:
    """One version of a group's membership; `raw` is the exact signed bytes, empty while unsigned."""

    group_id: GroupId
    version: int
    prev: tuple[ManifestHash, ...]
    mode: Mode
    invited: DeviceKey | None
    members: tuple[Member, ...]
    banned: tuple[Ban, ...]
    epoch: int
    epoch_id: EpochId
    votes: tuple[bytes, ...]
    issuer: DeviceKey
    raw: bytes = field(default=b"", repr=False)
    rules: int = 1
    """The version of the rules by which what follows it is judged."""
    before: GroupManifest | None = field(default=None, repr=False, compare=False)
    """Of a draft: what the group is before its changes, which its issuer pays for when it signs."""

    @cached_property
    def hash(self) -> ManifestHash:
        """The 32-byte BLAKE2b hash that a later version's `prev` names."""
        return manifest_hash(self.raw)

    def member(self, signing_public: DeviceKey) -> Member | None:
        """Return the member with that signing key."""
        return self._members_by_key.get(signing_public)

    def lists(self, member: Member) -> bool:
        """Say whether a device is a member."""
        return member.keys.signing_public in self._members_by_key

    @cached_property
    def writers(self) -> frozenset[DeviceKey]:
        """The members that write to the group's history: all but boards."""
        return frozenset(member.keys.signing_public for member in self.members if not member.is_board)

    @cached_property
    def _members_by_key(self) -> dict[DeviceKey, Member]:
        return {member.keys.signing_public: member for member in self.members}

    def ban(self, signing_public: DeviceKey) -> Ban | None:
        """Return the ban of a device."""
        return next((each for each in self.banned if each.signing_public == signing_public), None)

    def with_capability(self, capability: str) -> tuple[Member, ...]:
        """Return the members that have a capability, in order."""
        return self._members_by_capability.get(capability, ())

    @cached_property
    def _members_by_capability(self) -> dict[str, tuple[Member, ...]]:
        found: dict[str, list[Member]] = {}
        for member in self.members:
            for capability in dict.fromkeys(member.capabilities):
                found.setdefault(capability, []).append(member)
        return {capability: tuple(members) for capability, members in found.items()}

    def draft(self) -> GroupManifest:
        """Return the unsigned next version, unchanged so far; a draft returns itself."""
        if not self.raw:
            return self
        return replace(self, version=self.version + 1, prev=(self.hash,), votes=(), raw=b"").begun()

    def begun(self) -> GroupManifest:
        """Return an unsigned manifest as a draft, whose changes from here on its issuer pays for."""
        return replace(self, before=replace(self, before=None))

    def adding(self, member: Member) -> GroupManifest:
        """Return the draft with one member more.

        Raises:
            LocalError: the group is full, or has a member with one of these keys, or has banned it; or the manifest
                would be longer than anybody accepts.
        """
        if len(self.members) >= MAXIMUM_MEMBERS:
            raise LocalError(f"the group has {MAXIMUM_MEMBERS} members, the maximum")
        for present in self.members:
            if present.keys.signing_public == member.keys.signing_public:
                raise LocalError(f"device {member.name} is already a member")
            if present.keys.noise_public == member.keys.noise_public:
                raise LocalError(f"device {member.name} uses the noise key of member {present.name}")
        if self.ban(member.keys.signing_public):
            raise LocalError(f"device {member.name} is banned", hint=f"covey group unban {member.name}")
        draft = self.draft()
        return _fitting(_with_members(draft, (*draft.members, replace(member, since=draft.version))))

    def removing(self, signing_public: DeviceKey, epoch_id: EpochId) -> GroupManifest:
        """Return the draft without a member, in a new epoch, whose secret the member never gets (000.20).

        Raises:
            LocalError: no such member.
        """
        draft = self.draft()
        rest = tuple(each for each in draft.members if each.keys.signing_public != signing_public)
        if len(rest) == len(draft.members):
            raise LocalError(f"device {device_name(signing_public)} is not a member")
        return replace(draft, members=rest, epoch=draft.epoch + bool(self.raw), epoch_id=epoch_id)

    def renewing(self, epoch_id: EpochId) -> GroupManifest:
        """Return the draft in a new epoch, nothing else being changed: for a secret that nobody has any more."""
        return replace(self.draft(), epoch_id=epoch_id)

    def banning(self, signing_public: DeviceKey, epoch_id: EpochId, votes: tuple[bytes, ...] = ()) -> GroupManifest:
        """Return the draft that bans a device or an invite, in a new epoch; the banned one is not a member.

        Raises:
            LocalError: it is banned already, or a manifest holds no more bans.
        """
        if self.ban(signing_public):
            raise LocalError(f"{device_name(signing_public)} is already banned")
        if len(self.banned) >= MAXIMUM_MEMBERS:
            raise LocalError(
                f"the group has {MAXIMUM_MEMBERS} bans, the maximum", hint="lift one: covey group unban DEVICE"
            )
        draft = self.draft()
        if draft.member(signing_public) is not None:
            draft = self.removing(signing_public, epoch_id)
        else:
            draft = replace(draft, epoch=draft.epoch + bool(self.raw), epoch_id=epoch_id)
        banned = sorted((*draft.banned, Ban(signing_public, draft.version)), key=lambda each: each.signing_public)
        return _fitting(replace(draft, banned=tuple(banned), votes=tuple(sorted({*draft.votes, *votes}))))

    def unbanning(self, signing_public: DeviceKey, votes: tuple[bytes, ...] = ()) -> GroupManifest:
        """Return the draft in which a device may be invited again.

        Raises:
            LocalError: it is not banned.
        """
        draft = self.draft()
        banned = tuple(each for each in draft.banned if each.signing_public != signing_public)
        if len(banned) == len(draft.banned):
            raise LocalError(f"device {device_name(signing_public)} is not banned")
        return _fitting(replace(draft, banned=banned, votes=tuple(sorted({*draft.votes, *votes}))))

    def changing(self, member: Member) -> GroupManifest:
        """Return the draft in which a member's record is replaced.

        Raises:
            LocalError: no such member, or another member has the noise key.
        """
        draft = self.draft()
        present = draft.member(member.keys.signing_public)
        if present is None:
            raise LocalError(f"device {member.name} is not a member")
        member = replace(member, allowance=present.allowance)
        rest = tuple(each for each in draft.members if each.keys.signing_public != member.keys.signing_public)
        if any(each.keys.noise_public == member.keys.noise_public for each in rest):
            raise LocalError("another member uses that noise key")
        return _fitting(_with_members(draft, (*rest, member)))


def _with_members(draft: GroupManifest, members: tuple[Member, ...]) -> GroupManifest:
    return replace(draft, members=tuple(sorted(members, key=lambda each: each.keys.signing_public)))


def _fitting(draft: GroupManifest) -> GroupManifest:
    """Return the draft if it can be read back.

    Raises:
        LocalError: it would be longer than anybody accepts.
    """
    newcomers = [] if draft.before is None else [each for each in draft.members if not draft.before.lists(each)]
    to_give = (cbor.head_bytes(MEMBER_ALLOWANCE) - cbor.head_bytes(0)) * len(newcomers)
    if len(_document(draft, draft.issuer)) + _SIGNATURE_OVERHEAD + to_give > MAXIMUM_LISTED_BYTES:
        raise LocalError(f"the group manifest would exceed {MAXIMUM_LISTED_BYTES} bytes", hint="use shorter labels")
    return draft


def genesis(
    group_id: GroupId,
    creator: Member,
    epoch_id: EpochId,
    mode: Mode = Mode.INVITES_ONLY,
    invited: DeviceKey | None = None,
) -> GroupManifest:
    """Return the unsigned first version of a group: its creator alone. `group_id` is 32 random bytes (000.01).

    `epoch_id` is that of the first epoch's secret (`secret_id`); `invited` is the signing key of the other device of a
    one-to-one group.
    """
    role = creator.role if mode in EQUAL_MODES else Role.ADMIN
    creator = replace(creator, role=role, allowance=FOUNDER_ALLOWANCE)
    return GroupManifest(group_id, 1, (), mode, invited, (creator,), (), 1, epoch_id, (), creator.keys.signing_public)


def manifest_hash(raw: bytes) -> ManifestHash:
    """Return the hash by which later versions name a manifest."""
    return ManifestHash(crypto.digest(_HASH_DOMAIN, raw))


def secret_id(secret: bytes) -> EpochId:
    """Return the id of an epoch's 32-byte secret, which the manifest names."""
    return EpochId(crypto.digest(_EPOCH_DOMAIN, secret))


def sign_manifest(manifest: GroupManifest, identity: Identity) -> GroupManifest:
    """Return the manifest issued and signed by `identity`, which pays for a draft (`allowance.py`).

    Raises:
        LocalError: the issuer's allowance does not suffice.
    """
    if manifest.before is not None:
        manifest = _paid(manifest, manifest.before, identity.signing_public)
    document = _document(manifest, identity.signing_public)
    raw = cbor.encode([crypto.sign(_DOMAIN, document, identity), document])
    return replace(manifest, issuer=identity.signing_public, raw=raw, before=None)


def pages(length: int) -> int:
    """Return how many pages a manifest of that many bytes takes of its issuer's allowance."""
    return -(-length // MANIFEST_PAGE_BYTES)


def reserve(length: int) -> int:
    """Return the allowance that only removals may use, where a manifest has that many bytes: for several of these."""
    return RESERVED_PAGES + RESERVED_REMOVALS * pages(length)


def part_of(allowance: int, newcomers: int) -> int:
    """Return how much of its allowance a member gives to each of the devices that a manifest lets in: a quarter to all
    of them at most."""
    quarter = allowance // (4 * max(1, newcomers))
    return min(MEMBER_ALLOWANCE, quarter, max(allowance // ALLOWANCE_PART, LEAST_ALLOWANCE))


def is_exempt(mode: Mode, member: Member) -> bool:
    """Say whether a member's manifests cost it nothing: an admin's, in a mode that has admins."""
    return mode in {Mode.ADMIN_INVITES, Mode.PUBLIC} and member.role is Role.ADMIN


def _paid(manifest: GroupManifest, before: GroupManifest, issuer: DeviceKey) -> GroupManifest:
    """Return a draft with its issuer's allowance after it, and with what the issuer gives to those that it lets in.

    Raises:
        LocalError: the allowance does not suffice.
    """
    was = before.member(issuer)
    if manifest.member(issuer) is None:  # it leaves
        return manifest
    members = {member.keys.signing_public: member for member in manifest.members}
    newcomers = [key for key, member in members.items() if not before.lists(member)]
    left = was.allowance if was is not None else 0
    exempt = was is not None and is_exempt(manifest.mode, was)
    part = STRANGER_ALLOWANCE if was is None else MEMBER_ALLOWANCE if exempt else part_of(left, len(newcomers))
    for key in newcomers:
        given = 0 if members[key].is_board else part
        members[key] = replace(members[key], allowance=given)
        left -= given
    manifest = _with_members(manifest, tuple(members.values()))
    if was is None or exempt:
        return manifest
    length = len(_document(manifest, issuer)) + _SIGNATURE_OVERHEAD
    left -= pages(length) * (1 + len(newcomers))
    if left < (0 if _only_removes(manifest, before) else reserve(length)):
        raise LocalError(
            "this device has used up its allowance of changes to the group",
            hint="the group's founder can remove this device and invite it again",
        )
    return _with_members(manifest, tuple({**members, issuer: replace(members[issuer], allowance=left)}.values()))


def _only_removes(manifest: GroupManifest, before: GroupManifest) -> bool:
    """Return whether a draft removes members, and changes nothing else."""
    bans = [ban for ban in manifest.banned if ban not in before.banned]
    return (
        len(manifest.members) < len(before.members)
        and all(member == before.member(member.keys.signing_public) for member in manifest.members)
        and all(before.member(ban.signing_public) is not None for ban in bans)
        and len(manifest.banned) == len(before.banned) + len(bans)
    )


def _document(manifest: GroupManifest, issuer: DeviceKey) -> bytes:
    return cbor.encode_growing(
        [
            _VERSION,
            manifest.group_id,
            manifest.version,
            list(manifest.prev),
            int(manifest.mode),
            manifest.invited,
            [member.to_wire() for member in manifest.members],
            [[ban.signing_public, ban.since] for ban in manifest.banned],
            manifest.epoch,
            manifest.epoch_id,
            list(manifest.votes),
            issuer,
        ],
        {RULES: manifest.rules} if manifest.rules > 1 else None,
    )


def read_manifest(raw: bytes, *, verify: bool = True) -> GroupManifest:
    """Parse a manifest and check rules 1 to 7; what this device has stored was verified before.

    Raises:
        LimitError: too long or too many members; nothing was parsed beyond the bound.
        MalformedError: rules 2 to 7, or an unknown version or mode.
        SignatureError: rule 1.
    """
    signature, document, manifest = _parsed(raw) if len(raw) > REMEMBERED_MANIFEST_BYTES else _remembered(raw)
    if verify:
        crypto.verify(_DOMAIN, document, signature, manifest.issuer)
    return manifest


def _parsed(raw: bytes) -> tuple[bytes, bytes, GroupManifest]:
    """Return (signature, document, manifest): rules 2 to 7."""
    signature, document = cbor.record(
        cbor.decode(raw, MAXIMUM_MANIFEST_BYTES),
        "group manifest",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets_to(MAXIMUM_MANIFEST_BYTES),
    )
    value, extensions = cbor.split_extensions(cbor.decode(document, MAXIMUM_MANIFEST_BYTES), (RULES,))
    format_version, *fields = cbor.record(value, _WHAT, *_READERS)
    if format_version != _VERSION:
        raise MalformedError(f"group manifest format {format_version}: a newer Covey?")
    group_id, version, prev, mode, invited, members, banned, epoch, epoch_id, votes, issuer = fields
    if mode not in Mode.__members__.values():
        raise MalformedError(f"group mode {mode}: a newer Covey?")
    rules = read_rules_version(extensions.get(RULES, 1))
    if (RULES in extensions) != (rules > 1):
        raise MalformedError("version 1 of the judging rules is named by naming none")
    manifest = GroupManifest(
        group_id, version, prev, Mode(mode), invited, members, banned, epoch, epoch_id, votes, issuer, raw, rules
    )
    _check_lists(manifest)
    _check_genesis(manifest)
    if any(member.known_rules < rules for member in manifest.members):
        raise MalformedError(f"judging rules of version {rules}, which not every member announces to know")
    return signature, document, manifest


_remembered = lru_cache(REMEMBERED_MANIFESTS)(_parsed)
"""A manifest is parsed for its signature, for its place, at each start, and for whatever follows it."""

_WHAT = "group manifest document"
_READERS = (
    cbor.uint(255),
    cbor.octets(GROUP_ID_BYTES),
    cbor.uint(),
    cbor.many(cbor.octets(_HASH_BYTES), MAXIMUM_HEADS),
    cbor.uint(255),
    cbor.optional(cbor.octets(KEY_BYTES)),
    cbor.many(Member.from_wire, MAXIMUM_MEMBERS),
    cbor.many(Ban.from_wire, MAXIMUM_MEMBERS),
    cbor.uint(),
    cbor.octets(_HASH_BYTES),
    cbor.many(cbor.octets_to(_VOTE_BYTES), MAXIMUM_MEMBERS),
    cbor.octets(KEY_BYTES),
)


def _check_lists(manifest: GroupManifest) -> None:
    """Rules 2, 3 and 6."""
    if manifest.version == 0 or (manifest.version == 1) != (not manifest.prev):
        raise MalformedError("only version 1 may have no predecessor")
    if list(manifest.prev) != sorted(set(manifest.prev)):
        raise MalformedError("the predecessors' hashes must be sorted and distinct")
    signing = [member.keys.signing_public for member in manifest.members]
    noise = {member.keys.noise_public for member in manifest.members}
    if signing != sorted(set(signing)) or len(noise) != len(signing):
        raise MalformedError("members must be sorted and their keys distinct")
    banned = [ban.signing_public for ban in manifest.banned]
    if banned != sorted(set(banned)):
        raise MalformedError("banned keys must be sorted and distinct")
    if not set(banned).isdisjoint(signing):
        raise MalformedError("a device must not be both a member and banned")
    if not signing:
        raise LimitError("a group must have at least one member")
    since = [member.since for member in manifest.members] + [ban.since for ban in manifest.banned]
    if not 1 <= min(since) <= max(since) <= manifest.version:
        raise MalformedError("a member or ban is newer than the manifest")
    if list(manifest.votes) != sorted(set(manifest.votes)):
        raise MalformedError("votes must be sorted and distinct")


def _check_genesis(manifest: GroupManifest) -> None:
    """Rules 5 and 7."""
    if (manifest.mode is Mode.ONE_TO_ONE) != (manifest.invited is not None):
        raise MalformedError("exactly the one-to-one groups must name their other device")
    if manifest.version > 1:
        return
    if [member.keys.signing_public for member in manifest.members] != [manifest.issuer]:
        raise MalformedError("a genesis must list only its issuer")
    admin = manifest.members[0].role is Role.ADMIN
    if manifest.banned or manifest.votes or manifest.epoch != 1 or admin != (manifest.mode not in EQUAL_MODES):
        raise MalformedError("a genesis must have no bans, epoch 1, and the creator's role in its mode")
    if manifest.members[0].allowance != FOUNDER_ALLOWANCE:
        raise MalformedError(f"a founder's allowance is {FOUNDER_ALLOWANCE}")
    if manifest.invited == manifest.issuer:
        raise MalformedError("a one-to-one group must be for two devices")
