"""Who comes back gets at once what waits: with a lost database however much that is, and after an outage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from covey.core.ids import GroupId
from covey.limits.link import LINK_WINDOW_MESSAGES, MAXIMUM_SEQUENCE_GAP
from tests.durable import folder_for
from tests.fleet import Device, carry, found


def _queue(device: Device, group_id: GroupId, batches: int) -> None:
    with device.store.transaction():
        for number in range(batches):
            device.node.telemetry.send(group_id, b"%d" % number, 1, device.now)


def _without_answers(device: Device, minutes: int) -> None:
    """Send to who is away, until each retry waits as long as it may."""
    for _ in range(minutes):
        device.wait(60)
        device.sends()


def _ask(inviter: Device, joiner: Device, group_id: GroupId) -> None:
    with inviter.store.transaction():
        invite = inviter.node.membership.invite(group_id, ("collector",), "", inviter.now.wall_us)
    joiner.now = inviter.now
    with joiner.store.transaction():
        joiner.node.actions.request_join(invite, joiner.name, joiner.now)


@pytest.mark.parametrize("waiting", [10, 2 * LINK_WINDOW_MESSAGES, MAXIMUM_SEQUENCE_GAP + 500])
def test_a_collector_without_its_database_is_in_within_seconds(tmp_path: Path, waiting: int) -> None:
    ann, before = Device("ann", tmp_path), Device("collector", tmp_path, collects=True)
    group_id = found(ann, before)
    before.stop()
    _queue(ann, group_id, waiting)
    _without_answers(ann, 60)
    second = Device("collector", folder_for(tmp_path, "second"), collects=True, chance=random.Random("another life"))
    _ask(ann, second, group_id)
    for _ in range(5):
        carry(ann, second)
        ann.wait(1)
        second.wait(1)
    assert [group.group_id for group in second.node.groups.joined()] == [group_id]
    assert second.store.landing.waiting(1_000_000_000, 1_000_000) is not None, "what waited follows at once"


def test_a_recipient_that_is_back_says_so(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    ben.node.connection_lost()
    ann.blob(group_id, b"while ben was away")
    _without_answers(ann, 60)
    ben.now = ann.now
    ben.node.connected(ben.now)
    ben.maintain()
    for _ in range(5):
        carry(ann, ben)
        ann.wait(1)
        ben.wait(1)
    assert ben.inbox() == [b"while ben was away"]
