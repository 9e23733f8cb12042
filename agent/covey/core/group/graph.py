"""The manifests of a group that a device holds, as a graph: which follow which, its heads, and the state they result
in.

The graph judges nothing: `trust.py` decides which manifests enter and which leave. The root is the manifest that all
others follow; its past is settled, and nothing of it is in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from covey.core.group.allowance import spent_by
from covey.core.group.manifest import GroupManifest
from covey.core.group.resolver import Change, GroupState, Step
from covey.core.group.rules import JudgingRules, judging
from covey.core.ids import DeviceKey, ManifestHash


@dataclass(frozen=True, slots=True)
class HeldManifest:
    """A manifest in the graph: the state after it, its own bit, and the bits of all that it follows.

    The root has no step.
    """

    manifest: GroupManifest
    hash: ManifestHash
    state: GroupState
    bit: int
    past: int
    step: Step | None


class ManifestGraph:
    """The root, and what follows it."""

    root: HeldManifest
    heads: dict[ManifestHash, HeldManifest]
    """What nothing follows."""
    bytes: int
    """How large all of them are together."""
    dropped: int
    """How many have been dropped since it began."""
    _held: dict[ManifestHash, HeldManifest]
    _tips: dict[DeviceKey, list[HeldManifest]]
    """By issuer, what none of its own follows."""
    _bits: int

    def __init__(self) -> None:
        self._clear()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, manifest_hash: ManifestHash) -> bool:
        return manifest_hash in self._held

    def __getitem__(self, manifest_hash: ManifestHash) -> HeldManifest:
        return self._held[manifest_hash]

    def __iter__(self) -> Iterator[HeldManifest]:
        """Yield all of them, in the order in which they came."""
        return iter(self._held.values())

    # -- what it comes to ---------------------------------------------------------------------------------------------

    def state_after(self, parents: Sequence[HeldManifest]) -> GroupState:
        """Return the state that follows some manifests, and nothing else.

        Judged from the last one that all others of them follow or are followed by, never from where this graph begins:
        a device that settled early holds less below that one than a device that received everything at once.
        """
        if len(parents) == 1:
            return parents[0].state
        judged = self._judged(parents)
        last = meeting_of(judged)
        steps = [each.step for each in judged if each.step is not None and each.past & last.bit]
        return judging(last.manifest.rules).resolve(last.state, steps)

    def rules_after(self, parents: Sequence[HeldManifest]) -> JudgingRules:
        """Return the rules by which what follows some manifests is judged: those of where judging begins."""
        last = parents[0] if len(parents) == 1 else meeting_of(self._judged(parents))
        return judging(last.manifest.rules)

    def _judged(self, parents: Sequence[HeldManifest]) -> list[HeldManifest]:
        past = past_of(parents)
        return [each for each in self if each.bit & past]

    def leaves_fewer_heads(self, manifest: GroupManifest) -> bool:
        """Say whether a manifest that comes in takes the place of several heads."""
        return sum(parent in self.heads for parent in manifest.prev) > 1

    def unknown_tips(self, issuer: DeviceKey, past: int) -> list[HeldManifest]:
        """Return an issuer's manifests that none of its own follows, nor one of that past."""
        return [tip for tip in self._tips.get(issuer, ()) if not tip.bit & past]

    # -- what changes it ----------------------------------------------------------------------------------------------

    def begin(self, manifest: GroupManifest) -> None:
        """Hold this one as the root, and no other."""
        self._clear()
        self.root = HeldManifest(manifest, manifest.hash, GroupState.of(manifest), 1, 0, None)
        self._place(self.root)

    def add(
        self,
        manifest: GroupManifest,
        parents: Sequence[HeldManifest],
        before: GroupState,
        state: GroupState,
        change: Change,
    ) -> None:
        """Hold a manifest that follows some that are held, by the change that it makes to the state before."""
        bit, past, named = 1 << self._bits, past_of(parents), tuple(parent.bit for parent in parents)
        spent = spent_by(manifest.issuer, before, state)
        step = Step(manifest.hash, manifest.version, manifest.issuer, bit, past, named, before, change, spent)
        self._place(HeldManifest(manifest, manifest.hash, state, bit, past, step))
        self._tips[manifest.issuer] = [*self.unknown_tips(manifest.issuer, past), self._held[manifest.hash]]

    def drop(self, issuer: DeviceKey, gone: Iterable[HeldManifest]) -> None:
        """Drop some of an issuer's manifests, each without a successor."""
        for each in gone:
            del self._held[each.hash], self.heads[each.hash]
            self.bytes -= len(each.manifest.raw)
            self.dropped += 1
            followed = {parent for other in self for parent in other.manifest.prev}
            ends = [parent for parent in each.manifest.prev if parent in self and parent not in followed]
            self.heads |= {parent: self._held[parent] for parent in ends}
            self._tips[issuer] = tips_of([own for own in self if own.manifest.issuer == issuer])

    def settle(self) -> HeldManifest:
        """Make the newest one that all later ones follow the root, and return it."""
        meeting = meeting_of(self)
        if meeting.hash in self.heads:
            self.begin(meeting.manifest)
        elif meeting is not self.root:
            self.root = replace(meeting, step=None)
            self._held = {each.hash: each for each in (self.root, *(each for each in self if meeting.bit & each.past))}
            self.bytes = sum(len(each.manifest.raw) for each in self)
            self._tips = {
                issuer: tips
                for issuer, held in self._tips.items()
                if (tips := [each for each in held if each.past & meeting.bit])
            }
        return meeting

    def _clear(self) -> None:
        self._held, self.heads, self._tips = {}, {}, {}
        self._bits = self.bytes = self.dropped = 0

    def _place(self, held: HeldManifest) -> None:
        self._bits += 1
        self.bytes += len(held.manifest.raw)
        self._held[held.hash] = held
        for parent in held.manifest.prev:
            self.heads.pop(parent, None)
        self.heads[held.hash] = held


def meeting_of(held: Iterable[HeldManifest]) -> HeldManifest:
    """Return the last manifest that all others of these follow or are followed by; the first one of all is such."""
    first_to_last = sorted(held, key=lambda each: each.manifest.version)  # nothing follows one of its own version
    everything = sum(each.bit for each in first_to_last)
    later, common = 0, everything
    """The manifests passed so far, and what all of them follow."""
    for each in reversed(first_to_last):
        if common & each.bit and not everything & ~(each.past | each.bit | later):
            return each
        later |= each.bit
        common &= each.past
    raise AssertionError("the held manifests must start with one that all others follow")


def tips_of(held: Sequence[HeldManifest]) -> list[HeldManifest]:
    """Return what none of an issuer's own follows, of what is held of it; not the one that all follow."""
    past = 0
    for each in held:
        past |= each.past
    return [each for each in held if each.step is not None and not each.bit & past]


def past_of(parents: Iterable[HeldManifest]) -> int:
    """Return the bits of manifests, and of all that they follow."""
    past = 0
    for parent in parents:
        past |= parent.past | parent.bit
    return past
