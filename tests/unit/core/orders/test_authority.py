"""`covey.core.orders.authority`: whose word counts, by the vectors; and its bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from covey.adapters.sqlite.store import empty_history
from covey.core.crypto import Identity
from covey.core.history.bodies import read_body
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.orders import Approval, CommandOrder, SettingOrder
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.authority import Pins, WeighedOrders, weigh_orders
from covey.core.orders.nodes import OrderNode
from covey.core.orders.roll_out import RollOut, Wave
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.errors import RemoteError
from covey.limits.orders import CHANGES_OF_A_LOG
from tests.vectors import vectors
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY, NOW_US
from tests.vectors.makers.history import FIRST
from tests.vectors.makers.orders import adds, as_they_may_come, order, removes, said

_BY_ALICE = Pins(frozenset({ALICE.signing_public}))
_MEMBERS = frozenset(each.signing_public for each in (ALICE, BOB, CAROL))


def _weighed(
    operations: Iterable[Operation],
    pins: Pins = _BY_ALICE,
    members: frozenset[DeviceKey] = _MEMBERS,
    kind: OperationKind = OperationKind.COMMAND,
    **void: Any,
) -> WeighedOrders:
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        return weigh_orders(tables, GROUP_ID, pins, members, kind=kind, **void)


def _counting(found: WeighedOrders) -> list[str]:
    return sorted(each.id.hex() for each in found.orders if each.counts)


@pytest.mark.parametrize("vector", vectors("orders", "judgements"))
@pytest.mark.parametrize("step", [1, -1])
def test_judgements(vector: dict[str, Any], step: int) -> None:
    keys = frozenset(DeviceKey(bytes.fromhex(each)) for each in vector["pinned"])
    members = frozenset(DeviceKey(bytes.fromhex(each)) for each in vector["members"])
    operations = [read_operation(bytes.fromhex(raw)) for raw in vector["operations"]]
    found = _weighed(operations[::step], Pins(keys, vector["threshold"]), members)
    assert sorted(key.hex() for key in found.operators) == vector["operators"]
    assert _counting(found) == vector["counts"]


@pytest.mark.parametrize("vector", vectors("orders", "bodies"))
def test_bodies(vector: dict[str, Any]) -> None:
    kind, body = vector["kind"], bytes.fromhex(vector["bytes"])
    operation = Operation(GROUP_ID, FIRST.log, 1, None, (), 1, FIRST.manifest, 0, kind, body)
    if vector["code"] is None:
        assert read_body(operation).to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        read_body(operation)
    assert caught.value.code == vector["code"]


def test_an_operator_is_called_what_its_last_addition_says() -> None:
    first = said(ALICE, adds(BOB, "Frida"))
    found = _weighed([first, said(ALICE, adds(BOB, "Frida, Werkstatt"), first)])
    assert found.operators == {ALICE.signing_public: "", BOB.signing_public: "Frida, Werkstatt"}


def test_approving_a_stranger_counts_for_nobody() -> None:
    two = Pins(frozenset({ALICE.signing_public, BOB.signing_public}), 2)
    by_carol = said(CAROL, order())
    approvals = [said(each, Approval(by_carol.id), by_carol) for each in (ALICE, BOB)]
    assert _counting(_weighed([by_carol, *approvals], two)) == []


def test_orders_from_before_becoming_operator_need_approval() -> None:
    two = Pins(frozenset({ALICE.signing_public, BOB.signing_public}), 2)
    added = said(ALICE, adds(CAROL))
    agreed = said(BOB, Approval(added.id), added)
    by_carol = said(CAROL, order())
    approvals = [said(each, Approval(by_carol.id), by_carol, agreed) for each in (ALICE, BOB)]
    found = _weighed([added, agreed, by_carol, *approvals], two)
    assert CAROL.signing_public in found.operators
    assert _counting(found) == []


def test_a_void_operation_signs_nothing() -> None:
    bob = said(ALICE, adds(BOB))
    by_bob = said(BOB, order(), bob)
    assert _counting(_weighed([bob, by_bob])) == [by_bob.id.hex()]
    void: frozenset[OperationId] = frozenset({bob.id})
    assert _counting(_weighed([bob, by_bob], void=void)) == []
    assert _counting(_weighed([bob, by_bob], void=frozenset({by_bob.id}))) == []


def test_the_worked_example_holds() -> None:
    three = Pins(frozenset(each.signing_public for each in (ALICE, BOB, CAROL)), 2)
    a = said(ALICE, order())
    b = said(BOB, Approval(a.id), a)
    c = said(ALICE, order(), b)
    d = said(BOB, Approval(c.id), c)
    e = said(CAROL, removes(ALICE), a)
    f = said(BOB, Approval(e.id), d, e)
    g = said(ALICE, order(), f)
    assert _counting(_weighed([a, b, c, d], three)) == sorted(each.id.hex() for each in (a, c))
    found = _weighed([a, b, c, d, e, f, g], three)
    signers = {each.id: each.signers for each in (*found.orders, *found.changes)}
    alice, bob, carol = (each.signing_public for each in (ALICE, BOB, CAROL))
    assert [signers[each.id] for each in (a, c, e, g)] == [{alice, bob}, {bob}, {carol, bob}, set()]
    assert _counting(found) == [a.id.hex()]
    assert set(found.operators) == {bob, carol}


def test_two_that_remove_each_other_are_both_removed_by_removals_that_count() -> None:
    removals = [said(ALICE, removes(BOB)), said(BOB, removes(ALICE))]
    found = _weighed(removals, Pins(frozenset({ALICE.signing_public, BOB.signing_public})))
    assert (found.operators, [each.counts for each in found.changes]) == ({}, [True, True])


@pytest.mark.parametrize("what", ["is void", "has left", "was removed beside it", "never was one"])
def test_an_order_that_enough_signed_replaces_its_authors_own(what: str) -> None:
    pins = Pins(
        frozenset(each.signing_public for each in (ALICE, BOB, *((CAROL,) if what != "never was one" else ()))), 2
    )
    first = said(ALICE, SettingOrder(EVERYBODY, "app.mode", "eco"))
    agreed = said(BOB, Approval(first.id), first)
    second = said(ALICE, SettingOrder(EVERYBODY, "app.mode", "full"), agreed)
    by_carol = said(CAROL, Approval(second.id), second)
    gone = _MEMBERS - {CAROL.signing_public}
    given: dict[str, dict[str, Any]] = {
        "is void": {"void": frozenset({by_carol.id}), "members": gone},
        "has left": {"members": gone},
    }
    removal = said(ALICE, removes(CAROL), second)
    removed = [removal, said(BOB, Approval(removal.id), removal)] if what == "was removed beside it" else []
    operations = [first, agreed, second, by_carol, *removed]
    by_id = {
        each.id: each for each in _weighed(operations, pins, kind=OperationKind.SETTING, **given.get(what, {})).orders
    }
    assert (by_id[first.id].counts, by_id[second.id].counts) == (True, False), "by two that are operators and members"
    assert by_id[second.id].replaces is (what != "never was one"), "whatever came of Carol's word, it was enough once"


def test_a_wave_of_somebody_who_is_no_operator_any_more_is_not_agreed_on_with_the_plan() -> None:
    plan = RollOut(EVERYBODY, (Wave(devices=1), Wave(percent=100)), 2, 900_000_000, 0)
    waves = [CommandOrder(Selector(SelectorKind.LABEL, each), "pump", {}, bytes(16), roll_out=plan) for each in "ab"]
    added = said(ALICE, adds(BOB))
    agreed = said(ALICE, waves[0], added)
    removed = said(ALICE, removes(BOB), agreed)
    by_bob = said(BOB, waves[1], removed)
    assert _counting(_weighed([added, agreed, removed, by_bob])) == [agreed.id.hex()]


def _numbered(author: Identity, number: int, body: OperationBody, before: Operation) -> Operation:
    """Return an operation of an author's one log here; nobody asks here whether it follows the one before it."""
    log = Log(author.signing_public, FIRST.log.incarnation)
    previous = None if number == 1 else before.id
    written = Operation(
        GROUP_ID,
        log,
        number,
        previous,
        (before.id,),
        before.height + 1,
        FIRST.manifest,
        NOW_US,
        int(body.kind),
        body.to_wire(),
    )
    return sign_operation(written, author)


