"""`covey.core.actions.received`: what members report of commands is kept once, bounded, and from nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.group.manifest import BOARD, Member
from covey.core.group.messages import Parted
from covey.core.history.bodies import Note
from covey.core.history.orders import ONCE_BYTES, CommandOrder
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.wire.message import MessageType
from covey.errors import NotAllowedError, NotAMemberError
from covey.limits import actions
from covey.limits.group import MAINTENANCE_US
from tests.fleet import Device, carry, found, identity

Fleet = tuple[Device, Device, GroupId]
Left = tuple[Device, Device, GroupId, OperationId]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Ann, who gives commands; Ben, who does them; and their group."""
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    return ann, ben, group_id


def _ordered(author: Device, group_id: GroupId, selector: Selector = EVERYBODY) -> OperationId:
    """Have a device give a command; nothing is carried yet."""
    with author.store.transaction():
        order = CommandOrder(selector, "journal", {}, author.rng(ONCE_BYTES))
        return author.node.history.write(group_id, order, author.now).id


def _result(order: OperationId, output: bytes = b"all well", code: int = 0) -> OrderResult:
    return OrderResult(order, CommandState.DONE, 4, 7, 5, synchronised=True, exit=code, output=output)


def _reports(author: Device, hearer: Device, group_id: GroupId, *results: OrderResult) -> None:
    """Send results over the wire, as a device does that did what they are of."""
    for each in results:
        with author.store.transaction():
            author.node._queue.queue(hearer.key, MessageType.ORDER_RESULT, group_id, each.to_wire(), author.now)
    carry(author, hearer)


def _kept(hearer: Device, group_id: GroupId, order: OperationId) -> list[tuple[DeviceKey, OrderResult]]:
    """Return what a device keeps of an order, with the outputs."""
    tables = hearer.store.order_results
    return [
        (each.device, replace(each.result, output=tables.output(each.id) or b""))
        for each in tables.of_order(group_id, order)
    ]


@contextmanager
def _bounds(**values: int) -> Iterator[None]:
    """Let fewer be enough."""
    with (
        mock.patch(
            "covey.adapters.sqlite.orders.order_results.RESULTS_OF_ONE", values.get("results", actions.RESULTS_OF_ONE)
        ),
        mock.patch("covey.core.actions.received.MAXIMUM_ACTION_OUTPUT_BYTES", values.get("output", 64)),
        mock.patch("covey.core.actions.received.RESULT_OUTPUT_BYTES_OF_ONE", values.get("of_one", 1_000)),
        mock.patch("covey.core.actions.received.RESULT_OUTPUT_BYTES", values.get("of_all", 1_000_000)),
    ):
        yield


def test_the_first_result_of_an_order_counts(fleet: Fleet) -> None:
    ann, ben, group_id = fleet
    order = _ordered(ann, group_id)
    _reports(ben, ann, group_id, _result(order), _result(order), _result(order, b"no, that way", 1))
    assert _kept(ann, group_id, order) == [(ben.key, _result(order))]
    assert ben.store.outbox.totals()[0] == 0, "and all of it is acknowledged"


def test_a_result_is_there_before_its_order(fleet: Fleet) -> None:
    ann, ben, group_id = fleet
    order = _ordered(ann, group_id)
    with ben.store.transaction():
        body = _result(order).to_wire()
        ben.node._queue.queue(ann.key, MessageType.ORDER_RESULT, group_id, body, ben.now)
    stranger = OperationId(b"\7" * 32)
    _reports(ben, ann, group_id, _result(stranger))
    assert [each.judged for each in ann.store.order_results.all(group_id)] == [False, True]
    assert _kept(ann, group_id, order) == [(ben.key, _result(order))]


