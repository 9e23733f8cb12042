"""Compute a group's state after concurrent changes; a pure function of these changes.

Manifests form a graph: each names those that it follows. Two that follow the same one are rivals, and neither replaces
the other (000.14, 000.17). Each device computes the outcome from the manifests that it holds. So devices that hold the
same manifests get the same outcome, in whatever order the manifests arrived and whichever member signed the one that
ends the conflict.

A manifest counts by its changes (a step), not by its list. Two steps are concurrent if neither follows the other.
docs/protocol/groups.md, section 35, *Rivals*, has the rules as pseudo-code:

    1. The base is the last manifest that every other one follows or is followed by; `graph.py` finds it. Only steps
       after the base are judged. A device that settled at the base holds nothing older, and must agree.
    2. A step is void if a concurrent step that counts removes its issuer. So a change that a device signed without
       knowing of its removal does not count, and no removed device can claim that it was quicker (003.34). A step is
       also void if its issuer is no member by the steps before it that count. So a device that was removed and added
       again depends on the member that added it again, not on its first admission.
    3. If steps remove each other's issuers, so that rule 2 is circular, one step prevails and those against it are
       void: the step whose issuer fewer members wanted removed; among equals, whose issuer has been a member for
       longer; then by key, version and hash. Only devices that every side knew as members before its first step in the
       circle can prevail or count as wishes, so adding devices or removing more gains nothing. A step that only waits
       for a circle is not part of it.
    4. A device is a member if a step that counts added it, or the base lists it, and every removal of it that counts
       came before that. A removal wins over a concurrent addition, a ban over a concurrent unban. A leave is a removal
       of oneself; it voids nothing. A banned device is not a member.
    5. Additions and records (label, role, capabilities, noise key, announcement) apply field by field, in the order of
       version, then hash. Skipped are: a noise key that another member has at that point; and any addition, record or
       ban that would make the group too large for the manifest that ends the conflict. So every outcome can be signed.
    6. Each step takes from its issuer's allowance what it takes by itself, in the order of version, then hash, whether
       it counts or is void. Where the allowance does not suffice for the step, nothing is left of it, and the step
       gives nothing to those that it adds (`allowance.py`). So rivals of one issuer multiply nothing.

The sender of rivals chooses their number N, so the cost must not grow with N squared: an index by added or removed
device finds the steps that matter to a step, and sets of steps are bits of one integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import Ban, GroupManifest, Member, Role
from covey.core.ids import DeviceKey, ManifestHash, NoisePublic
from covey.limits.group import MAXIMUM_LISTED_BYTES, MAXIMUM_MEMBERS


@dataclass(frozen=True, slots=True)
class GroupState:
    """Who is in a group and who is banned from it, by signing key."""

    members: Mapping[DeviceKey, Member]
    banned: Mapping[DeviceKey, int]

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
    """What one manifest changed. `noise`, `labels`, `roles`, `capabilities` and `extensions` are of members that stay.

    `removed` are devices that may not be members from here on: former members, and newly banned devices. So a ban of a
    device that a concurrent manifest adds acts as the removal that its issuer would have made.
    """

    added: Mapping[DeviceKey, Member]
    removed: frozenset[DeviceKey]
    noise: Mapping[DeviceKey, NoisePublic]
    labels: Mapping[DeviceKey, str]
    roles: Mapping[DeviceKey, Role]
    capabilities: Mapping[DeviceKey, tuple[str, ...]]
    extensions: Mapping[DeviceKey, bytes]
    banned: Mapping[DeviceKey, int]
    unbanned: frozenset[DeviceKey]

    @property
    def empty(self) -> bool:
        """Say whether nothing changed."""
        return not (self.added or self.removed or self.banned or self.unbanned or self.touched)

    @property
    def touched(self) -> frozenset[DeviceKey]:
        """The members whose records changed."""
        return frozenset((*self.noise, *self.labels, *self.roles, *self.capabilities, *self.extensions))


def difference(before: GroupState, after: GroupState) -> Change:
    """Return what leads from one state to another."""
    banned = {key: since for key, since in after.banned.items() if key not in before.banned}
    kept = [(before.members[key], member) for key, member in after.members.items() if key in before.members]
    return Change(
        added={key: member for key, member in after.members.items() if key not in before.members},
        removed=frozenset(before.members) - frozenset(after.members) | banned.keys(),
        noise={n.keys.signing_public: n.keys.noise_public for o, n in kept if o.keys != n.keys},
        labels={n.keys.signing_public: n.label for o, n in kept if o.label != n.label},
        roles={n.keys.signing_public: n.role for o, n in kept if o.role != n.role},
        capabilities={n.keys.signing_public: n.capabilities for o, n in kept if o.capabilities != n.capabilities},
        extensions={n.keys.signing_public: n.extensions for o, n in kept if o.extensions != n.extensions},
        banned=banned,
        unbanned=frozenset(before.banned) - frozenset(after.banned),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One manifest's place in the graph: `bit` is its own, `past` has the bits of all that it follows.

    `parents` are the bits of those that it names.
    """

    hash: ManifestHash
    version: int
    issuer: DeviceKey
    bit: int
    past: int
    parents: tuple[int, ...]
    before: GroupState
    change: Change
    spent: int = 0
    """What its issuer's allowance falls by."""

    def concurrent(self, other: Step) -> bool:
        """Say whether neither knew of the other."""
        return self is not other and not self.past & other.bit and not other.past & self.bit


