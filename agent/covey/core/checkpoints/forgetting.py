"""What a device may forget of a history (docs/protocol/history.md, "Forgetting").

1. Only operations that are covered by a checkpoint that counts here and covers nothing void.
2. Of these, only operations that affect no judgement: notes, sessions, merges, profiles except the one in the
   checkpoint, earlier checkpoints, and approvals of these.
3. Never operations that arrived recently by this device's clock, the last operation of a log, two that prove a fork, or
   those right after these.
4. Profiles and orders only if the checkpoint covers everything forgotten before: without their content, a concurrent
   earlier checkpoint cannot be recomputed and proves nothing. Of orders only those that the checkpoint settles
   (`covered.py`), if it names the operators that this device's owner has pinned and a graph that lists the orders as
   settled. Of commands only those that this device has finished and reported.

Of each forgotten operation its id, its place in the graph and its targets remain. So devices with the same operations
judge alike and compute the same checkpoint, whatever each has forgotten.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from covey.core.checkpoints.checkpoints import VOID, Checkpoint
from covey.core.checkpoints.covered import covered_by, settled, weigh_covered
from covey.core.checkpoints.graph import followed_by
from covey.core.checkpoints.state import CheckpointState
from covey.core.history.kinds import JUDGED_BY_PLACE, OperationKind
from covey.core.history.operation import OperationShape
from covey.core.ids import GroupId, OperationId
from covey.core.orders.nodes import OrderNode

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords


def base_of(newest_first: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the last checkpoint by which something may be forgotten (rule 1); None where there is none."""
    return next((each for each in newest_first if not each.code and each.objection != VOID), None)


def forgettable(
    records: OperationRecords,
    group_id: GroupId,
    base: Checkpoint,
    void: frozenset[OperationId],
    came_before_us: int,
    is_over: Callable[[OperationId], bool] = lambda _: False,
) -> Sequence[int]:
    """Return the arrivals that may be forgotten and are older than a time of this device's clock, ascending.

    Empty if the checkpoint covers something void. The caller leaves out the logs and forks of rule 3. It needs 8 bytes
    of memory for each, and some more for each order. `is_over` says whether this device has finished with a command.
    """
    assert base.state is not None, "it counts"
    covers, found = base.state.covers, array("q")
    covered = covered_by(records.nodes(group_id), records.frontier(group_id, covers))
    judged_by = _judged_by(covered, base.state)
    proves_all = count_uncovered(records, group_id, [base]) == 0
    orders = _settled_orders(records, group_id, covered, base) if proves_all else frozenset()
    for shape in followed_by(records.shapes(group_id), [covers]):
        if shape.id in void:
            return array("q")
        lately = shape.stored_at_us is None or shape.stored_at_us >= came_before_us
        if lately or shape.id in judged_by or (shape.kind == OperationKind.PROFILE and not proves_all):
            continue
        is_command = shape.kind == OperationKind.COMMAND
        if _may_go(shape) or (shape.id in orders and (not is_command or is_over(shape.id))):
            found.append(shape.arrival)
    found.reverse()
    return found


def count_uncovered(records: OperationRecords, group_id: GroupId, checkpoints: Iterable[Checkpoint]) -> int:
    """Return how many operations were forgotten that no checkpoint covers which counts: there is no proof of these."""
    gone = sum(each.stored_at_us is None for each in records.shapes(group_id))
    covers = {each.state.covers for each in checkpoints if each.state is not None and not each.code}
    covered = followed_by(records.shapes(group_id), covers)
    return gone - sum(each.stored_at_us is None for each in covered)


def _may_go(shape: OperationShape) -> bool:
    return shape.kind in JUDGED_BY_PLACE or shape.kind == OperationKind.APPROVAL


def _settled_orders(
    records: OperationRecords, group_id: GroupId, covered: list[OrderNode], base: Checkpoint
) -> frozenset[OperationId]:
    """Return the orders that no device needs any more except those that still run or report them (rule 4)."""
    state = base.state
    if state is None or base.objection:
        return frozenset()
    return settled(records, group_id, covered, weigh_covered(records, group_id, covered, state.pins))


def _judged_by(covered: list[OrderNode], state: CheckpointState) -> set[OperationId]:
    """Return the profiles and approvals to keep, and the checkpoint's own ancestors (rule 2)."""
    found, checkpoints = set(), set()
    for node in covered:
        if node.kind == OperationKind.CHECKPOINT:
            checkpoints.add(node.id)
        elif node.kind == OperationKind.APPROVAL and node.subject not in checkpoints:
            found.add(node.id)
    return found | {state.covers} | ({state.profile.operation} if state.profile else set())
