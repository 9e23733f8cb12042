"""`covey.core.checkpoints.covered`: which orders a checkpoint settles."""

from __future__ import annotations

from covey.adapters.sqlite.store import empty_history
from covey.core.checkpoints.covered import settled, weigh_covered
from covey.core.history.operation import Operation
from covey.core.history.orders import Approval, SettingOrder
from covey.core.ids import OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY
from tests.vectors.makers.cast import ALICE, BOB, GROUP_ID
from tests.vectors.makers.orders import as_they_may_come, said

_TWO = Pins(frozenset({ALICE.signing_public, BOB.signing_public}), 2)


def _settled(*operations: Operation) -> frozenset[OperationId]:
    with empty_history() as tables:
        for operation in as_they_may_come(operations):
            tables.add(operation, 1, 0)
        nodes = list(tables.nodes(GROUP_ID))
        return settled(tables, GROUP_ID, nodes, weigh_covered(tables, GROUP_ID, nodes, _TWO))


def test_a_setting_is_settled_once_as_many_as_are_needed_have_signed_what_replaces_it() -> None:
    first = said(ALICE, SettingOrder(EVERYBODY, "app.mode", "eco"))
    agreed = said(BOB, Approval(first.id), first)
    later = said(ALICE, SettingOrder(EVERYBODY, "app.mode", "full"), agreed)
    assert _settled(first, agreed, later) == frozenset(), "by one alone nothing is replaced"
    assert _settled(first, agreed, later, said(BOB, Approval(later.id), later)) == {first.id}
