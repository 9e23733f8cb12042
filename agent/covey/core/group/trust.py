"""Which group manifests a device accepts, and what it believes of the group: every rule, numbered, and nothing else.

    1. A manifest is well-formed, and its issuer signed the exact bytes (`group/manifest.py`).
    2. It belongs to the group of this trust.
    3. A genesis is accepted only for a group that this device created (000.15).
    4. A device that asked to join begins with the newest manifest from the inviter that the inviter itself issued and
       that lists the device with a noise key that it holds; the invite pins the inviter. Older manifests are believed
       as far as hashes lead to them (`replay.py`). In a public group the device begins with the manifest from a member
       that the group's URI names, if it lists that member.
    5. Later manifests follow manifests that are held: `prev` names their hashes, none of which follows another. A
       manifest that follows something that is not held waits outside (`membership/replay.py`). Here it is a gap, from
       any issuer; or a rollback, if it is not newer than everything held (000.14).
    6. The version is one above the highest version that it follows (000.02).
    7. Mode and invited device never change.
    8. The issuer may make this change to the state before (`group/policy.py`; 000.13, 003.07). That state is the one of
       the manifest followed, or the resolver's result for several (`resolver.py`).
    9. The epoch is the highest epoch followed, plus 1 if a device was removed or banned or if several manifests are
       followed. So an older secret, which removed devices hold, never returns. A manifest without changes may also
       begin an epoch, to recover a group that lost its secret (`policy.py`, rule 9). A new epoch has a new secret; the
       same epoch keeps its secret.

    10. No device can fill the graph. Of one issuer, at most `RIVALS_OF_ONE` manifests are held that do not know of each
        other, not counting those that another member's manifest follows: a device that asks for these holds them
        already. Which ones are held does not depend on the order of arrival: a new one replaces the last by version and
        hash that nothing follows, up to `RIVALS_REPLACED` times. Beyond `MAXIMUM_OPEN_MANIFESTS`, or their bytes, a
        manifest is accepted only if it removes a device or follows several, up to four times as many. A manifest that
        leaves fewer heads than before is always accepted, so any member can end any conflict.
    11. The judging rules that it names are a version that this build knows (`group/rules.py`), and at least the lowest
        version of those that it follows. They judge all its successors.
    12. Its issuer pays for it from its allowance in the state before (`group/allowance.py`). So all manifests that a
        member and the devices that it lets in can make others keep have a bound in total.

Accepted manifests form a graph. Its ends are the heads. If there is one head, or one that lists the result of all of
them, that is the group's current manifest; between equal ones, version, epoch and hash decide. Otherwise, or beyond
`MAXIMUM_HEADS`, there is a conflict: the resolver's result holds at once, and any member may issue the manifest that
follows all heads.

A device that lost its state joins again, and its graph begins with the manifest that admits it. Whatever all heads
follow is settled, and only the store remembers it. Neither changes the result: judging begins at the last manifest that
all others follow or are followed by (`graph.meeting_of`), which every device holds.

An example. Alice, Bob and Carol are in version 3, `abc`. While they are apart, Alice removes Bob (`-b`), Carol relabels
herself (`c'`), and Bob, who knows of neither, adds Mallory (`+m`). A device that believes in `abc` is offered:

    manifest  version  issuer   follows     outcome                                               members
    +m        4        Bob      abc         ACCEPTED: Bob is a member of `abc` (rule 8)           a, b, c, Mallory
    -b        4        Alice    abc         ACCEPTED: it begins epoch 2 (rule 9). There are now   a, c
                                            two heads. `+m` is void: it is concurrent with `-b`,
                                            which removes its issuer. `-b` lists the result of
                                            both, so it is `current`, and there is no conflict
    m'        5        Mallory  +m          ACCEPTED, since Mallory is a member of `+m`; but      a, c
                                            void, because a void manifest added Mallory
    b'        5        Bob      -b          UnknownIssuerError (rule 8): nothing changes          a, c
    +d        5        Carol    c'          VersionGapError (rule 5): `c'` is not here yet        a, c
    c'        4        Carol    abc         ACCEPTED. No head lists the result of all three:      a, relabelled c
                                            `conflict` is true, and `current` has no signature
    end       6        Carol    -b, c', m'  ACCEPTED: it lists the result of all three, in        a, relabelled c
                                            epoch 3. One head is left, so no conflict; `settle()`
                                            forgets everything before it

Any other order ends in the same state. Whatever Bob and Mallory sign later either follows something before `end`
without following `-b`, so it is concurrent with `-b` and void; or it follows `-b`, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from covey.core.group.allowance import check_payment
from covey.core.group.graph import HeldManifest, ManifestGraph, past_of, tips_of
from covey.core.group.manifest import GroupManifest, Member, Mode, read_manifest
from covey.core.group.resolver import Change, GroupState, Step, difference
from covey.core.group.rules import judging, version_for
from covey.core.ids import DeviceKey, EpochId, GroupId, ManifestHash, NoisePublic
from covey.errors import (
    GenesisError,
    InviteError,
    LimitError,
    LocalError,
    MalformedError,
    RollbackError,
    VersionGapError,
)
from covey.limits.group import (
    MAXIMUM_HEADS,
    MAXIMUM_LISTED_BYTES,
    MAXIMUM_OPEN_BYTES,
    MAXIMUM_OPEN_MANIFESTS,
    RIVALS_OF_ONE,
    RIVALS_REPLACED,
)


class Verdict(Enum):
    """Ordinary outcomes of offering a manifest."""

    ACCEPTED = "accepted"
    UNCHANGED = "unchanged"


class GroupTrust:
    """One group as one device believes it to be. Changes only by manifests that every rule admits."""

    def __init__(self, group_id: GroupId, current: GroupManifest | None) -> None:
        """Begin with nothing, or with a manifest that is trusted already."""
        self.group_id = group_id
        self._graph = ManifestGraph()
        self._leading: GroupManifest | None = None
        if current is not None:
            self._begin(current)

    # -- what is believed ---------------------------------------------------------------------------------------------

    @property
    def current(self) -> GroupManifest | None:
        """What this device believes of the group; unsigned where members disagree."""
        if self._leading is None and self._graph.heads:
            self._leading = self._find_leading()
        return self._leading

    @property
    def conflict(self) -> bool:
        """Say whether no manifest yet says what the heads come to; `current` is then unsigned."""
        return self.current is not None and not self.current.raw

    @property
    def epoch(self) -> int:
        """The highest epoch that the next manifest follows: the one that votes to keep somebody out name.

        That of a head that lost may be above the one of the head that says what holds.
        """
        return max(head.manifest.epoch for head in self._graph.heads.values())

    def heads(self) -> list[GroupManifest]:
        """Return the manifests that none follows, by hash."""
        return [head.manifest for _, head in sorted(self._graph.heads.items())]

    def held(self) -> list[GroupManifest]:
        """Return the settled manifest that all others follow, and these, each after what it follows."""
        ordered = sorted(self._graph, key=lambda each: (each.manifest.version, each.hash))
        return [each.manifest for each in ordered]

    def news_of(self, issued: GroupManifest) -> list[GroupManifest]:
        """Return what somebody may lack who holds what all others follow: this one, then what is nearest to it."""
        found, row = [issued], [issued]
        known = {issued.hash}
        while row:
            named = {each for manifest in row for each in manifest.prev}
            parents = sorted(each for each in named - known if each in self._graph)
            known.update(parents)
            row = [held.manifest for each in parents if (held := self._graph[each]).step is not None]
            found += row
        return found

    @property
    def root(self) -> GroupManifest:
        """The settled manifest that all others held follow."""
        return self._graph.root.manifest

    def void_members(self) -> dict[DeviceKey, Member]:
        """Return the listed members that only void manifests added, and that no manifest removed since."""
        removals: dict[DeviceKey, int] = {}
        for held in self._graph:
            for key in held.step.change.removed if held.step is not None else ():
                removals[key] = removals.get(key, 0) | held.bit
        root = self._graph.root.state.members if self._graph else {}
        listed = {key: member for key, member in root.items() if key not in removals}
        for held in self._graph:
            added = held.step.change.added if held.step is not None else {}
            listed |= {key: member for key, member in added.items() if not removals.get(key, 0) & ~held.past}
        believed = {member.keys.signing_public for member in self.current.members} if self.current else set()
        return {key: member for key, member in listed.items() if key not in believed}

    def __len__(self) -> int:
        """Return how many manifests are in memory."""
        return len(self._graph)

    def manifests_for_void(self) -> list[GroupManifest]:
        """Return the manifests for members that only void manifests added: those up to the removals that make them
        void.

        Nothing later: the removed devices know these already, and may have invented the recipients.
        """
        steps = [held.step for held in self._graph if held.step is not None]
        by_issuer: dict[DeviceKey, list[Step]] = {}
        for step in steps:
            by_issuer.setdefault(step.issuer, []).append(step)
        named = 0
        for remover in steps:
            voided = (step for key in remover.change.removed for step in by_issuer.get(key, ()))
            if any(step.issuer != remover.issuer and step.concurrent(remover) for step in voided):
                named |= remover.past | remover.bit
        return [manifest for manifest in self.held() if self._graph[manifest.hash].bit & named]

    def holds(self, manifest_hash: ManifestHash) -> bool:
        """Say whether an accepted manifest is in memory."""
        return manifest_hash in self._graph

    def draft(self, epoch_id: EpochId, issuer: DeviceKey) -> GroupManifest:
        """Return the unsigned next version, which follows every head and changes nothing so far.

        Of more heads than a manifest may name it follows the issuer's own, then those of members, then the newest: so
        no removed device, and no device that it added, can keep a removal out. `epoch_id` is of its new secret if it
        follows several heads.

        Raises:
            GenesisError: no manifest is held.
        """
        if self.current is None:
            raise GenesisError("this device holds no manifest of the group")
        if len(self._graph.heads) == 1:
            return self.current.draft()

        members = {member.keys.signing_public for member in self.current.members}

        def first(head: HeldManifest) -> tuple[bool, bool, int, bytes]:
            by = head.manifest.issuer
            return by != issuer, by not in members, -head.manifest.version, head.hash

        heads = sorted(self._graph.heads.values(), key=first)[:MAXIMUM_HEADS]
        unsigned = replace(
            self.current,
            version=max(head.manifest.version for head in heads) + 1,
            prev=tuple(sorted(head.hash for head in heads)),
            epoch=max(head.manifest.epoch for head in heads) + 1,
            epoch_id=epoch_id,
            votes=(),
            raw=b"",
        )
        return self._graph.state_after(heads).write(unsigned).begun()

    def finish(self, edited: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        """Return an edited draft with the epoch that it begins or stays in, and its judging rules (rules 9 and 11).

        Raises:
            LocalError: a device that is let in does not know the group's rules.
        """
        parents = [self._graph[each] for each in edited.prev]
        newest = max((parent.manifest for parent in parents), key=lambda manifest: manifest.epoch)
        before = self._graph.state_after(parents)
        change = difference(before, GroupState.of(edited))
        renews = change.empty and edited.epoch_id == epoch_id
        begins = len(parents) > 1 or bool(change.removed) or renews
        rules = version_for(edited)
        if rules < min(parent.manifest.rules for parent in parents):
            raise LocalError(
                f"this group is judged by rules that a device which is let in does not know ({rules})",
                hint="upgrade Covey on that device first",
            )
        epoch_id = epoch_id if begins else newest.epoch_id
        return replace(edited, epoch=newest.epoch + begins, epoch_id=epoch_id, rules=rules)

    # -- what changes it ----------------------------------------------------------------------------------------------

    def create(self, genesis: GroupManifest) -> Verdict:
        """Take this device's own genesis (rule 3).

        Raises:
            GenesisError: not a genesis, or the group exists here already.
        """
        if self._graph or genesis.version != 1 or genesis.group_id != self.group_id:
            raise GenesisError("the group already has a genesis")
        self._begin(genesis)
        return Verdict.ACCEPTED

    def join(
        self, raws: Sequence[bytes], inviter: DeviceKey, own: DeviceKey, holds: Callable[[NoisePublic], bool]
    ) -> Verdict:
        """Begin with one of the manifests that come after a join request, oldest first (rules 1, 2 and 4).

        `own` is this device's signing key; `holds` says whether it has the secret of a noise key.

        Raises:
            RemoteError: the rule that failed; nothing is held then.
        """
        assert not self._graph, "who is in a group does not join it"
        for raw in reversed(raws):
            manifest = self.read(raw)
            if manifest.issuer == inviter and (listed := manifest.member(own)) and holds(listed.keys.noise_public):
                self._begin(manifest)
                return Verdict.ACCEPTED
        raise InviteError("no manifest by the inviter lists this device with one of its noise keys")

    def visit(self, raws: Sequence[bytes], host: DeviceKey) -> GroupManifest:
        """Begin with a public group's manifest from a member that this device asked (rule 4).

        Raises:
            RemoteError: it is no such manifest; nothing is held then.
        """
        if not raws:
            raise InviteError("the answer contains no manifest")
        manifest = self.read(raws[-1])
        if manifest.mode is not Mode.PUBLIC or manifest.member(host) is None:
            raise InviteError("the manifest is not a public group's, or does not list the member that was asked")
        self._begin(manifest)
        return manifest

    def update(self, raw: bytes) -> Verdict:
        """Take another manifest (rules 1, 2 and 5 to 9).

        Raises:
            RemoteError: the rule that failed; nothing changed.
        """
        return self.offer(self.read(raw))

    def offer(self, manifest: GroupManifest, *, wanted: bool = False) -> Verdict:
        """Offer another manifest of this group that was read before (rules 5 to 10); it may replace held ones.

        `wanted` exempts it from the bounds of rule 10, because another member's follows it.

        Raises:
            RemoteError: the rule that failed; nothing changed.
        """
        if not self._graph:
            raise GenesisError("the manifest belongs to a group that this device did not ask to join")
        if manifest.hash in self._graph:
            return Verdict.UNCHANGED
        if manifest.version == 1:
            raise GenesisError("the group has another genesis")
        parents = self._parents(manifest)
        replaced = [] if wanted else self._in_place_of(manifest, past_of(parents))
        before = self._graph.state_after(parents)
        state = GroupState.of(manifest)
        change = difference(before, state)
        if not wanted:
            self._check_room(manifest, removes=bool(change.removed))
        self._check_constants(manifest, parents, change)
        kept = [member for key, member in state.members.items() if key in before.members]
        if any(member.since != before.members[member.keys.signing_public].since for member in kept) or any(
            before.banned.get(key, since) != since for key, since in state.banned.items()
        ):
            raise MalformedError("the version of a member or ban must not change")
        renews = change.empty and len(parents) == 1 and manifest.epoch > parents[0].manifest.epoch
        self._graph.rules_after(parents).authorise(manifest, before, change, renews=renews)
        check_payment(manifest, before, change)
        self._graph.drop(manifest.issuer, replaced)
        self._graph.add(manifest, parents, before, state, change)
        self._leading = None
        return Verdict.ACCEPTED

    def settle(self) -> int:
        """Forget what all later manifests follow; return the version below which nothing is held."""
        return self._graph.settle().manifest.version

    # -- the rules ----------------------------------------------------------------------------------------------------

    def _begin(self, manifest: GroupManifest) -> None:
        self._graph.begin(manifest)
        self._leading = None

    def _find_leading(self) -> GroupManifest:
        heads = list(self._graph.heads.values())
        state = self._graph.state_after(heads)
        manifests = [head.manifest for head in heads]
        agreeing = [head.manifest for head in heads if head.state == state]
        if agreeing and len(manifests) <= MAXIMUM_HEADS:
            return max(agreeing, key=lambda manifest: (manifest.version, manifest.epoch, manifest.hash))
        newest = max(manifests, key=lambda manifest: (manifest.epoch, manifest.version, manifest.hash))
        version = max(manifest.version for manifest in manifests)
        return state.write(replace(newest, version=version, votes=(), raw=b""))

    def _in_place_of(self, manifest: GroupManifest, past: int) -> list[HeldManifest]:
        """Return which of its issuer's go for a manifest, each after what follows it (rule 10).

        Raises:
            LimitError: it is the last of them, by version and hash, or enough were replaced.
        """
        gone: list[HeldManifest] = []
        tips = [] if self._graph.leaves_fewer_heads(manifest) else self._graph.unknown_tips(manifest.issuer, past)
        while len(tips) >= RIVALS_OF_ONE:
            kept = [each for each in self._graph if each not in gone]
            followed = {parent for each in kept for parent in each.manifest.prev}
            ends = [tip for tip in tips if tip.hash not in followed]
            last = max(ends, key=lambda tip: (tip.manifest.version, tip.hash), default=None)
            is_full = self._graph.dropped + len(gone) == RIVALS_REPLACED
            if last is None or is_full or (last.manifest.version, last.hash) < (manifest.version, manifest.hash):
                raise LimitError(f"more than {RIVALS_OF_ONE} conflicting manifests by one issuer")
            gone.append(last)
            own = [each for each in kept if each.manifest.issuer == manifest.issuer and each is not last]
            tips = [each for each in tips_of(own) if not each.bit & past]
        return gone

    def _check_room(self, manifest: GroupManifest, *, removes: bool) -> None:
        """Rule 10, for all issuers together."""
        if len(manifest.prev) == 1 and len(manifest.raw) > MAXIMUM_LISTED_BYTES:
            raise LimitError("the manifest leaves no room for one that ends a conflict")
        share = 4 if removes or len(manifest.prev) > 1 else 1
        full = len(self._graph) >= share * MAXIMUM_OPEN_MANIFESTS or self._graph.bytes >= share * MAXIMUM_OPEN_BYTES
        if full and not self._graph.leaves_fewer_heads(manifest):
            raise LimitError("too many conflicting versions of this group")

    def _parents(self, manifest: GroupManifest) -> list[HeldManifest]:
        """Rules 5 and 6."""
        parents = [self._graph[each] for each in manifest.prev if each in self._graph]
        if len(parents) < len(manifest.prev):
            if manifest.version <= self.root.version:
                raise RollbackError(f"version {manifest.version} follows a manifest that this device does not hold")
            raise VersionGapError(f"version {manifest.version} follows a manifest that this device does not hold")
        if manifest.version != max(parent.manifest.version for parent in parents) + 1:
            raise VersionGapError(f"version {manifest.version} is not one above those that it follows")
        if any(parent.bit & other.past for parent in parents for other in parents):
            raise MalformedError("the manifest follows another manifest and that one's predecessor")
        return parents

    def _check_constants(self, manifest: GroupManifest, parents: Sequence[HeldManifest], change: Change) -> None:
        """Rules 7, 9 and 11."""
        if manifest.rules < min(each.manifest.rules for each in parents):
            raise RollbackError(f"judging rules of version {manifest.rules}, after later ones")
        parent = parents[0].manifest
        if (manifest.mode, manifest.invited) != (parent.mode, parent.invited):
            raise MalformedError("a group's mode must not change")
        epoch = max(each.manifest.epoch for each in parents)
        if manifest.epoch < epoch:
            raise RollbackError(f"epoch {manifest.epoch} after {epoch}")
        begins = bool(change.removed) or len(parents) > 1
        if manifest.epoch != epoch + begins and not (change.empty and manifest.epoch == epoch + 1):
            raise MalformedError(
                "a new epoch must come with a removal, a ban, the end of a conflict, or no other change"
            )
        if (manifest.epoch > epoch) == any(manifest.epoch_id == each.manifest.epoch_id for each in parents):
            raise MalformedError("a new epoch, and only that, must have a new secret")

    def read(self, raw: bytes) -> GroupManifest:
        """Read a manifest of this group (rules 1, 2 and 11).

        Raises:
            RemoteError: the rule that failed.
        """
        manifest = read_manifest(raw)
        if manifest.group_id != self.group_id:
            raise GenesisError("the manifest belongs to another group")
        judging(manifest.rules)
        return manifest