@pytest.mark.parametrize("what", ["another device's", "a label that it never had", "no command"])
def test_a_result_of_what_is_no_order_for_its_author_changes_nothing(fleet: Fleet, what: str) -> None:
    ann, ben, group_id = fleet
    if what == "no command":
        with ann.store.transaction():
            order = ann.node.history.write(group_id, Note("text/plain", b"hello"), ann.now).id
    elif what == "another device's":
        order = _ordered(ann, group_id, Selector(SelectorKind.DEVICES, devices=(ann.key,)))
    else:
        order = _ordered(ann, group_id, Selector(SelectorKind.LABEL, name="greenhouse"))
    _reports(ben, ann, group_id, _result(order))
    assert _kept(ann, group_id, order) == []
    assert ann.store.counters.values()["quarantined_not_allowed"] == 1
    assert ben.store.outbox.totals()[0] == 0, "the link goes on"


def test_no_board_reports_by_itself_and_no_gateway_for_what_is_no_board(fleet: Fleet) -> None:
    ann, ben, group_id = fleet
    board = Member(identity("board").keys, capabilities=(BOARD,))
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft.adding(board), ann.now)
    carry(ann, ben)
    key, stranger = board.keys.signing_public, identity("stranger").signing_public
    order = _ordered(ann, group_id, Selector(SelectorKind.DEVICES, devices=(key,)))
    keep = ann.node.order_results.keep
    with ann.store.transaction():
        for device in (key, stranger):
            with pytest.raises(NotAllowedError, match="obeys no operator"):
                keep(group_id, device, _result(order), ann.now)
        for other in (ann.key, stranger):
            with pytest.raises(NotAMemberError):
                keep(group_id, ben.key, replace(_result(order), board=other), ann.now)
    assert _kept(ann, group_id, order) == []


def test_a_device_with_the_label_at_the_time_of_the_order_may_answer(fleet: Fleet) -> None:
    ann, ben, group_id = fleet
    order = _ordered(ann, group_id, Selector(SelectorKind.LABEL, name="ben"))
    former = ann.node.groups.group(group_id).member(ben.key)
    assert former is not None
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft.changing(replace(former, label="shed")), ann.now)
    _reports(ben, ann, group_id, _result(order))
    assert _kept(ann, group_id, order) == [(ben.key, _result(order))]


def test_a_device_takes_the_room_of_nobody_else(fleet: Fleet, tmp_path: Path) -> None:
    ann, ben, group_id = fleet
    order = _ordered(ann, group_id)
    with ann.store.transaction():
        ann.node.order_results.keep(group_id, ann.key, _result(order, b"mine"), ann.now)
    with _bounds(results=3):
        _reports(ben, ann, group_id, *(_result(OperationId(bytes([each]) * 32)) for each in range(8)))
    kept = list(ann.store.order_results.all(group_id))
    assert sum(each.device == ben.key for each in kept) == 3
    assert _kept(ann, group_id, order) == [(ann.key, _result(order, b"mine"))]
    [(outputs,)] = ann.store.connection.execute("SELECT count(*) FROM order_output")
    assert outputs == 4, "nothing of those that went is left"


@pytest.mark.parametrize("bound", [{"of_one": 200}, {"of_all": 400}, {"of_one": 100, "output": 200, "of_all": 400}])
def test_the_oldest_outputs_go_first_and_their_results_stay(fleet: Fleet, bound: dict[str, int]) -> None:
    ann, ben, group_id = fleet
    orders = [_ordered(ann, group_id) for _ in range(4)]
    room = 100 if bound.get("of_one") == 100 else 200
    with _bounds(**bound):
        _reports(ben, ann, group_id, *(_result(each, bytes(64), code=3) for each in orders))
    [*gone, last] = [ann.store.order_results.of_order(group_id, each)[0] for each in orders]
    whole = room // 64
    assert [each.output_kept for each in gone] == [False] * (4 - whole) + [True] * (whole - 1)
    assert last.output_kept
    assert {(each.output_bytes, each.result.exit) for each in gone} == {(64, 3)}
    assert ann.store.order_results.output(gone[0].id) is None


