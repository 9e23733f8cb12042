"""Which group manifests a device accepts, and what it believes of the group: every rule, numbered, and nothing else.

    1. A manifest is well formed and signed by its issuer over the exact bytes (`group/manifest.py`).
    2. It is of the group that this trust was opened for.
    3. A genesis is accepted only for a group that this device created (000.15).
    4. Where a device has asked to join, it begins with manifests of which the newest is issued by the inviter whom the
       invite pins and lists the device itself, with a noise key that it holds. Older ones are believed as far as hashes
       lead to them.
    5. Later ones follow manifests that are held: `prev` names their hashes, none of which follows another. What follows
       something unknown is a gap, whoever issued it; what is older than everything held is a rollback (000.14).
    6. The version is exactly one above the highest of those that it follows (000.02).
    7. Mode and invited device never change.
    8. Its issuer may make this change to the state before (`group/policy.py`; 000.13, 003.07). The state before is that
       of the manifest followed, or what `resolver.py` makes of several.
    9. The epoch is the highest one followed, plus 1 where anybody was removed or several manifests are followed: so an
       older group secret, which removed devices hold, never comes back. A new epoch has a new secret, the same has the
       same.

Accepted manifests form a graph. Its ends are the heads. Where there is one, or one that says what all of them come to,
that one is the group's current manifest; equal ones are told apart by version, epoch and hash. Otherwise there is a
conflict: what holds at once is what the resolver says, and anybody may issue the manifest that follows all heads.

The floor is what is held: a device that lost its state asks to join anew. What every head follows is settled: it is
remembered by the store alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from covey.core.group.manifest import MERGEABLE, GroupManifest, Member, read_manifest
from covey.core.group.policy import authorise
from covey.core.group.resolver import GroupState, Step, difference, resolve
from covey.errors import (
    GenesisError,
    InviteError,
    LimitError,
    MalformedError,
    RemoteError,
    RollbackError,
    VersionGapError,
)
from covey.limits.group import MAXIMUM_OPEN_MANIFESTS


class Verdict(Enum):
    """Ordinary outcomes of offering a manifest."""

    ACCEPTED = "accepted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class _Placed:
    """An accepted manifest in the graph. The first one held, whose past is settled, has no step."""

    manifest: GroupManifest
    hash: bytes
    state: GroupState
    bit: int
    past: int
    step: Step | None


class GroupTrust:
    """One group as one device believes it to be. Changes only by manifests that every rule admits."""

    def __init__(self, group_id: bytes, current: GroupManifest | None) -> None:
        """Begin with nothing, or with a manifest that is trusted already."""
        self.group_id = group_id
        self.current: GroupManifest | None = None
        self._placed: dict[bytes, _Placed] = {}
        self._heads: dict[bytes, _Placed] = {}
        self._state = GroupState({}, {})
        self._bits = 0
        if current is not None:
            self._begin(current)

    # -- what is believed ---------------------------------------------------------------------------------------------

    @property
    def conflict(self) -> bool:
        """Say whether no manifest yet says what the heads come to; `current` is then unsigned."""
        return self.current is not None and not self.current.raw

    def heads(self) -> list[GroupManifest]:
        """Return the manifests that none follows, by hash."""
        return [placed.manifest for _, placed in sorted(self._heads.items())]

    def held(self) -> list[GroupManifest]:
        """Return the settled manifest that all others follow, and these, each after what it follows."""
        ordered = sorted(self._placed.values(), key=lambda each: (each.manifest.version, each.hash))
        return [each.manifest for each in ordered]

    @property
    def root(self) -> GroupManifest:
        """The settled manifest that all others held follow."""
        return min((placed.manifest for placed in self._placed.values()), key=lambda manifest: manifest.version)

    def void_members(self) -> dict[bytes, Member]:
        """Return the members that a manifest held lists, who are none, and whom nobody removed: what let them in is
        void."""
        members = self.current.members if self.current else ()
        believed = {member.keys.signing_public for member in members}
        for placed in self._placed.values():
            believed |= placed.step.change.removed if placed.step else set()
        return {
            key: member
            for placed in self._placed.values()
            for key, member in placed.state.members.items()
            if key not in believed
        }

    def told_to_void(self) -> list[GroupManifest]:
        """Return what those hear who are only in what is void: the manifests held up to the removals that make it so.

        Nothing later: whom these removed knows them already, and may have made up the devices that are told.
        """
        steps = [placed.step for placed in self._placed.values() if placed.step is not None]
        by_issuer: dict[bytes, list[Step]] = {}
        for step in steps:
            by_issuer.setdefault(step.issuer, []).append(step)
        told = 0
        for remover in steps:
            voided = (step for key in remover.change.removed for step in by_issuer.get(key, ()))
            if any(step.issuer != remover.issuer and step.concurrent(remover) for step in voided):
                told |= remover.past | remover.bit
        return [manifest for manifest in self.held() if self._placed[manifest.hash].bit & told]

    def holds(self, manifest_hash: bytes) -> bool:
        """Say whether an accepted manifest is in memory."""
        return manifest_hash in self._placed

    def draft(self, epoch_id: bytes) -> GroupManifest:
        """Return the unsigned next version, which follows every head and changes nothing so far.

        `epoch_id` is of the new secret that it brings where it follows several heads.

        Raises:
            GenesisError: no manifest is held.
        """
        if self.current is None:
            raise GenesisError("no manifest of this group is held")
        if len(self._heads) == 1:
            return self.current.draft()
        heads = sorted(self._heads.values(), key=self._significance)[:MERGEABLE]
        unsigned = replace(
            self.current,
            version=max(head.manifest.version for head in heads) + 1,
            prev=tuple(sorted(head.hash for head in heads)),
            epoch=max(head.manifest.epoch for head in heads) + (len(heads) > 1),
            epoch_id=epoch_id,
            votes=(),
            raw=b"",
        )
        if len(heads) == len(self._heads):
            return unsigned
        return self._state_after(heads).write(unsigned)

    def finish(self, edited: GroupManifest, epoch_id: bytes) -> GroupManifest:
        """Return an edited draft with the epoch that it begins or stays in (rule 9)."""
        parents = [self._placed[each] for each in edited.prev]
        newest = max((parent.manifest for parent in parents), key=lambda manifest: manifest.epoch)
        before = self._state_after(parents)
        begins = len(parents) > 1 or bool(before.members.keys() - GroupState.of(edited).members.keys())
        return replace(edited, epoch=newest.epoch + begins, epoch_id=epoch_id if begins else newest.epoch_id)

    def _significance(self, head: _Placed) -> tuple[bool, int, bytes]:
        return head.state != self._state, -head.manifest.version, head.hash

    # -- what changes it ----------------------------------------------------------------------------------------------

    def create(self, genesis: GroupManifest) -> Verdict:
        """Take this device's own genesis (rule 3).

        Raises:
            GenesisError: not a genesis, or the group exists here already.
        """
        if self.current is not None or genesis.version != 1 or genesis.group_id != self.group_id:
            raise GenesisError("a group is created once")
        self._begin(genesis)
        return Verdict.ACCEPTED

    def join(self, raws: Sequence[bytes], inviter: bytes, own: bytes, holds: Callable[[bytes], bool]) -> Verdict:
        """Take the first manifests after a join request, oldest first (rules 1, 2 and 4, then 5 to 9).

        `own` is this device's signing key; `holds` says whether it has the secret of a noise key.

        Raises:
            RemoteError: the rule that failed; nothing is held then.
        """
        assert self.current is None, "who is in a group does not join it"
        manifests = [self._read(raw) for raw in raws]
        admitting = [
            place
            for place, manifest in enumerate(manifests)
            if manifest.issuer == inviter and (listed := manifest.member(own)) and holds(listed.keys.noise_public)
        ]
        if not admitting:
            raise InviteError("no manifest by the device that invited us lists us with a noise key of ours")
        pinned = {manifests[admitting[-1]].hash}
        for manifest in reversed(manifests[: admitting[-1] + 1]):
            if manifest.hash not in pinned:
                raise InviteError("a manifest that the inviter's does not follow")
            pinned.update(manifest.prev)
        self._begin(manifests[0])
        try:
            for manifest in manifests[1:]:
                self.offer(manifest)
        except RemoteError:
            self.current = None
            self._placed, self._heads, self._bits = {}, {}, 0
            raise
        return Verdict.ACCEPTED

    def update(self, raw: bytes) -> Verdict:
        """Take another manifest (rules 1, 2 and 5 to 9).

        Raises:
            RemoteError: the rule that failed; nothing changed.
        """
        return self.offer(self._read(raw))

    def offer(self, manifest: GroupManifest) -> Verdict:
        """Take another manifest of this group that was read before (rules 5 to 9).

        Raises:
            RemoteError: the rule that failed; nothing changed.
        """
        if not self._placed:
            raise GenesisError("a manifest of a group that nobody here asked to join")
        if manifest.hash in self._placed:
            return Verdict.UNCHANGED
        if manifest.version == 1:
            raise GenesisError("another genesis of this group")
        parents = self._parents(manifest)
        if len(self._placed) > MAXIMUM_OPEN_MANIFESTS:
            raise LimitError("too many versions of this group await an end of their conflict")
        before = self._state_after(parents)
        state = GroupState.of(manifest)
        change = difference(before, state)
        self._check_constants(manifest, parents, bool(change.removed))
        kept = [member for key, member in state.members.items() if key in before.members]
        if any(member.since != before.members[member.keys.signing_public].since for member in kept) or any(
            before.banned.get(key, since) != since for key, since in state.banned.items()
        ):
            raise MalformedError("the age of a member or ban never changes")
        authorise(manifest, before, change)
        past = 0
        for parent in parents:
            past |= parent.past | parent.bit
        bit = 1 << self._bits
        step = Step(manifest.hash, manifest.version, manifest.issuer, bit, past, before, change)
        self._place(_Placed(manifest, manifest.hash, state, bit, past, step))
        return Verdict.ACCEPTED

    def settle(self) -> int:
        """Forget what all later manifests follow; return the version below which nothing is held."""
        ordered = sorted(self._placed.values(), key=lambda each: -each.manifest.version)
        meeting = next(
            placed
            for placed in ordered
            if all(other is placed or placed.bit & other.past or other.bit & placed.past for other in ordered)
        )
        if meeting.hash in self._heads:
            self._placed, self._heads, self._bits = {}, {}, 0
            self._begin(meeting.manifest)
        else:
            kept = [each for each in ordered if meeting.bit & each.past]
            self._placed = {each.hash: each for each in kept} | {meeting.hash: replace(meeting, step=None)}
        return meeting.manifest.version

    # -- the graph ----------------------------------------------------------------------------------------------------

    def _begin(self, manifest: GroupManifest) -> None:
        self._place(_Placed(manifest, manifest.hash, GroupState.of(manifest), 1, 0, None))

    def _place(self, placed: _Placed) -> None:
        self._bits += 1
        self._placed[placed.hash] = placed
        for parent in placed.manifest.prev:
            self._heads.pop(parent, None)
        self._heads[placed.hash] = placed
        self._state = self._state_after(list(self._heads.values()))
        self.current = self._leading()

    def _leading(self) -> GroupManifest:
        """Return the head that says what all heads come to, or else that in an unsigned manifest."""
        heads = [placed.manifest for placed in self._heads.values() if placed.state == self._state]
        if heads:
            return max(heads, key=lambda manifest: (manifest.version, manifest.epoch, manifest.hash))
        manifests = [placed.manifest for placed in self._heads.values()]
        newest = max(manifests, key=lambda manifest: (manifest.epoch, manifest.version, manifest.hash))
        version = max(manifest.version for manifest in manifests)
        return self._state.write(replace(newest, version=version, votes=(), raw=b""))

    def _parents(self, manifest: GroupManifest) -> list[_Placed]:
        """Rules 5 and 6."""
        parents = [self._placed[each] for each in manifest.prev if each in self._placed]
        if len(parents) < len(manifest.prev):
            if manifest.version <= self.root.version:
                raise RollbackError(f"version {manifest.version} follows what is not held")
            raise VersionGapError(f"version {manifest.version} follows a manifest that is not held")
        if manifest.version != max(parent.manifest.version for parent in parents) + 1:
            raise VersionGapError(f"version {manifest.version} is not the one after those that it follows")
        if any(parent.bit & other.past for parent in parents for other in parents):
            raise MalformedError("it follows a manifest and one before that")
        return parents

    def _check_constants(self, manifest: GroupManifest, parents: Sequence[_Placed], removes: bool) -> None:
        """Rules 7 and 9."""
        parent = parents[0].manifest
        if (manifest.mode, manifest.invited) != (parent.mode, parent.invited):
            raise MalformedError("a group's mode never changes")
        epoch = max(each.manifest.epoch for each in parents)
        if manifest.epoch < epoch:
            raise RollbackError(f"epoch {manifest.epoch} after {epoch}")
        begins = removes or len(parents) > 1
        if manifest.epoch != epoch + begins:
            raise MalformedError("a new epoch begins where, and only where, somebody is removed or a conflict ends")
        if begins == any(manifest.epoch_id == each.manifest.epoch_id for each in parents):
            raise MalformedError("a new epoch has a new secret, and only a new one")

    def _state_after(self, parents: Sequence[_Placed]) -> GroupState:
        """Return the state that follows some manifests, and nothing else."""
        if len(parents) == 1:
            return parents[0].state
        past = 0
        for parent in parents:
            past |= parent.past | parent.bit
        return self._resolved(each for each in self._placed.values() if each.bit & past)

    def _resolved(self, placed: Iterable[_Placed]) -> GroupState:
        base = GroupState({}, {})
        steps = []
        for each in placed:
            if each.step is None:
                base = each.state
            else:
                steps.append(each.step)
        return resolve(base, steps)

    def _read(self, raw: bytes) -> GroupManifest:
        manifest = read_manifest(raw)
        if manifest.group_id != self.group_id:
            raise GenesisError("a manifest of another group")
        return manifest
