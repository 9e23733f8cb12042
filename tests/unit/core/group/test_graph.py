"""`covey.core.group.graph`: what is held, its ends, and what all of it follows."""

from __future__ import annotations

from dataclasses import replace

from covey.core.group.graph import ManifestGraph
from covey.core.group.manifest import GroupManifest, sign_manifest
from covey.core.group.resolver import GroupState, difference
from tests.vectors.makers.cast import ALICE
from tests.vectors.makers.groups import WITH_CAROL


def _labelled(held: GroupManifest, label: str) -> GroupManifest:
    alice = held.member(ALICE.signing_public)
    assert alice is not None
    return sign_manifest(held.changing(replace(alice, label=label)), ALICE)


def _add(graph: ManifestGraph, manifest: GroupManifest) -> None:
    parents = [graph[each] for each in manifest.prev]
    before, state = graph.state_after(parents), GroupState.of(manifest)
    graph.add(manifest, parents, before, state, difference(before, state))


def _forked() -> tuple[ManifestGraph, list[GroupManifest]]:
    """Return a graph of a root, two rivals after it, and one that follows the first of these."""
    graph = ManifestGraph()
    graph.begin(WITH_CAROL)
    rivals = [_labelled(WITH_CAROL, "one"), _labelled(WITH_CAROL, "two")]
    made = [*rivals, _labelled(rivals[0], "three")]
    for each in made:
        _add(graph, each)
    return graph, made


def test_its_ends_are_what_nothing_follows() -> None:
    graph, (one, two, three) = _forked()
    assert list(graph.heads) == [two.hash, three.hash]
    assert [each.hash for each in graph] == [WITH_CAROL.hash, one.hash, two.hash, three.hash]
    assert [each.hash for each in graph.unknown_tips(ALICE.signing_public, 0)] == [two.hash, three.hash]
    assert [each.hash for each in graph.unknown_tips(ALICE.signing_public, graph[three.hash].bit)] == [two.hash]
    assert graph.state_after([graph[three.hash]]) == GroupState.of(three)
    assert one.hash in graph


def test_dropping_a_manifest_restores_the_tips_before_it() -> None:
    graph, (one, two, three) = _forked()
    size = graph.bytes
    graph.drop(ALICE.signing_public, [graph[three.hash], graph[one.hash]])
    assert list(graph.heads) == [two.hash]
    assert (len(graph), graph.dropped) == (2, 2)
    assert graph.bytes == size - len(three.raw) - len(one.raw)
    assert [each.hash for each in graph.unknown_tips(ALICE.signing_public, 0)] == [two.hash]


def test_a_manifest_that_all_later_ones_follow_is_settled() -> None:
    graph, (_, two, three) = _forked()
    assert graph.settle().hash == WITH_CAROL.hash, "two ends have nothing later in common"
    graph.drop(ALICE.signing_public, [graph[two.hash]])
    assert graph.settle().hash == three.hash
    assert [each.hash for each in graph] == [three.hash]
    assert graph.root.step is None


def test_an_end_need_not_be_what_is_settled() -> None:
    graph = ManifestGraph()
    graph.begin(WITH_CAROL)
    trunk = _labelled(WITH_CAROL, "trunk")
    for each in (trunk, one := _labelled(trunk, "one"), two := _labelled(trunk, "two")):
        _add(graph, each)
    assert graph.settle().hash == trunk.hash == graph.root.hash
    assert {each.hash for each in graph} == {trunk.hash, one.hash, two.hash}
    assert WITH_CAROL.hash not in graph
    assert graph.bytes == sum(len(each.raw) for each in (trunk, one, two))