def test_malformed_results_are_quarantined(fleet: Fleet) -> None:
    ann, ben, group_id = fleet
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.ORDER_RESULT, group_id, b"\x80", ben.now)
    carry(ann, ben)
    assert ann.store.counters.values()["quarantined_malformed"] == 1
    assert list(ann.store.order_results.all(group_id)) == []


def test_a_group_takes_its_results_with_it(fleet: Fleet) -> None:
    ann, ben, group_id = fleet
    order = _ordered(ann, group_id)
    _reports(ben, ann, group_id, _result(order))
    with ann.store.transaction():
        ann.store.groups.forget(group_id)
    assert _kept(ann, group_id, order) == []
    [(outputs,)] = ann.store.connection.execute("SELECT count(*) FROM order_output")
    assert outputs == 0


@pytest.fixture
def parted(fleet: Fleet) -> Left:
    """Ben was given an order, and is no longer in its group; he shares another one with Ann, who removed him."""
    ann, ben, group_id = fleet
    found(ann, ben)
    order = _ordered(ann, group_id)
    carry(ann, ben)
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(ben.key, epoch), ann.now)
    return ann, ben, group_id, order


def test_a_device_that_has_left_reports_on_orders_that_it_was_given(parted: Left) -> None:
    ann, ben, group_id, order = parted
    _reports(ben, ann, group_id, _result(order))
    assert _kept(ann, group_id, order) == [(ben.key, _result(order))]
    assert not ben.node.groups.is_in(group_id)
    assert ben.store.outbox.totals()[0] == 0


def test_a_result_of_a_device_that_has_left_waits_for_its_order(parted: Left) -> None:
    ann, ben, group_id, _ = parted
    unknown = OperationId(b"\7" * 32)
    _reports(ben, ann, group_id, _result(unknown))
    assert (_kept(ann, group_id, unknown), ben.store.outbox.totals()[0]) == ([], 1)


def _delete(ann: Device, group_id: GroupId, order: OperationId) -> None:
    """Delete what an order says, as a checkpoint lets a device do."""
    with ann.store.transaction():
        ann.node.history.write(group_id, Note("text/plain", b"the last of its log stays"), ann.now)
        shape = ann.store.operations.shape(group_id, order)
        assert shape is not None
        assert ann.store.operations.forgotten.take([shape.arrival]) == 1


def test_a_device_that_has_left_reports_on_an_order_that_was_deleted_meanwhile(parted: Left) -> None:
    ann, ben, group_id, order = parted
    _delete(ann, group_id, order)
    _reports(ben, ann, group_id, _result(order))
    assert _kept(ann, group_id, order) == [(ben.key, _result(order))]
    assert ben.store.outbox.totals()[0] == 0


def test_a_device_that_has_left_reports_nothing_that_was_ordered_later_and_deleted(parted: Left) -> None:
    ann, ben, group_id, _ = parted
    later = _ordered(ann, group_id)
    _delete(ann, group_id, later)
    _reports(ben, ann, group_id, _result(later))
    assert _kept(ann, group_id, later) == []
    assert ann.store.counters.values()["quarantined_not_allowed"] == 1


def test_a_device_that_has_left_reports_nothing_that_was_ordered_later(parted: Left) -> None:
    ann, ben, group_id, _ = parted
    later = _ordered(ann, group_id)
    _reports(ben, ann, group_id, _result(later))
    assert _kept(ann, group_id, later) == []
    assert ann.store.counters.values()["quarantined_not_allowed"] == 1


def test_results_of_a_device_that_has_left_do_not_wait_for_ever(parted: Left) -> None:
    ann, ben, group_id, order = parted
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.ORDER_RESULT, group_id, _result(order).to_wire(), ben.now)
        ben.node._queue.queue_all((), (), ben.now, [Parted(group_id, ann.key, is_out=True)])
        ben.store.outbox.grow_older(actions.RESULT_OF_FORMER_MEMBER_US)
        assert ben.store.outbox.expire() == []
        ben.store.outbox.grow_older(MAINTENANCE_US)
        [(recipient, _)] = ben.store.outbox.expire()
    assert recipient == ann.key
