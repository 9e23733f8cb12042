"""Groups that were destroyed are forgotten when all know, or a day has gone by: a day that no clock can set."""

from __future__ import annotations

import pytest

from covey.app.loop.group_teardown import GroupTeardown
from covey.core.ids import GroupId
from covey.limits.group import REVOKE_US
from tests.fleet import Device, Make, carry, found

_YEAR_US = 365 * 86_400_000_000


def _destroyed_by(ann: Device, ben: Device) -> GroupId:
    group_id = found(ann, ben)
    with ann.store.transaction():
        ann.node.actions.destroy(group_id, ann.now)
    return group_id


def _turn(role: GroupTeardown, device: Device, seconds: int) -> None:
    for _ in range(2):
        role.turn(device.node, device.now)
        device.wait(seconds)
        device.maintain()
    role.turn(device.node, device.now)


@pytest.mark.parametrize("jump_us", [_YEAR_US, -_YEAR_US])
def test_a_clock_that_is_set_ends_no_destruction_that_others_have_not_heard_of(make: Make, jump_us: int) -> None:
    """000.22, 000.23."""
    ann, ben = make("ann"), make("ben")
    _destroyed_by(ann, ben)
    role = GroupTeardown(ann.store)
    role.turn(ann.node, ann.now)
    ann.now = ann.now._replace(wall_us=ann.now.wall_us + jump_us)
    _turn(role, ann, 60)
    assert not role.nothing_left
    carry(ann, ben)
    assert ben.node.groups.joined() == []
    _turn(role, ann, 60)
    assert role.nothing_left


@pytest.mark.slow
def test_it_ends_after_a_day_of_running_through_restarts(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    _destroyed_by(ann, ben)
    ran_us = 0
    while ran_us < REVOKE_US:
        role = GroupTeardown(ann.store)
        _turn(role, ann, 1_800)  # twice
        ran_us += 3_600_000_000
        assert role.nothing_left == (ran_us >= REVOKE_US)
        ann.restart()
