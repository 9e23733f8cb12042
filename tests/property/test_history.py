"""Whoever comes to hold the same operations believes the same, in whatever order they came, however hostile one author.

Hypothesis writes a history: who writes, whom it follows, what it lies about. Two devices get it in two orders.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.sqlite.store import empty_history
from covey.core.group.manifest import GroupManifest
from covey.core.history.acceptance import Acceptance, Waits
from covey.core.history.bodies import Note
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.standing import Standing, weigh
from covey.core.ids import DeviceKey, GroupId, Incarnation, ManifestHash, OperationId
from covey.errors import RemoteError
from tests.examples import examples
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY
from tests.vectors.makers.groups import WITH_BOB, WITH_CAROL, WITHOUT_BOB

_AUTHORS = (ALICE, BOB, CAROL, MALLORY)
_MANIFESTS: dict[ManifestHash, GroupManifest] = {each.hash: each for each in (WITH_BOB, WITH_CAROL, WITHOUT_BOB)}


class _Manifests:
    def manifest(self, _group_id: GroupId, manifest_hash: ManifestHash) -> bytes | None:
        """Return one of those that the devices hold."""
        found = _MANIFESTS.get(manifest_hash)
        return None if found is None else found.raw


@dataclass(frozen=True, slots=True)
class _Draft:
    """How one operation is made of those before it: by whom, following which, after which own one, with what lies."""

    author: int
    follows: tuple[int, ...]
    manifest: int
    forks_by: int
    number_lies_by: int
    height_lies_by: int


_DRAFTS = st.lists(
    st.builds(
        _Draft,
        st.integers(0, len(_AUTHORS) - 1),
        st.lists(st.integers(1, 6), max_size=3).map(tuple),
        st.integers(0, len(_MANIFESTS) - 1),
        st.sampled_from((0, 0, 0, 1, 2)),
        st.sampled_from((0, 0, 0, 0, 1, -1)),
        st.sampled_from((0, 0, 0, 0, 0, 1, -1)),
    ),
    min_size=1,
    max_size=14,
)


def _written(drafts: list[_Draft]) -> list[Operation]:
    written: list[Operation] = []
    for place, draft in enumerate(drafts):
        author = _AUTHORS[draft.author]
        parents = {written[-back].id: written[-back] for back in draft.follows if back <= len(written)}
        own = [each for each in written if each.author == author.signing_public]
        previous = own[-1 - draft.forks_by] if len(own) > draft.forks_by else None
        height = 1 + max((each.height for each in parents.values()), default=0) + draft.height_lies_by
        made = Operation(
            GROUP_ID,
            Log(author.signing_public, Incarnation(bytes(8))),
            1 if previous is None else max(2, previous.number + 1 + draft.number_lies_by),
            None if previous is None else previous.id,
            tuple(sorted(parents)),
            max(2 if parents else 1, height) if parents else 1,
            list(_MANIFESTS)[draft.manifest],
            place,
            1,
            Note("text/plain", b"").to_wire(),
        )
        written.append(sign_operation(made, author))
    return written


_LISTED = frozenset(member.keys.signing_public for member in WITHOUT_BOB.members)


def _named(manifest_hash: ManifestHash) -> tuple[int, frozenset[DeviceKey]]:
    manifest = _MANIFESTS[manifest_hash]
    return manifest.version, frozenset(member.keys.signing_public for member in manifest.members)


def _believed(operations: list[Operation]) -> tuple[list[bytes], list[bytes], Standing]:
    """Offer operations until nothing more is taken; return (ids in order, heads, what counts without Bob)."""
    with empty_history() as tables:
        acceptance = Acceptance(tables, _Manifests().manifest)
        waiting, before = list(operations), -1
        while len(waiting) != before:
            before, refused_or_waiting = len(waiting), []
            for operation in waiting:
                try:
                    judged = acceptance.judge(operation, bounded=False)
                except RemoteError:
                    continue
                if isinstance(judged, Waits):
                    refused_or_waiting.append(operation)
                else:
                    tables.add(operation, judged.version, 0)
            waiting = refused_or_waiting
        ids = [bytes(each.id) for each in tables.in_order(GROUP_ID)]
        for stored in tables.in_order(GROUP_ID):
            operation = read_operation(stored.raw)
            assert all(parent in ids for parent in operation.parents), "what is here is whole"
        standing = weigh(tables, GROUP_ID, _LISTED, _named)
        return ids, [bytes(each) for each in tables.heads(GROUP_ID)], standing


@examples(60)
@given(_DRAFTS, st.integers(0, 2**32))
def test_the_order_in_which_operations_come_changes_nothing(drafts: list[_Draft], seed: int) -> None:
    written = _written(drafts)
    shuffled = random.Random(seed).sample(written, len(written))
    assert _believed(written) == _believed(shuffled)


@examples(20)
@given(_DRAFTS)
def test_parents_stand_before_children_in_the_order(drafts: list[_Draft]) -> None:
    written = _written(drafts)
    ids, _, _ = _believed(written)
    place = {operation_id: index for index, operation_id in enumerate(ids)}
    for operation in written:
        if operation.id in place:
            assert all(place[parent] < place[operation.id] for parent in operation.parents)


@examples(60)
@given(_DRAFTS)
def test_the_counting_operations_follow_the_rule(drafts: list[_Draft]) -> None:
    written = _written(drafts)
    ids, _, standing = _believed(written)
    held = {each.id: each for each in written if each.id in ids}
    knowing = [each for each in held.values() if each.manifest == WITHOUT_BOB.hash]
    followed = {ancestor for each in knowing for ancestor in _ancestors(each, held)}
    by_bob = {each.id for each in held.values() if each.author == BOB.signing_public}
    void = by_bob - followed if knowing else set()
    assert standing.void == void
    counting = held.keys() - void
    inside = {parent for each in counting for parent in held[each].parents}
    assert set(standing.heads) == counting - inside


def _ancestors(operation: Operation, held: dict[OperationId, Operation]) -> set[OperationId]:
    found: set[OperationId] = set()
    row = set(operation.parents)
    while row:
        found |= row
        row = {parent for each in row for parent in held[each].parents} - found
    return found
