"""Collecting admins' votes until they decide, in the modes with admins (003.34; the rules: `group/policy.py`).

Ending a ban admits the device again, as it was (003.45): its record is in the manifests before the ban.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, Mode, read_manifest
from covey.core.group.messages import GroupSend
from covey.core.group.policy import (
    Action,
    admins,
    majority,
    read_vote,
    sign_vote,
    target_since,
    voted_for,
)
from covey.core.group.resolver import GroupState
from covey.core.ids import DeviceKey, EpochId
from covey.core.membership.events import VoteCast
from covey.core.membership.groups import Groups
from covey.core.membership.membership import Membership
from covey.core.wire.message import Message, MessageType
from covey.errors import AheadError, LimitError, LocalError, VoteError

if TYPE_CHECKING:
    from covey.core.records.groups import GroupRecords, VoteRecords

VOTING_MODES = frozenset({Mode.ADMIN_INVITES, Mode.PUBLIC})


@dataclass(frozen=True, slots=True)
class Voting:
    """How far a vote has come."""

    votes: int
    needed: int

    @property
    def decided(self) -> bool:
        """Say whether the group has changed."""
        return self.votes >= self.needed


def vote(
    membership: Membership,
    identity: Identity,
    records: VoteRecords,
    manifest: GroupManifest,
    action: Action,
    target: DeviceKey,
    now_us: int,
    former: Member | None = None,
) -> tuple[Voting, list[GroupSend]]:
    """Vote, and issue the manifest if that decides it; otherwise tell the other admins, but not the target.

    `former` is the record that the end of a ban lets in again.

    Raises:
        LocalError: this device is no admin, or votes about itself, or there is nothing to vote about.
    """
    state, group_id, own = GroupState.of(manifest), manifest.group_id, identity.signing_public
    epoch = membership.groups.trust(group_id).epoch
    if own not in admins(state):
        raise LocalError("only an admin can vote in this group")
    if own == target:
        raise LocalError("a device cannot vote on itself", hint="to leave the group: covey group leave")
    since = target_since(state, epoch, action, target)
    if since is None:
        raise LocalError("the group has no such member or ban")
    ours = sign_vote(group_id, action, target, since, identity)
    kept = {
        each.voter: each
        for each in map(read_vote, records.of_group(group_id))
        if voted_for(state, epoch, group_id, action, target, [each])
    }
    kept[own] = ours
    voting = Voting(len(kept), majority(state))
    if not voting.decided:
        if not records.save(group_id, own, ours.raw, admins(state)):
            raise LocalError("too many votes of this device are open", hint="'covey group show' lists them")
        others = sorted(admins(state) - {own, target})
        return voting, [GroupSend(each, MessageType.GROUP_VOTE, group_id, ours.raw) for each in others]
    evidence = tuple(each.raw for each in kept.values())

    def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        if action is Action.UNBAN:
            return readmitting(draft.unbanning(target, evidence), former)
        return draft.banning(target, epoch_id, evidence)

    sends = membership.change(group_id, edit, now_us)
    for raw in records.of_group(group_id):
        if read_vote(raw).target == target:
            records.drop(group_id, raw)
    return voting, sends


def receive_vote(groups: Groups, records: VoteRecords, message: Message) -> VoteCast:
    """Keep another admin's vote for a manifest of ours.

    Raises:
        AheadError: it may count when a manifest has come that makes its voter an admin, or brings its target.
        RemoteError: malformed, or it counts for nothing in this group.
    """
    cast = read_vote(message.body)
    manifest = groups.group(message.group_id)
    if manifest.mode not in VOTING_MODES or cast.group_id != message.group_id or cast.voter == cast.target:
        raise VoteError("the vote does not count in this group")
    state, epoch = GroupState.of(manifest), groups.trust(message.group_id).epoch
    about = message.group_id, cast.action, cast.target
    if not voted_for(state, epoch, *about, [cast]):
        since = target_since(state, epoch, cast.action, cast.target)
        newest = epoch if cast.action is Action.KEEP_OUT else manifest.version
        if cast.since > newest or (cast.since == since and cast.voter not in admins(state)):
            raise AheadError("the vote depends on a manifest that has not arrived")
        raise VoteError("the vote does not count in this group")
    if not records.save(message.group_id, cast.voter, cast.raw, admins(state)):
        raise LimitError("too many votes of this admin are open")
    alike = voted_for(state, epoch, *about, list(map(read_vote, records.of_group(message.group_id))))
    return VoteCast(message.group_id, cast.action, cast.target, cast.voter, len(alike), majority(state))


@dataclass(frozen=True, slots=True)
class OpenVote:
    """An open vote of admins: the votes so far, and the number needed."""

    action: Action
    target: DeviceKey
    voters: tuple[DeviceKey, ...]
    needed: int


def open_votes(groups: Groups, records: VoteRecords, manifest: GroupManifest) -> list[OpenVote]:
    """Return what the admins of a group vote about now, as far as this device knows; sorted."""
    if manifest.mode not in VOTING_MODES:
        return []
    state, kept = GroupState.of(manifest), list(map(read_vote, records.of_group(manifest.group_id)))
    epoch = groups.trust(manifest.group_id).epoch
    found = []
    for action, target in sorted({(each.action, each.target) for each in kept}):
        voters = voted_for(state, epoch, manifest.group_id, action, target, kept)
        if voters:
            found.append(OpenVote(action, target, tuple(sorted(voters)), majority(state)))
    return found


def own_votes(groups: Groups, records: VoteRecords, own: DeviceKey) -> list[VoteCast]:
    """Return how far what this device has voted for has come, in each group as it is now."""
    found = []
    for manifest in (group for group in groups.joined() if group.mode in VOTING_MODES):
        state, kept = GroupState.of(manifest), list(map(read_vote, records.of_group(manifest.group_id)))
        epoch = groups.trust(manifest.group_id).epoch
        for ours in (each for each in kept if each.voter == own):
            about = manifest.group_id, ours.action, ours.target
            if voted_for(state, epoch, *about, [ours]):
                found.append(VoteCast(*about, own, len(voted_for(state, epoch, *about, kept)), majority(state)))
    return found


def former_member(records: GroupRecords, group: GroupManifest, target: DeviceKey) -> Member | None:
    """Return the record that a banned device had last, where this device knows it.

    The newest key of a device that rotated after its ban is not known to the group: then an invite has to help.
    """
    ban = group.ban(target)
    if ban is None:
        return None
    found = None
    for raw in records.manifests_from(group.group_id, 1, -1):
        manifest = read_manifest(raw, verify=False)
        if manifest.version < ban.since:
            found = manifest.member(target) or found
    return found


def readmitting(draft: GroupManifest, former: Member | None) -> GroupManifest:
    """Return the draft with a former member in it, if there is one.

    Raises:
        LocalError: the group is full, or another member has its noise key.
    """
    return draft if former is None else draft.adding(replace(former, since=draft.version))
