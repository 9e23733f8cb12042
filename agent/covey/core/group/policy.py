"""Permissions to change a group, by its mode: pure functions of the state before the change (docs/protocol/).

    1. The issuer is a member (000.13) and no board: a board follows no manifests, so a change with its signature was
       made with stolen keys. In a public group a stranger may add itself as a plain member, if it changes nothing else
       (003.09) and there are fewer than `SELF_JOINED_MEMBERS`.
    2. Any member may leave: remove itself and nothing else.
    3. Only its owner changes a device's noise key and what it announces of its build.
    4. invites-only (the default) and personal: all members are equal and may change everything else; nobody is an admin
       (001.02).
    5. one-to-one: only the device that the genesis names may be added; neither member removes the other.
    6. admin-invites and public: only admins add others, make admins, and change other members' labels and capabilities.
       An admin stays an admin unless banned. Every member may change its own label.
    7. In these two modes a removal is always a ban. A ban or unban needs the votes of more than half of the admins of
       the state before, including the issuer (003.34). Nobody votes about itself. A vote names the group, the target,
       and the version since which the target is a member or banned, so it cannot be reused for a later ban. A target
       that is no member (a device or an open invite, 003.43) has no such version: the vote names the epoch instead,
       which every ban ends.
    8. A banned device is not a member (003.34), and a banned invite admits nobody.
    9. A new epoch that removes nobody replaces a lost secret. Any member may begin it where all members are equal and
       in one-to-one groups; elsewhere only admins may.

A vote is `[signature64, signed]`. `signed` is the bytes of `[1, group_id, action, target, since, voter]`; action 0 bans
a member, 1 ends a ban, and 2 bans a device or invite that is no member.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import EQUAL_MODES, GroupManifest, Mode, Role
from covey.core.group.resolver import Change, GroupState
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, GroupId
from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError, NotAllowedError, UnknownIssuerError, VoteError
from covey.limits.group import SELF_JOINED_MEMBERS

_DOMAIN = b"covey/1 vote"
_VERSION = 1
_VOTE_BYTES = 256


class Action(IntEnum):
    """What a vote is for."""

    BAN = 0
    UNBAN = 1
    KEEP_OUT = 2
    """A ban of what is no member: a device, or an outstanding invite."""


@dataclass(frozen=True, slots=True)
class Vote:
    """One admin's signed wish; `raw` is the exact bytes."""

    group_id: GroupId
    action: Action
    target: DeviceKey
    since: int
    voter: DeviceKey
    raw: bytes


def sign_vote(group_id: GroupId, action: Action, target: DeviceKey, since: int, identity: Identity) -> Vote:
    """Return a vote by `identity`. `since`: `target_since` in the state before."""
    signed = cbor.encode_growing([_VERSION, group_id, int(action), target, since, identity.signing_public])
    raw = cbor.encode([crypto.sign(_DOMAIN, signed, identity), signed])
    return Vote(group_id, action, target, since, identity.signing_public, raw)


def read_vote(raw: bytes) -> Vote:
    """Parse a vote and verify its signature.

    Raises:
        RemoteError: malformed, or not signed by the voter that it names.
    """
    signature, signed = cbor.record(
        cbor.decode(raw, _VOTE_BYTES), "vote", cbor.octets(crypto.SIGNATURE_BYTES), cbor.octets_to(_VOTE_BYTES)
    )
    version, group_id, action, target, since, voter = cbor.record(
        cbor.decode_growing(signed, _VOTE_BYTES),
        "signed vote",
        cbor.uint(255),
        cbor.octets(GROUP_ID_BYTES),
        cbor.uint(255),
        cbor.octets(KEY_BYTES),
        cbor.uint(),
        cbor.octets(KEY_BYTES),
    )
    if version != _VERSION or action not in Action.__members__.values():
        raise MalformedError("an unknown kind of vote: a newer Covey?")
    crypto.verify(_DOMAIN, signed, signature, voter)
    return Vote(group_id, Action(action), target, since, voter, raw)


def admins(state: GroupState) -> frozenset[DeviceKey]:
    """Return the keys of the admins."""
    return frozenset(key for key, member in state.members.items() if member.role is Role.ADMIN)


def majority(state: GroupState) -> int:
    """Return how many votes a ban needs: more than half of the admins."""
    return len(admins(state)) // 2 + 1


def target_since(state: GroupState, epoch: int, action: Action, target: DeviceKey) -> int | None:
    """Return the `since` of a vote that counts in a state of that epoch; None where there is nothing to vote about."""
    member = state.members.get(target)
    if action is Action.BAN:
        return None if member is None else member.since
    if action is Action.UNBAN:
        return state.banned.get(target)
    return None if member is not None or target in state.banned else epoch


