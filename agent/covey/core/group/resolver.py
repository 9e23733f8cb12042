"""What a group is after changes that did not know of each other: a pure function of those changes.

Manifests form a graph: each names those that it follows. Two that follow the same one are rivals, and neither replaces
the other (000.14, 000.17). A device computes the outcome itself from the manifests that it holds, so that everybody who
holds the same manifests believes the same, in whatever order they came and whoever signed what ends the conflict.

A manifest counts by what it changed, not by what it lists. Two steps are concurrent where neither follows the other:

    1. A step is void if a concurrent step that counts removes its issuer: what a device signed without knowing of its
       removal does not count, so that nobody who was removed can say that it was quicker (003.34).
    2. A step is void if its issuer was let in only by steps that are void.
    3. Where steps remove each other's issuers, so that rule 1 goes round in a circle, one prevails and the ones against
       it are void: the one whose issuer fewer members wanted out; among equals, the one who has been a member for
       longer; then by key, version and hash. Wishes count of those only whom every side knew as members.
    4. A device is a member if a step that counts let it in, or it was one before, and every removal of it that counts
       came before that. Removal wins over a concurrent addition, a ban over a concurrent unban.
    5. Records (label, role, capabilities, noise key) are written field by field in the order of version, then hash.
       Of two concurrent steps that give one noise key to two devices, the later one does not.
    6. A leave is a removal of oneself; it voids nothing.

Rules 1 to 6 look at steps and their order alone, never at where the common past begins: so a device that remembers
less of the past comes to the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import Ban, GroupManifest, Member, Role


@dataclass(frozen=True, slots=True)
class GroupState:
    """Who is in a group and who is banned from it, by signing key."""

    members: Mapping[bytes, Member]
    banned: Mapping[bytes, int]

    @classmethod
    def of(cls, manifest: GroupManifest) -> GroupState:
        """Return what a manifest lists."""
        return cls(
            {member.keys.signing_public: member for member in manifest.members},
            {ban.signing_public: ban.since for ban in manifest.banned},
        )

    def write(self, manifest: GroupManifest) -> GroupManifest:
        """Return a manifest that lists this, otherwise the same."""
        return replace(
            manifest,
            members=tuple(member for _, member in sorted(self.members.items())),
            banned=tuple(Ban(key, since) for key, since in sorted(self.banned.items())),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What one manifest changed. `noise`, `labels`, `roles` and `capabilities` speak of members that stay."""

    added: Mapping[bytes, Member]
    removed: frozenset[bytes]
    noise: Mapping[bytes, bytes]
    labels: Mapping[bytes, str]
    roles: Mapping[bytes, Role]
    capabilities: Mapping[bytes, tuple[str, ...]]
    banned: Mapping[bytes, int]
    unbanned: frozenset[bytes]

    @property
    def empty(self) -> bool:
        """Say whether nothing changed."""
        return not (self.added or self.removed or self.banned or self.unbanned or self.touched)

    @property
    def touched(self) -> frozenset[bytes]:
        """The members whose records changed."""
        return frozenset((*self.noise, *self.labels, *self.roles, *self.capabilities))