def _chain(author: Identity, count: int, before: Operation) -> list[Operation]:
    found = [before]
    for number in range(count):
        found.append(said(author, order(number), found[-1]))
    return found


@pytest.mark.slow
def test_operations_in_between_make_no_difference() -> None:
    bob = said(ALICE, adds(BOB))
    between = _chain(CAROL, 600, bob)
    by_bob = said(BOB, order(), between[-1])
    assert _counting(_weighed([*between, by_bob, said(ALICE, removes(BOB), by_bob)])) == [by_bob.id.hex()]


@pytest.mark.slow
def test_changes_beyond_a_number_of_one_log_are_not_looked_at() -> None:
    first = said(ALICE, adds(BOB))
    changes = [first]
    for number in range(1, CHANGES_OF_A_LOG + 1):
        changes.append(_numbered(ALICE, number, adds(BOB), changes[-1]))
    one_more = _numbered(ALICE, CHANGES_OF_A_LOG + 1, adds(CAROL), changes[-1])
    assert CAROL.signing_public not in _weighed([*changes, one_more]).operators
    in_another_log = said(ALICE, adds(CAROL), changes[-1], log="second")
    assert CAROL.signing_public in _weighed([*changes, in_another_log]).operators


def test_an_operators_orders_replace_no_others() -> None:
    bob = said(ALICE, adds(BOB))
    flood = [_numbered(BOB, number, adds(BOB), bob) for number in range(1, CHANGES_OF_A_LOG + 9)]
    removal = said(ALICE, removes(BOB), bob)
    assert BOB.signing_public not in _weighed([bob, *flood, removal]).operators
    assert len(_weighed([bob, *flood]).changes) == 1 + CHANGES_OF_A_LOG


