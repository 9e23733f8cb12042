"""`covey.core.checkpoints.newcomers`: who is new gets in step although everybody has forgotten the beginning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.checkpoints import graph as graph_module
from covey.core.checkpoints.checkpoints import Checkpoint
from covey.core.checkpoints.forgetting import base_of, count_uncovered, forgettable
from covey.core.checkpoints.graph import HistoryGraph, divided, part_digest
from covey.core.crypto import Identity
from covey.core.group.manifest import Mode
from covey.core.history.bodies import GroupProfile, Note
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import HistoryPull, OperationBundle
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.orders import CommandOrder, OperatorChange, SettingOrder
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.now import Now
from covey.core.orders.authority import Pins, weigh_orders
from covey.core.orders.selector import EVERYBODY
from covey.core.wire.message import Message, MessageType
from covey.core.wire.topics import inbox_topic
from covey.limits.history import (
    ANNOUNCE_US,
    GRAPH_COUNT_US,
    GRAPH_PART,
    GRAPH_PARTS_AT_ONCE,
    GRAPH_WAIT_LONGEST_US,
    GRAPH_WAIT_US,
    HISTORY_PULL_US,
)
from tests.elector import Elector
from tests.fleet import Device, admit, carry

_PART = 8
"""Operations in a part of a graph here: what several parts show, they show with few operations."""
_NOTES = _PART + 5


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "GRAPH_PART", _PART)


def deliver(*devices: Device, rounds: int = 6) -> None:
    """Let some time pass, in which all hear one another."""
    for _ in range(rounds):
        carry(*devices)
        for device in devices:
            device.wait(max(ANNOUNCE_US, HISTORY_PULL_US) / 1_000_000 + 1)
            device.maintain()
    carry(*devices)


def forget(elector: Elector, group_id: GroupId) -> int:
    """Forget all that a checkpoint lets it."""
    node, operations = elector.device.node, elector.device.store.operations
    base = base_of(elector.of(node, group_id).newest_first())
    assert base is not None
    with elector.device.store.transaction():
        return operations.forgotten.take(
            forgettable(operations, group_id, base, node.history.standing(group_id).void, 2**62)
        )


class Site:
    """Two devices that have both forgotten what a checkpoint covers, and one that joins them."""

    def __init__(
        self,
        folder: Path,
        *,
        pinned: bool = True,
        notes: int = _NOTES,
        keeper: bool = False,
        mode: Mode = Mode.INVITES_ONLY,
    ) -> None:
        devices = self.ann, self.ben = Device("ann", folder), Device("ben", folder)
        self.cem = Device("cem", folder)
        with self.ann.store.transaction():
            self.group_id = self.ann.node.membership.create("ann", (), self.ann.now.wall_us, mode).group_id
        admit(self.ann, self.ben, self.group_id)
        self.pins = Pins(frozenset(each.key for each in devices))
        self.electors = [Elector(each, self.pins) for each in devices]
        if pinned:
            self.cem.nodes.pins = self.pins
        self.write(notes)
        deliver(*devices)
        self.agree()
        self.forgotten = [forget(each, self.group_id) for each in self.electors[int(keeper) :]]

    def write(self, notes: int) -> None:
        """Write something of each kind."""
        ann, ben = self.electors
        for number in range(notes):
            ann.say(self.group_id, Note("text/plain", b"tank %d" % number))
        ben.say(self.group_id, SettingOrder(EVERYBODY, "app.mode", "full"))
        ben.say(self.group_id, SettingOrder(EVERYBODY, "app.mode", "eco"))
        ben.say(self.group_id, SettingOrder(EVERYBODY, "app.place", "roof"))
        ben.say(self.group_id, SettingOrder(EVERYBODY, "app.token", sealed=b"\x01"))
        ann.say(self.group_id, OperatorChange(self.cem.key, "Cem", added=True))
        ann.say(self.group_id, CommandOrder(EVERYBODY, "flush", {}, bytes(16)))
        ann.say(self.group_id, GroupProfile("Pumps"))
        ben.say(self.group_id, Note("text/plain", b"the last one"))

    def agree(self) -> None:
        """Have both sign a checkpoint."""
        self.electors[0].propose(self.group_id, lie=lambda state: state)
        deliver(self.ann, self.ben)
        self.electors[1].turn()
        deliver(self.ann, self.ben)

    def join(self) -> None:
        """Let the third one in, and give it time."""
        self.cem.now = self.ann.now
        admit(self.ann, self.cem, self.group_id, self.ben)
        self.live()

    def live(self, rounds: int = 60) -> None:
        """Let all of them live for longer than a newcomer waits."""
        assert rounds * (HISTORY_PULL_US + 1_000_000) > GRAPH_WAIT_US
        for _ in range(rounds):
            deliver(self.ann, self.ben, self.cem, rounds=1)

    def is_in_step(self) -> bool:
        """Say whether all hold the same history."""
        every = self.ann, self.ben, self.cem
        return len({each.node.history.digest(self.group_id) for each in every}) == 1

    def judged(self, device: Device) -> tuple[object, ...]:
        """Return all that a device judges of the history."""
        operations, node = device.store.operations, device.node
        members = frozenset({self.ann.key, self.ben.key, self.cem.key})
        return (
            [remains for _, remains, _ in operations.remains(self.group_id)],
            node.history.standing(self.group_id).void,
            weigh_orders(operations, self.group_id, self.pins, members),
            operations.logs(self.group_id),
            {
                each.author: operations.log_lengths(self.group_id, each.author)
                for each, _ in operations.logs(self.group_id)
            },
            node.history.profile(self.group_id),
        )

    def held(self, device: Device) -> list[Checkpoint]:
        """Return the checkpoints that a device holds."""
        return list(Elector(device, self.pins).of(device.node, self.group_id).newest_first())


@pytest.mark.slow
def test_a_newcomer_catches_up_although_all_have_forgotten(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert min(site.forgotten) >= _NOTES
    site.join()
    assert site.is_in_step()
    assert site.judged(site.cem) == site.judged(site.ann)
    assert site.cem.node.history.profile(site.group_id).title == "Pumps"
    assert count_uncovered(site.cem.store.operations, site.group_id, site.held(site.cem)) == 0
    assert site.cem.store.operations.forgotten.count(site.group_id) >= _NOTES


@pytest.mark.slow
def test_a_keeper_gives_a_newcomer_everything(tmp_path: Path) -> None:
    site = Site(tmp_path, keeper=True)
    site.join()
    assert site.is_in_step()
    assert site.cem.store.operations.forgotten.count(site.group_id) == 0
    assert site.cem.store.operations.count(site.group_id) == site.ann.store.operations.count(site.group_id)


@pytest.mark.slow
def test_a_device_without_its_state_catches_up(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.join()
    site.cem.return_to(None)
    site.join()
    Elector(site.cem, site.pins).say(site.group_id, Note("text/plain", b"here once more"))
    site.live()
    assert site.is_in_step()
    assert site.judged(site.cem) == site.judged(site.ben)


@pytest.mark.slow
def test_a_long_graph_comes_in_several_messages_and_a_restart_loses_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module, "GRAPH_PART", GRAPH_PART)
    site = Site(tmp_path, notes=GRAPH_PART * (GRAPH_PARTS_AT_ONCE + 2))
    site.cem.now = site.ann.now
    admit(site.ann, site.cem, site.group_id, site.ben)
    while not (known := site.cem.store.operations.forgotten.count(site.group_id)):
        site.cem.sends()
        for each in (site.ann, site.ben, site.cem):
            each.wait(HISTORY_PULL_US / 1_000_000 + 1)
            each.maintain()
            for outgoing in each.sends():
                devices = {inbox_topic(d.key): d for d in (site.ann, site.ben, site.cem)}
                devices[outgoing.topic].receive(outgoing.envelope)
    assert known < site.forgotten[0]
    site.cem.restart()
    site.live()
    assert site.is_in_step()
    assert site.cem.store.operations.forgotten.count(site.group_id) >= site.forgotten[0]


@pytest.mark.slow
def test_late_operations_are_not_applied_twice(tmp_path: Path) -> None:
    site = Site(tmp_path, keeper=True)
    everything = [each.raw for each in site.ann.store.operations.in_order(site.group_id)]
    forget(site.electors[0], site.group_id)
    site.join()
    with site.cem.store.transaction():
        taken = site.cem.node.history.take(site.group_id, everything, site.cem.now)
    assert (taken.accepted, taken.waiting, taken.refused) == ([], 0, [])
    commands = list(site.cem.store.operations.of_kind(site.group_id, OperationKind.COMMAND))
    assert len(commands) == 1, "an order is here whole, once"


@pytest.mark.slow
def test_without_pinned_operators_nobody_is_believed(tmp_path: Path) -> None:
    site = Site(tmp_path, pinned=False)
    site.join()
    assert site.cem.store.operations.forgotten.count(site.group_id) == 0
    assert site.cem.store.counters.values()["dropped_operation_not_allowed"] > 0
    site.cem.nodes.pins = site.pins
    site.live(300)
    assert site.is_in_step()


# -- what is not so ---------------------------------------------------------------------------------------------------


class Hostile:
    """A site whose second member brings a newcomer what it likes; the first one is away."""

    def __init__(self, folder: Path, mode: Mode = Mode.INVITES_ONLY) -> None:
        self.site = site = Site(folder, mode=mode)
        self.graph = self._answer()
        site.cem.now = site.ann.now
        admit(site.ann, site.cem, site.group_id, site.ben)
        site.ben.nodes.pins = Pins(frozenset())  # it gives nothing by itself any more

    def _answer(self) -> HistoryGraph:
        """Return what an honest member gives."""
        site = self.site
        first = Incarnation(bytes(8)), 1, LinkSeq(1), 0
        nothing = HistoryPull({}).to_wire()
        message = Message(MessageType.HISTORY_PULL, site.ann.key, site.ben.key, site.group_id, *first, nothing, b"")
        with site.ben.store.transaction():
            [send] = site.ben.node.newcomers.answer(message)
        return HistoryGraph.from_wire(send.body)

    def bring(self, graph: HistoryGraph, *, asked: bool = True) -> int:
        """Bring the newcomer a graph until it has waited long enough; return how many forgotten ones it knows."""
        for _ in range(3):
            known = self.offer(graph, GRAPH_WAIT_US, asked=asked)
        return known

    def offer(self, graph: HistoryGraph, after_us: int, *, asked: bool = True) -> int:
        """Bring the newcomer a graph, once, after a while; return how many forgotten ones it knows."""
        cem, ben, group_id = self.site.cem, self.site.ben, self.site.group_id
        cem.wait(after_us / 1_000_000)
        ben.now = cem.now
        ben.wait(0)
        with cem.store.transaction():
            if asked:
                cem.node.history.exchange.asking.ask(group_id, ben.key, cem.now, progressed=True)
        self._send(MessageType.HISTORY_GRAPH, graph.to_wire())
        return cem.store.operations.forgotten.count(group_id)

    def begin(self) -> None:
        """Offer the graph until the newcomer waits."""
        while self.site.cem.store.catching_up.offer_wait(self.site.group_id) is None:
            assert self.offer(self.graph, HISTORY_PULL_US) == 0

    def feed(self, last: Operation | None) -> Operation:
        """Give the newcomer one operation, which follows the last one that it was given so."""
        ben, group = self.site.ben, self.site.ben.node.groups.group(self.site.group_id)
        log = Log(ben.key, Incarnation(b"other   "))
        parents = () if last is None else (last.id,)
        number = 1 if last is None else last.number + 1
        note = Note("text/plain", b"one more")
        place = (group.group_id, log, number, next(iter(parents), None), parents, number, group.hash, ben.now.wall_us)
        operation = sign_operation(Operation(*place, int(note.kind), note.to_wire()), ben.identity)
        self._send(MessageType.OPERATIONS, OperationBundle((operation.raw,)).to_wire())
        return operation

    def _send(self, kind: MessageType, body: bytes) -> None:
        ben, cem = self.site.ben, self.site.cem
        with ben.store.transaction():
            ben.node._queue.queue(cem.key, kind, self.site.group_id, body, ben.now)
        carry(ben, cem)


@pytest.mark.slow
def test_an_honest_graph_is_believed(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    assert hostile.bring(hostile.graph) >= _NOTES - _PART


@pytest.mark.slow
def test_people_see_that_it_waits(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.cem.now = site.ann.now
    admit(site.ann, site.cem, site.group_id, site.ben)
    deliver(site.ann, site.ben, site.cem)
    fetching = site.cem.store.catching_up.of(site.group_id)
    assert {each.member for each in fetching if each.more} == {site.ann.key, site.ben.key}
    site.live()
    assert site.is_in_step()


@pytest.mark.slow
def test_the_wait_goes_on_where_the_device_is_restarted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.cem.now = site.ann.now
    admit(site.ann, site.cem, site.group_id, site.ben)
    for _ in range(2 * GRAPH_WAIT_US // (5 * HISTORY_PULL_US)):
        deliver(site.ann, site.ben, site.cem, rounds=5)
        site.cem.restart()
    assert site.is_in_step()


@pytest.mark.slow
def test_it_asks_by_itself_when_the_wait_is_over(tmp_path: Path) -> None:
    site = Site(tmp_path)
    devices = site.ann, site.ben, site.cem
    site.cem.now = site.ann.now
    admit(site.ann, site.cem, site.group_id, site.ben)
    deliver(*devices, rounds=2)
    for each in devices:
        each.compares_on_contact_only()
        each.wait(GRAPH_WAIT_US / 1_000_000)
        each.maintain()
    deliver(*devices, rounds=2)
    assert site.is_in_step()


@pytest.mark.slow
@pytest.mark.parametrize("set_by_us", [2 * GRAPH_WAIT_US, -2 * GRAPH_WAIT_US])
def test_a_clock_that_is_set_neither_ends_the_wait_nor_prolongs_it(tmp_path: Path, set_by_us: int) -> None:
    hostile = Hostile(tmp_path)
    cem = hostile.site.cem
    hostile.begin()
    cem.now = Now(cem.now.monotonic_us, cem.now.wall_us + set_by_us)
    assert hostile.offer(hostile.graph, GRAPH_WAIT_US - 1) == 0
    assert hostile.offer(hostile.graph, 1) >= _NOTES - _PART


@pytest.mark.slow
def test_the_wait_goes_on_where_it_is_restarted_and_offered_nothing_meanwhile(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    cem = hostile.site.cem
    hostile.begin()
    for _ in range(GRAPH_WAIT_US // (3 * GRAPH_COUNT_US)):
        for _ in range(3):
            cem.wait(GRAPH_COUNT_US / 1_000_000)
            cem.maintain()
        cem.restart()
        assert hostile.offer(hostile.graph, 0) == 0
    assert hostile.offer(hostile.graph, GRAPH_COUNT_US) >= _NOTES - _PART


@pytest.mark.slow
def test_a_slow_peer_delays_a_newcomer_for_a_day_at_most(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    group_id, held = hostile.site.group_id, hostile.site.cem.store.operations
    pause_us = GRAPH_WAIT_US - 1_000_000
    fed: Operation | None = None
    rounds = 0
    hostile.begin()
    while not hostile.offer(hostile.graph, pause_us):
        fed = hostile.feed(fed)
        assert held.held(group_id, fed.id) is not None
        rounds += 1
    assert rounds == GRAPH_WAIT_LONGEST_US // pause_us


@pytest.mark.slow
def test_a_late_answer_is_accepted_after_another_member_was_asked(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    site, cem = hostile.site, hostile.site.cem
    for asked in (site.ben, site.ann):
        cem.wait(HISTORY_PULL_US / 1_000_000)
        with cem.store.transaction():
            cem.node.history.exchange.asking.ask(site.group_id, asked.key, cem.now)
    assert hostile.bring(hostile.graph, asked=False) >= _NOTES - _PART


@pytest.mark.slow
def test_an_unrequested_graph_is_refused(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    hostile.site.cem.restart()
    assert hostile.bring(hostile.graph, asked=False) == 0


def _other_place(graph: HistoryGraph) -> HistoryGraph:
    remains = graph.remains[0], replace(graph.remains[1], length=1), *graph.remains[2:]
    return replace(graph, remains=remains)


def _other_hashes(graph: HistoryGraph) -> HistoryGraph:
    remains = _other_place(graph).remains
    return replace(graph, remains=remains, hashes=b"".join(map(part_digest, divided(remains))))


def _unsigned(graph: HistoryGraph) -> HistoryGraph:
    proof = [raw for raw in graph.proof if read_operation(raw).kind == OperationKind.CHECKPOINT]
    return replace(graph, proof=tuple(proof))


def _without_proof(graph: HistoryGraph) -> HistoryGraph:
    return replace(graph, proof=())


@pytest.mark.slow
def test_a_former_member_vouches_for_nothing(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    site, ann = hostile.site, hostile.site.ann.key
    with site.ben.store.transaction():
        site.ben.node.actions.change(site.group_id, lambda draft, epoch: draft.removing(ann, epoch), site.ben.now)
    carry(site.ben, site.cem)
    assert site.cem.node.groups.group(site.group_id).member(ann) is None
    hostile.bring(hostile.graph)  # fetches the version of the group that the checkpoint names
    assert hostile.bring(hostile.graph) == 0
    assert site.cem.store.counters.values()["dropped_operation_not_allowed"] > 0


@pytest.mark.slow
def test_only_admins_vouch_where_there_are_admins(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path, Mode.ADMIN_INVITES)
    assert hostile.bring(_by(hostile.site.ben.identity, hostile.graph)) == 0
    assert hostile.bring(hostile.graph) >= _NOTES


def _by(author: Identity, graph: HistoryGraph) -> HistoryGraph:
    """Return a graph with a proof that somebody else has signed."""
    parts = [read_operation(raw) for raw in graph.proof]
    [part] = [each for each in parts if each.kind == OperationKind.CHECKPOINT]
    forged = sign_operation(replace(part, log=replace(part.log, author=author.signing_public)), author)
    return replace(graph, proof=(forged.raw,))


@pytest.mark.slow
@pytest.mark.parametrize("lie", [_other_place, _other_hashes, _unsigned, _without_proof])
def test_a_graph_that_is_not_vouched_for_is_not_believed(
    tmp_path: Path, lie: Callable[[HistoryGraph], HistoryGraph]
) -> None:
    hostile = Hostile(tmp_path)
    assert hostile.bring(lie(hostile.graph)) == 0
    assert hostile.site.cem.node.history.digest(hostile.site.group_id) != hostile.site.ben.node.history.digest(
        hostile.site.group_id
    )
    assert hostile.bring(hostile.graph) >= _NOTES, "a lie keeps nobody from the truth"


@pytest.mark.slow
def test_operations_that_judge_others_cannot_be_withheld(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    judged = {each.id for each in hostile.graph.remains if each.judged}
    assert len(judged) >= 4
    given = [raw for raw in hostile.graph.operations if read_operation(raw).id not in judged]
    hostile.bring(replace(hostile.graph, operations=tuple(given)))
    operations, group_id = hostile.site.cem.store.operations, hostile.site.group_id
    assert all(operations.forgotten.held(group_id, each) is None for each in judged)
    hostile.bring(hostile.graph)
    assert all(operations.raw(group_id, each) is not None for each in judged), "it comes from whoever gives it"


@pytest.mark.slow
def test_nor_can_how_the_group_is_described(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path)
    given = [raw for raw in hostile.graph.operations if read_operation(raw).kind != OperationKind.PROFILE]
    hostile.bring(replace(hostile.graph, operations=tuple(given)))
    [profile] = [each.id for each in hostile.graph.remains if each.kind == OperationKind.PROFILE]
    assert hostile.site.cem.store.operations.forgotten.held(hostile.site.group_id, profile) is None