def difference(before: GroupState, after: GroupState) -> Change:
    """Return what leads from one state to another."""
    kept = [(before.members[key], member) for key, member in after.members.items() if key in before.members]
    return Change(
        added={key: member for key, member in after.members.items() if key not in before.members},
        removed=frozenset(before.members) - frozenset(after.members),
        noise={n.keys.signing_public: n.keys.noise_public for o, n in kept if o.keys != n.keys},
        labels={n.keys.signing_public: n.label for o, n in kept if o.label != n.label},
        roles={n.keys.signing_public: n.role for o, n in kept if o.role != n.role},
        capabilities={n.keys.signing_public: n.capabilities for o, n in kept if o.capabilities != n.capabilities},
        banned={key: since for key, since in after.banned.items() if key not in before.banned},
        unbanned=frozenset(before.banned) - frozenset(after.banned),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One manifest's place in the graph: `bit` is its own, `past` has the bits of all that it follows."""

    hash: bytes
    version: int
    issuer: bytes
    bit: int
    past: int
    before: GroupState
    change: Change

    def follows(self, other: Step) -> bool:
        """Say whether this step knew of the other one."""
        return bool(self.past & other.bit)

    def concurrent(self, other: Step) -> bool:
        """Say whether neither knew of the other."""
        return self is not other and not self.follows(other) and not other.follows(self)


def resolve(base: GroupState, steps: Iterable[Step]) -> GroupState:
    """Return what a group is after `steps`, all of which follow a manifest that lists `base`."""
    ordered = sorted(steps, key=lambda step: (step.version, step.hash))
    counting = _counting(ordered)
    return GroupState(_members(base, counting), _banned(base, counting))


def _counting(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that are not void (rules 1 to 3), in order."""
    against = {
        step.bit: [other for other in steps if step.issuer in other.change.removed and _voids(other, step)]
        for step in steps
    }
    sponsors = {
        step.bit: [other for other in steps if step.issuer in other.change.added and step.follows(other)]
        for step in steps
    }
    counts: dict[int, bool] = {}
    undecided = list(steps)
    while undecided:
        for step in undecided:
            verdict = _verdict(against[step.bit], sponsors[step.bit], counts)
            if verdict is not None:
                counts[step.bit] = verdict
        left = [step for step in undecided if step.bit not in counts]
        if len(left) == len(undecided):
            prevailing = _prevailing(left, against, steps)
            counts[prevailing.bit] = True
            counts.update({other.bit: False for other in against[prevailing.bit] if other.bit not in counts})
            left = [step for step in left if step.bit not in counts]
        undecided = left
    return [step for step in steps if counts[step.bit]]


def _voids(remover: Step, step: Step) -> bool:
    return remover.issuer != step.issuer and remover.concurrent(step)


def _verdict(against: list[Step], sponsors: list[Step], counts: Mapping[int, bool]) -> bool | None:
    """Say whether a step counts (rules 1 and 2); None where that hangs on steps that are undecided."""
    if any(counts.get(other.bit, False) for other in against):
        return False
    if sponsors and all(counts.get(other.bit) is False for other in sponsors):
        return False
    if any(other.bit not in counts for other in against):
        return None
    if sponsors and not any(counts.get(other.bit, False) for other in sponsors):
        return None
    return True


def _prevailing(stuck: Sequence[Step], against: Mapping[int, list[Step]], steps: Sequence[Step]) -> Step:
    """Return the step that prevails where removals go round in a circle (rule 3)."""
    waiting = {step.bit for step in stuck}
    attacking = {other.bit for step in stuck for other in against[step.bit] if other.bit in waiting}
    circle = [step for step in stuck if step.bit in attacking]
    known = frozenset.intersection(*(frozenset(step.before.members) for step in circle))

    def rank(step: Step) -> tuple[int, int, bytes, int, bytes]:
        wishes = {other.issuer for other in steps if step.issuer in other.change.removed}
        since = step.before.members[step.issuer].since if step.issuer in step.before.members else step.version
        return len((wishes & known) - {step.issuer}), since, step.issuer, step.version, step.hash

    return min(circle, key=rank)


def _members(base: GroupState, steps: Sequence[Step]) -> dict[bytes, Member]:
    """Rules 4 and 5."""
    members = dict(base.members)
    removals: dict[bytes, list[Step]] = {}
    for step in steps:
        for key in step.change.removed:
            removals.setdefault(key, []).append(step)
    for key in removals:
        members.pop(key, None)
    for step in steps:
        change = step.change
        taken = _noise_taken(step, steps)
        for key, member in change.added.items():
            unremoved = all(step.follows(removal) for removal in removals.get(key, ()))
            if unremoved and taken.get(member.keys.noise_public, key) == key:
                members[key] = member
        for key in change.touched & frozenset(members):
            members[key] = _rewritten(members[key], change, taken)
    return members


def _noise_taken(step: Step, steps: Sequence[Step]) -> dict[bytes, bytes]:
    """Return the noise keys that concurrent, earlier steps give away: noise key to signing key."""
    if not (step.change.added or step.change.noise):
        return {}
    taken: dict[bytes, bytes] = {}
    for other in steps:
        if other is step:
            break
        if other.concurrent(step):
            taken |= {member.keys.noise_public: key for key, member in other.change.added.items()}
            taken |= {noise: key for key, noise in other.change.noise.items()}
    return taken


def _rewritten(member: Member, change: Change, taken: Mapping[bytes, bytes]) -> Member:
    key = member.keys.signing_public
    noise = change.noise.get(key, member.keys.noise_public)
    if taken.get(noise, key) != key:
        noise = member.keys.noise_public
    return replace(
        member,
        keys=DeviceKeys(key, noise),
        label=change.labels.get(key, member.label),
        role=change.roles.get(key, member.role),
        capabilities=change.capabilities.get(key, member.capabilities),
    )


def _banned(base: GroupState, steps: Sequence[Step]) -> dict[bytes, int]:
    """Rule 4 for bans: a ban stands unless an unban that counts knew of it."""
    unbans: dict[bytes, list[Step]] = {}
    for step in steps:
        for key in step.change.unbanned:
            unbans.setdefault(key, []).append(step)
    banned = {key: since for key, since in base.banned.items() if key not in unbans}
    for step in steps:
        banned |= {
            key: since
            for key, since in step.change.banned.items()
            if not any(unban.follows(step) for unban in unbans.get(key, ()))
        }
    return banned