def resolve(base: GroupState, steps: Iterable[Step]) -> GroupState:
    """Return what a group is after `steps`, all of which follow a manifest that lists `base`."""
    ordered = sorted(steps, key=lambda step: (step.version, step.hash))
    futures = _futures(ordered)
    counting = _Counting(base, ordered, futures).steps()
    banned = _banned(base, counting, futures)
    members = _Writing(base, counting, banned).members
    left = _allowances(base, ordered, sum(step.bit for step in counting))
    return GroupState({key: _with_allowance(member, left.get(key, 0)) for key, member in members.items()}, banned)


def _allowances(base: GroupState, steps: Sequence[Step], counted: int) -> dict[DeviceKey, int]:
    """Return what is left of the members' allowances (rule 6)."""
    left = {key: member.allowance for key, member in base.members.items()}
    for step in steps:
        suffices = left.get(step.issuer, 0) >= step.spent
        if step.issuer in left:
            left[step.issuer] = max(0, left[step.issuer] - step.spent)
        if step.bit & counted:
            left |= {key: member.allowance if suffices else 0 for key, member in step.change.added.items()}
    return left


def _with_allowance(member: Member, left: int) -> Member:
    """Return a record that is not longer: what a step gives that did not write it may be more."""
    return member if left >= member.allowance else replace(member, allowance=left)


def _by_device(steps: Iterable[tuple[Step, Iterable[DeviceKey]]]) -> dict[DeviceKey, int]:
    found: dict[DeviceKey, int] = {}
    for step, devices in steps:
        for device in devices:
            found[device] = found.get(device, 0) | step.bit
    return found