def voted_for(
    state: GroupState, epoch: int, group_id: GroupId, action: Action, target: DeviceKey, votes: list[Vote]
) -> set[DeviceKey]:
    """Return the admins whose votes count for an action, in a state of that epoch (rule 7)."""
    since = target_since(state, epoch, action, target)
    return {
        vote.voter
        for vote in votes
        if (vote.group_id, vote.action, vote.target, vote.since) == (group_id, action, target, since)
        and vote.voter != target
        and vote.voter in admins(state)
    }


def may_renew(mode: Mode, before: GroupState, issuer: DeviceKey) -> bool:
    """Say whether a member may begin an epoch that removes nobody (rule 9)."""
    return issuer in before.members and (mode in EQUAL_MODES or mode is Mode.ONE_TO_ONE or issuer in admins(before))


def authorise(manifest: GroupManifest, before: GroupState, change: Change, *, renews: bool) -> None:
    """Check rules 1 to 9 for a manifest that makes `change` to `before`; `renews`: it only begins an epoch.

    Raises:
        UnknownIssuerError: rule 1.
        NotAllowedError: rules 1 to 6, 8 and 9.
        LimitError: rule 1.
        VoteError: rule 7.
    """
    issuer = manifest.issuer
    if issuer not in before.members:
        _check_stranger(manifest, before, change)
        return
    if before.members[issuer].is_board:
        raise UnknownIssuerError("a board changes no group")
    if any(member.since != manifest.version for member in change.added.values()) or any(
        since != manifest.version for since in change.banned.values()
    ):
        raise MalformedError("additions must carry the version that adds them")
    if set(change.noise) - {issuer}:
        raise NotAllowedError("only a noise key's owner may change it")
    if set(change.extensions) - {issuer}:
        raise NotAllowedError("only a device may change what it announces")
    if renews and not may_renew(manifest.mode, before, issuer):
        raise NotAllowedError("only an admin may begin an epoch in this mode")
    if issuer in change.removed:
        _check_leave(issuer, change)
        return
    if manifest.mode in EQUAL_MODES:
        if change.roles or any(member.role is not Role.MEMBER for member in change.added.values()):
            raise NotAllowedError("this mode has no admins")
    elif manifest.mode is Mode.ONE_TO_ONE:
        _check_one_to_one(manifest, change)
    else:
        _check_admin_modes(manifest, before, change)


def _check_stranger(manifest: GroupManifest, before: GroupState, change: Change) -> None:
    """Rule 1."""
    joins_alone = set(change.added) == {manifest.issuer} and not change.removed | change.touched and not change.unbanned
    if manifest.mode is not Mode.PUBLIC or not joins_alone or change.banned:
        raise UnknownIssuerError("the issuer is not a member of the preceding manifest")
    added = change.added[manifest.issuer]
    if added.role is not Role.MEMBER or added.capabilities or added.since != manifest.version:
        raise NotAllowedError("a device that adds itself must be a plain member")
    if len(before.members) >= SELF_JOINED_MEMBERS:
        raise LimitError("only admins may fill the rest of a public group")


def _check_leave(issuer: DeviceKey, change: Change) -> None:
    """Rule 2."""
    if change.removed != {issuer} or change.added or change.touched or change.banned or change.unbanned:
        raise NotAllowedError("a member that leaves must change nothing else")


def _check_one_to_one(manifest: GroupManifest, change: Change) -> None:
    """Rule 5."""
    if set(change.added) - {manifest.invited}:
        raise NotAllowedError("this group is for another device")
    if change.removed or change.banned or change.unbanned or change.roles:
        raise NotAllowedError("in a one-to-one group a member can only leave")
    if set(change.labels) - {manifest.issuer} or set(change.capabilities) - {manifest.issuer}:
        raise NotAllowedError("in this mode a member may change only its own record")


def _check_admin_modes(manifest: GroupManifest, before: GroupState, change: Change) -> None:
    """Rules 6 and 7."""
    issuer = manifest.issuer
    if issuer not in admins(before):
        others = (set(change.labels) | set(change.roles) | set(change.capabilities)) - {issuer}
        if change.added or others or change.roles or change.capabilities or change.unbanned or change.removed:
            raise NotAllowedError("only an admin may do that in this mode")
    if any(role is not Role.ADMIN for role in change.roles.values()):
        raise NotAllowedError("only a ban can remove an admin")
    if change.removed - set(change.banned):
        raise NotAllowedError("in this mode a member can be removed only by a ban")
    if not (change.banned or change.unbanned):
        return
    votes = [read_vote(raw) for raw in manifest.votes]
    if any(vote.voter == vote.target for vote in votes):
        raise VoteError("a device must not vote on itself")
    if any(vote.voter not in admins(before) for vote in votes):
        raise VoteError("the voter is not an admin")
    wanted = [(Action.BAN if key in before.members else Action.KEEP_OUT, key) for key in change.banned]
    wanted += [(Action.UNBAN, key) for key in change.unbanned]
    for action, target in wanted:
        voters = voted_for(before, manifest.epoch - 1, manifest.group_id, action, target, votes)
        if issuer not in voters or len(voters) < majority(before):
            raise VoteError(f"{len(voters)} of {majority(before)} required votes")
