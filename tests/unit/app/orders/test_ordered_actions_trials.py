"""`covey.app.orders.ordered_actions`: a member's word is waited for, where there is one that could give it."""

from __future__ import annotations

from typing import cast

from covey.app.orders.ordered_actions import Trials
from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.actions.installing import Installing
from covey.core.group.manifest import BOARD, Member
from covey.core.ids import GroupId, OperationId
from tests.fleet import Device, Make, carry, identity, settled


class _OnTrial:
    """Has one installation on trial until it is acknowledged."""

    def __init__(self, device: Device, group_id: GroupId) -> None:
        operation = OperationId(bytes(32))
        self._open = [Installation(operation, group_id, device.key, "pump", "", InstallationPhase.TRIAL, b"boot", 0)]

    def under_way(self) -> list[Installation]:
        return list(self._open)

    def acknowledged(self, _operation: OperationId) -> None:
        self._open.clear()


def test_a_trial_waits_for_a_member(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    on_trial = _OnTrial(ann, GroupId(settled(ann, ben)))
    trials = Trials(ann.store, cast("Installing", on_trial))
    assert trials.look(ann.node, ann.now)
    assert trials.look(ann.node, ann.now)
    assert on_trial.under_way(), "nobody has said anything"
    carry(ann, ben)
    trials.look(ann.node, ann.now)
    assert not on_trial.under_way()


def test_a_device_with_only_boards_asks_no_member(make: Make) -> None:
    ann = make("ann")
    group_id = GroupId(settled(ann))
    board = Member(identity("bench").keys, capabilities=(BOARD,))
    with ann.store.transaction():
        ann.node.membership.change(group_id, lambda draft, _: draft.adding(board), ann.now.wall_us)
    on_trial = _OnTrial(ann, group_id)
    Trials(ann.store, cast("Installing", on_trial)).look(ann.node, ann.now)
    assert not on_trial.under_way()
    assert not ann.store.outbox.queues(), "and nothing waits for the board"