class _Counting:
    """Which steps are not void (rules 2 and 3). A step is decided once, and looked at only where that may succeed."""

    def __init__(self, base: GroupState, steps: Sequence[Step], futures: Mapping[int, int]) -> None:
        self._base = base
        self._steps = steps
        self._removers = _by_device((step, step.change.removed) for step in steps)
        self._adders = _by_device((step, step.change.added) for step in steps)
        self._issued: dict[DeviceKey, list[Step]] = {}
        for step in steps:
            self._issued.setdefault(step.issuer, []).append(step)
        self._futures = futures
        self._pasts = {step.bit: step.past for step in steps}
        self._own = _by_device((step, (step.issuer,)) for step in steps)
        self._against = {
            step.bit: self._removers.get(step.issuer, 0) & ~(step.past | futures[step.bit] | self._own[step.issuer])
            for step in steps
        }
        self._wishes: dict[DeviceKey, set[DeviceKey]] = {}
        for step in steps:
            for device in step.change.removed:
                self._wishes.setdefault(device, set()).add(step.issuer)
        self._counted = 0
        self._void = 0
        self._admitted = 0
        """Steps whose issuer is a member by the counting steps before it, however the undecided ones are decided."""

    def steps(self) -> list[Step]:
        """Return the steps that count, in order."""
        undecided = list(self._steps)
        looked_at = undecided
        while undecided:
            touched: set[DeviceKey] = set()
            for step in looked_at:
                if not step.bit & (self._counted | self._void) and self._decide(step):
                    touched |= step.change.removed | step.change.added.keys()
            looked_at = [each for issuer in sorted(touched) for each in self._issued.get(issuer, ())]
            if not looked_at:
                undecided = [step for step in undecided if not step.bit & (self._counted | self._void)]
                if undecided:
                    prevailing = self._prevailing(undecided)
                    self._counted |= prevailing.bit
                    self._void |= self._against[prevailing.bit] & ~self._counted
                    looked_at = undecided
        return [step for step in self._steps if step.bit & self._counted]

    def _decide(self, step: Step) -> bool:
        """Decide whether a step counts (rule 2); return False if that depends on undecided steps."""
        against = self._against[step.bit]
        if self._admits(step, additions=self._counted, removals=~self._void):
            self._admitted |= step.bit
        if against & self._counted or not self._admits(step, additions=~self._void, removals=self._counted):
            self._void |= step.bit
        elif against & ~self._void or not step.bit & self._admitted:
            return False
        else:
            self._counted |= step.bit
        return True

    def _admits(self, step: Step, *, additions: int, removals: int) -> bool:
        """Return whether a step's issuer is a member by its ancestors, if of these the given additions and removals
        count."""
        if step.bit & self._admitted or step.issuer in step.change.added:  # a public group's newcomer lets itself in
            return True
        removed_by = self._removers.get(step.issuer, 0) & step.past & removals
        if step.issuer in self._base.members and not removed_by:
            return True
        added_by = self._adders.get(step.issuer, 0) & step.past & additions
        return any(not removed_by & ~self._pasts[bit] for bit in _bits(added_by))

    def _prevailing(self, stuck: Sequence[Step]) -> Step:
        """Return the step that prevails if removals are circular (rule 3)."""
        circle = self._circle(stuck)
        attacking = 0
        for step in circle:
            attacking |= self._against[step.bit]
        removing = [step for step in circle if step.bit & attacking]
        every = sum(step.bit for step in removing)
        states = {id(step.before): step.before for step in removing if not step.past & every}
        known = frozenset.intersection(*(frozenset(state.members) for state in states.values()))
        issuers = {step.issuer for step in removing}
        wanted_out = {issuer: len((self._wishes.get(issuer, set()) & known) - {issuer}) for issuer in issuers}

        def rank(step: Step) -> tuple[bool, int, int, bytes, int, bytes]:
            since = step.before.members[step.issuer].since if step.issuer in step.before.members else step.version
            return step.issuer not in known, wanted_out[step.issuer], since, step.issuer, step.version, step.hash

        return min(removing, key=rank)

    def _circle(self, stuck: Sequence[Step]) -> list[Step]:
        """Return undecided steps that all depend on each other, and on no other undecided step.

        The search takes each step that the first one depends on, directly or not, with all of its dependencies, unless
        found before. The last one taken depends on nothing but its own dependants.
        """
        undecided = {step.bit: step for step in stuck}
        everything = sum(undecided)
        reached = _closure(stuck[0].bit, self._hangs_on, undecided, everything)
        rest = reached
        while rest:
            last = rest & -rest
            rest &= ~_closure(last, self._holds_up, undecided, rest)
        circle = _closure(last, self._hangs_on, undecided, everything)
        return [step for step in stuck if step.bit & circle]

    def _hangs_on(self, step: Step) -> int:
        """Return the steps that may void one, and those that decide its issuer's membership if that is open."""
        device = step.issuer
        deciding = (self._adders.get(device, 0) | self._removers.get(device, 0)) & step.past
        return self._against[step.bit] | (0 if step.bit & self._admitted else deciding)

    def _holds_up(self, step: Step) -> int:
        found, later = 0, self._futures[step.bit]
        for device in step.change.removed - {step.issuer}:
            found |= self._own.get(device, 0) & ~(step.past | later)
        for device in (*step.change.added, *step.change.removed):
            found |= self._own.get(device, 0) & later & ~self._admitted
        return found


