"""The pseudo-code of the protocol's *Rivals* (section 35), written out line by line, finds what the product finds."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from covey.core.crypto import DeviceKeys
from covey.core.group.graph import HeldManifest, ManifestGraph
from covey.core.group.manifest import Ban, GroupManifest, Member, Mode
from covey.core.group.resolver import GroupState, difference
from covey.core.ids import ManifestHash
from covey.limits.group import MAXIMUM_LISTED_BYTES, MAXIMUM_MEMBERS
from tests.examples import examples
from tests.rival_manifests import ManifestWriter

_MODES = (Mode.INVITES_ONLY, Mode.INVITES_ONLY, Mode.ADMIN_INVITES)


@dataclass(frozen=True)
class _Rivals:
    """Manifests by their hashes, each with all that it follows."""

    held: dict[ManifestHash, GroupManifest]
    past: dict[ManifestHash, frozenset[ManifestHash]]
    before: dict[ManifestHash, GroupState]

    def follows(self, one: Any, other: Any) -> bool:
        return other.hash in self.past[one.hash]

    def change(self, step: GroupManifest) -> Any:
        return difference(self.before[step.hash], GroupState.of(step))

    def against(self, other: GroupManifest, step: GroupManifest) -> bool:
        """Say whether one step is against another: it removes the issuer, is concurrent, and of another issuer."""
        concurrent = not self.follows(other, step) and not self.follows(step, other) and other.hash != step.hash
        return concurrent and other.issuer != step.issuer and step.issuer in self.change(other).removed

    def state_of(self, given_ones: Iterable[GroupManifest]) -> GroupState:
        """Lines 1 to 16."""
        whole = list(given_ones)

        def meets(each: GroupManifest) -> bool:
            return all(self.follows(x, each) or self.follows(each, x) for x in whole if x.hash != each.hash)

        last = max((each for each in whole if meets(each)), key=lambda each: each.version)
        base = GroupState.of(last)
        undecided = [each for each in whole if self.follows(each, last)]
        counting: list[GroupManifest] = []
        void: list[GroupManifest] = []
        every = list(undecided)
        while True:
            changed = True
            while changed:
                changed = False
                for step in list(undecided):
                    if any(self.against(t, step) for t in counting) or not self._member(
                        base, step, [x for x in every if x not in void], counting
                    ):
                        undecided.remove(step)
                        void.append(step)
                        changed = True
                    elif not any(self.against(t, step) for t in undecided) and self._counts(
                        base, step, counting, void, every
                    ):
                        undecided.remove(step)
                        counting.append(step)
                        changed = True
            if not undecided:
                return self._write(base, counting)
            winner = self._winner(self._circle(base, undecided, counting, void, every), every)
            undecided.remove(winner)
            counting.append(winner)
            for step in [each for each in undecided if self.against(winner, each) or self.against(each, winner)]:
                if self.against(step, winner):
                    undecided.remove(step)
                    void.append(step)

    def _counts(self, base: Any, step: Any, counting: Any, void: Any, every: Any) -> bool:
        return self._member(base, step, counting, [x for x in every if x not in void])

    def _member(self, base: GroupState, step: GroupManifest, additions: Any, removals: Any) -> bool:
        """Lines 17 to 22, of a step's issuer."""
        device = step.issuer
        if device in self.change(step).added:
            return True
        removed = [x for x in removals if self.follows(step, x) and device in self.change(x).removed]
        if device in base.members and not removed:
            return True
        added = [x for x in additions if self.follows(step, x) and device in self.change(x).added]
        return any(all(self.follows(x, r) for r in removed) for x in added)

    def _circle(self, base: Any, undecided: Any, counting: Any, void: Any, every: Any) -> list[GroupManifest]:
        """Lines 23 to 25."""
        hangs: dict[ManifestHash, set[ManifestHash]] = {}
        for step in undecided:
            found = {t.hash for t in undecided if self.against(t, step)}
            if not self._counts(base, step, counting, void, every):
                changes = ((t, self.change(t)) for t in undecided if self.follows(step, t))
                found |= {
                    t.hash for t, change in changes if step.issuer in change.added or step.issuer in change.removed
                }
            hangs[step.hash] = found
        closures = {each.hash: self._closure(each.hash, hangs) for each in undecided}
        for step in undecided:
            if step.hash in closures[step.hash] and all(step.hash in closures[x] for x in closures[step.hash]):
                return [each for each in undecided if each.hash in closures[step.hash]]
        raise AssertionError("there is always a circle")

    def _closure(self, start: ManifestHash, hangs: dict[ManifestHash, set[ManifestHash]]) -> set[ManifestHash]:
        found: set[ManifestHash] = set()
        row = set(hangs[start])
        while row:
            found |= row
            row = set().union(*(hangs[each] for each in row)) - found
        return found

    def _winner(self, circle: list[GroupManifest], every: list[GroupManifest]) -> GroupManifest:
        """Lines 26 to 33."""
        removing = [x for x in circle if any(self.against(x, other) for other in circle)]
        first = [x for x in removing if not any(self.follows(x, other) for other in removing)]
        known = frozenset.intersection(*(frozenset(self.before[x.hash].members) for x in first))

        def rank(step: GroupManifest) -> tuple[object, ...]:
            wish = {x.issuer for x in every if step.issuer in self.change(x).removed} & known - {step.issuer}
            listed = self.before[step.hash].members.get(step.issuer)
            since = listed.since if listed is not None else step.version
            return step.issuer not in known, len(wish), since, step.issuer, step.version, step.hash

        return min(removing, key=rank)

    def _write(self, base: GroupState, counting: list[GroupManifest]) -> GroupState:
        """Lines 34 to 45."""
        ordered = sorted(counting, key=lambda each: (each.version, each.hash))
        ended = {key for step in ordered for key in self.change(step).unbanned}
        bans = {key: since for key, since in base.banned.items() if key not in ended}
        for step in ordered:
            later = {key for x in ordered if self.follows(x, step) for key in self.change(x).unbanned}
            bans |= {key: since for key, since in self.change(step).banned.items() if key not in later}
        removers = {
            key: [x for x in ordered if key in self.change(x).removed]
            for step in ordered
            for key in self.change(step).removed
        }
        members = {key: member for key, member in base.members.items() if key not in removers and key not in bans}
        for step in ordered:
            change = self.change(step)
            for key, member in change.added.items():
                if key not in bans and all(self.follows(step, x) for x in removers.get(key, ())):
                    self._put(members, bans, key, member)
            for key in sorted(change.touched & members.keys()):
                held = members[key]
                self._put(
                    members,
                    bans,
                    key,
                    replace(held, keys=DeviceKeys(key, change.noise.get(key, held.keys.noise_public))),
                )
                held = members[key]
                written = replace(
                    held,
                    label=change.labels.get(key, held.label),
                    role=change.roles.get(key, held.role),
                    capabilities=change.capabilities.get(key, held.capabilities),
                    extensions=change.extensions.get(key, held.extensions),
                )
                self._put(members, bans, key, written)
        return GroupState(members, bans)

    def _put(self, members: dict[Any, Member], bans: dict[Any, int], key: Any, member: Member) -> None:
        taken = any(x.keys.noise_public == member.keys.noise_public for other, x in members.items() if other != key)
        after = {**members, key: member}
        size = sum(x.wire_bytes for x in after.values()) + sum(Ban(k, v).wire_bytes for k, v in bans.items())
        if not taken and len(after) <= MAXIMUM_MEMBERS and size <= MAXIMUM_LISTED_BYTES:
            members[key] = member


@examples(300)
@given(st.integers(0, 2**32))
def test_the_documents_pseudo_code_finds_what_the_product_finds(seed: int) -> None:
    chance = random.Random(seed)
    writer = ManifestWriter(chance, chance.choice(_MODES))
    writer.write(calm=chance.randint(0, 3), stormy=chance.randint(4, 10))
    graph = ManifestGraph()
    graph.begin(writer.written[0])
    rivals = _Rivals({writer.written[0].hash: writer.written[0]}, {writer.written[0].hash: frozenset()}, {})
    for manifest in writer.written[1:]:
        parents = [graph[each] for each in manifest.prev]
        before, state = graph.state_after(parents), GroupState.of(manifest)
        graph.add(manifest, parents, before, state, difference(before, state))
        rivals.held[manifest.hash] = manifest
        rivals.past[manifest.hash] = frozenset(manifest.prev).union(*(rivals.past[each] for each in manifest.prev))
        rivals.before[manifest.hash] = before
    heads: list[HeldManifest] = list(graph.heads.values())
    if len(heads) > 1:
        assert rivals.state_of(rivals.held.values()) == graph.state_after(heads)
