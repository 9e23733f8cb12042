"""checkpoints.json: histories, and what a device that holds one makes of the checkpoints in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from covey.adapters.sqlite.store import empty_history
from covey.core.checkpoints.checkpoints import Checkpoints
from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.graph import HistoryGraph, covered_graph, digest_of_parts, part_digest
from covey.core.checkpoints.state import CheckpointState, state_of
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import GroupProfile, Merge
from covey.core.history.checkpoint import divided
from covey.core.history.operation import Operation
from covey.core.history.orders import Approval, SettingOrder
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.orders import adds, as_they_may_come, said


def state_over(operations: Iterable[Operation], pins: Pins, manifest: GroupManifest) -> CheckpointState:
    """Return what a history comes to, all of which one merge by Carol follows."""
    operations = list(operations)
    merge = _merge(CAROL, operations)
    with empty_history() as tables:
        for operation in as_they_may_come([*operations, merge]):
            tables.add(operation, 1, 0)
        covered = covered_by(tables.nodes(GROUP_ID), tables.frontier(GROUP_ID, merge.id))
        members = [each.keys.signing_public for each in manifest.members]
        return state_of(tables, GROUP_ID, covered, merge.id, pins, members)


def _merge(author: Identity, operations: Sequence[Operation]) -> Operation:
    followed = {parent for each in operations for parent in each.parents}
    return said(author, Merge(), *(each for each in operations if each.id not in followed))


def proposed(
    author: Identity,
    operations: Sequence[Operation],
    pins: Pins,
    manifest: GroupManifest,
    state: CheckpointState | None = None,
) -> list[Operation]:
    """Return a merge over a history and the parts of its state, or of another one."""
    merge = _merge(author, operations)
    correct = replace(state_over(operations, pins, manifest), covers=merge.id)
    if state is not None and state.covers == _merge(CAROL, operations).id:
        state = replace(state, covers=merge.id)
    written = [merge]
    for part in divided((state or correct).to_wire()):
        written.append(said(author, part, written[-1]))
    return written


def make() -> dict[str, Any]:
    """Return the file's content."""
    pins = _PINS
    first = said(ALICE, adds(BOB, "Frida"))
    titled = said(CAROL, GroupProfile("Pumpen"), first)
    eco = said(ALICE, SettingOrder(EVERYBODY, "app.mode", "eco"), titled)
    sealed = said(BOB, SettingOrder(EVERYBODY, "app.token", sealed=b"\x01"), eco)
    history = [first, titled, eco, sealed]
    written = proposed(ALICE, history, pins, WITH_CAROL)
    correct = state_over(history, pins, WITH_CAROL)
    false = replace(correct, operators={ALICE.signing_public: ""})
    forged = proposed(ALICE, history, pins, WITH_CAROL, state=false)
    by_bob, by_carol = (said(each, Approval(written[-1].id), written[-1]) for each in (BOB, CAROL))
    forged_by_bob = said(BOB, Approval(forged[-1].id), forged[-1])
    beside = said(ALICE, SettingOrder(EVERYBODY, "app.mode", "beside"), first)
    return {
        "about": "In each case a device holds the operations and has pinned the operators; `checkpoints` are what it "
        "makes of them, the last one first.",
        "cases": [
            _case("proposed", pins, *history, *written),
            _case("signed by all operators", pins, *history, *written, by_bob),
            _case("signed by one that is none", pins, *history, *written, by_carol),
            _case("beside an order", pins, *history, beside, *written, by_bob),
            _case("of a false state", pins, *history, *forged, forged_by_bob),
            _case("made for other operators", Pins(frozenset({CAROL.signing_public})), *history, *written, by_bob),
        ],
        "graphs": _graphs([*history, *written, by_bob]),
    }


def _graphs(operations: Sequence[Operation]) -> list[dict[str, Any]]:
    """Return bodies of `HISTORY_GRAPH`; of those that are in order, what names their graph."""
    with empty_history() as tables:
        for operation in operations:
            tables.add(operation, 1, 0)
        checkpoint = next(Checkpoints(tables, GROUP_ID, _PINS, frozenset(), lambda _: WITH_CAROL).newest_first())
        assert checkpoint.state is not None, "it is whole"
        graph = tuple(covered_graph(tables, GROUP_ID, checkpoint.state.covers, frozenset()))
    proof, whole = (each.raw for each in operations[-2:]), (each.raw for each in operations[:4])
    body = HistoryGraph(tuple(proof), part_digest(graph), 0, len(graph), graph, tuple(whole))
    assert checkpoint.state.graph == digest_of_parts(body.hashes), "the state names it"
    other = replace(graph[0], length=1), *graph[1:]
    bodies = {
        "a graph of one part": (body, None),
        "a part that its hash does not name": (replace(body, remains=other), "malformed"),
        "no part": (replace(body, remains=()), "malformed"),
        "a part beyond the hashes": (replace(body, first=1), "malformed"),
    }
    return [
        {
            "name": name,
            "code": code,
            "bytes": each.to_wire().hex(),
            "graph": None if code else digest_of_parts(each.hashes).hex(),
        }
        for name, (each, code) in bodies.items()
    ]


_PINS = Pins(frozenset({ALICE.signing_public}))


def _case(name: str, pins: Pins, *operations: Operation) -> dict[str, Any]:
    with empty_history() as tables:
        for operation in operations:
            tables.add(operation, 1, 0)
        found = list(Checkpoints(tables, GROUP_ID, pins, frozenset(), lambda _: WITH_CAROL).newest_first())
    return {
        "name": name,
        "manifest": WITH_CAROL.raw.hex(),
        "pinned": sorted(key.hex() for key in pins.operators),
        "threshold": pins.threshold,
        "operations": [each.raw.hex() for each in operations],
        "checkpoints": [
            {
                "id": each.id.hex(),
                "signers": sorted(key.hex() for key in each.signers),
                "electors": len(each.electors),
                "code": each.code,
                "state": each.state.to_wire().hex() if each.state is not None else None,
            }
            for each in found
        ],
    }