def test_approvals_of_changes_beyond_a_number_of_one_log_are_not_looked_at() -> None:
    two = Pins(frozenset({ALICE.signing_public, BOB.signing_public}), 2)
    first, second = said(ALICE, adds(CAROL)), said(ALICE, adds(MALLORY))
    approvals = [_numbered(BOB, number, Approval(first.id), first) for number in range(1, CHANGES_OF_A_LOG + 1)]
    beyond = _numbered(BOB, CHANGES_OF_A_LOG + 1, Approval(second.id), second)
    operators = _weighed([first, second, *approvals, beyond], two).operators
    assert (CAROL.signing_public in operators, MALLORY.signing_public in operators) == (True, False)
    in_another_log = said(BOB, Approval(second.id), second)
    assert MALLORY.signing_public in _weighed([first, second, *approvals, in_another_log], two).operators


def test_no_history_is_read_without_operators() -> None:
    class Unreadable:
        """A history that cannot be read."""

        def nodes(self, _group_id: GroupId) -> Iterator[OrderNode]:
            raise AssertionError

        judged_nodes = nodes

        def raw(self, _group_id: GroupId, _operation_id: OperationId) -> bytes | None:
            raise AssertionError

    found = weigh_orders(Unreadable(), GROUP_ID, Pins(frozenset()), _MEMBERS, kind=OperationKind.COMMAND)
    assert found == WeighedOrders({}, (), ())


@pytest.mark.slow
def test_all_orders_are_looked_at() -> None:
    orders = _chain(ALICE, 5_000, said(ALICE, adds(BOB)))
    assert len([each for each in _weighed(orders).orders if each.counts]) == 5_000