def _bits(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest
        bits ^= lowest


def _closure(first: int, edges: Callable[[Step], int], steps: Mapping[int, Step], within: int) -> int:
    found = waiting = first
    while waiting:
        bit = waiting & -waiting
        new = edges(steps[bit]) & within & ~found
        found |= new
        waiting = waiting & ~bit | new
    return found


def _futures(steps: Sequence[Step]) -> dict[int, int]:
    futures = {step.bit: 0 for step in steps}
    for step in reversed(steps):  # what follows a step comes after it
        for parent in step.parents:
            if parent in futures:  # the first manifest held has no step
                futures[parent] |= futures[step.bit] | step.bit
    return futures


def _banned(base: GroupState, steps: Sequence[Step], futures: Mapping[int, int]) -> dict[DeviceKey, int]:
    """Rule 4 for bans: a ban holds unless an unban that counts knew of it; as many as a manifest lists."""
    unbans = _by_device((step, step.change.unbanned) for step in steps)
    banned = {key: since for key, since in base.banned.items() if key not in unbans}
    for step in steps:
        for key, since in step.change.banned.items():
            if not unbans.get(key, 0) & futures[step.bit] and (key in banned or len(banned) < MAXIMUM_MEMBERS):
                banned[key] = since
    return banned


class _Writing:
    """The members of a group, written step by step (rules 4 and 5)."""

    def __init__(self, base: GroupState, steps: Sequence[Step], banned: Mapping[DeviceKey, int]) -> None:
        self._removals = _by_device((step, step.change.removed) for step in steps)
        gone = self._removals.keys() | banned.keys()
        self.members = {key: member for key, member in base.members.items() if key not in gone}
        self._holders = {member.keys.noise_public: key for key, member in self.members.items()}
        self._room = MAXIMUM_LISTED_BYTES - sum(Ban(key, since).wire_bytes for key, since in banned.items())
        self._room -= sum(member.wire_bytes for member in self.members.values())
        for step in steps:
            for key, member in step.change.added.items():
                if key not in banned and not self._removals.get(key, 0) & ~step.past:
                    self._add(key, member)
            for key in step.change.touched & self.members.keys():
                self._rewrite(self.members[key], step.change)

    def _add(self, key: DeviceKey, member: Member) -> None:
        present = self.members.get(key)
        if self._is_free(member) and (present is not None or len(self.members) < MAXIMUM_MEMBERS):
            self._put(present, member)

    def _rewrite(self, member: Member, change: Change) -> None:
        key = member.keys.signing_public
        rotated = replace(member, keys=DeviceKeys(key, change.noise.get(key, member.keys.noise_public)))
        if self._is_free(rotated):
            self._put(member, rotated)
        present = self.members[key]
        self._put(
            present,
            replace(
                present,
                label=change.labels.get(key, present.label),
                role=change.roles.get(key, present.role),
                capabilities=change.capabilities.get(key, present.capabilities),
                extensions=change.extensions.get(key, present.extensions),
            ),
        )

    def _is_free(self, member: Member) -> bool:
        key = member.keys.signing_public
        return self._holders.get(member.keys.noise_public, key) == key

    def _put(self, present: Member | None, member: Member) -> None:
        grows = member.wire_bytes - (present.wire_bytes if present is not None else 0)
        if grows > max(self._room, 0):
            return
        self._room -= grows
        if present is not None:
            del self._holders[present.keys.noise_public]
        self._holders[member.keys.noise_public] = member.keys.signing_public
        self.members[member.keys.signing_public] = member
