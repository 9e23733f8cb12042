"""A device that lost with its state that it was let in again finds that out when a member speaks to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.core.ids import GroupId
from covey.core.wire.message import MessageType, read_message
from tests.fleet import Device, admit, carry, found

Make = Callable[..., Device]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda name: Device(name, tmp_path)


def _remove(ann: Device, ben: Device, group_id: GroupId) -> None:
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(ben.key, epoch), ann.now)
    carry(ann, ben)
    assert ben.node.groups.joined() == []


def test_who_lost_that_it_was_let_in_again_asks_who_speaks_to_it(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _remove(ann, ben, group_id)
    copy = ben.copy_state()
    admit(ann, ben, group_id)
    assert ben.node.groups.joined()
    ben.return_to(copy)
    assert ben.node.groups.joined() == []
    ann.blob(group_id, b"hello")
    for _ in range(10):
        carry(ann, ben)
        for device in (ann, ben):
            device.wait(60)
            device.maintain()
    assert [group.hash for group in ben.node.groups.joined()] == [ann.node.groups.group(group_id).hash]
    assert ben.node.groups.secret(group_id) == ann.node.groups.secret(group_id)
    assert ben.inbox() == [b"hello"]


def test_who_is_out_for_all_asks_in_vain_and_seldom(make: Make) -> None:
    """What members said before they knew of the removal comes late."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    carry(ann, ben, cid)
    for number in range(5):
        cid.blob(group_id, b"%d" % number)
    late = [each for each in cid.sends() if each.topic.endswith(ben.key.hex())]
    _remove(ann, ben, group_id)
    carry(ann, cid)
    for each in late:
        ben.receive(each.envelope)
    asked = [read_message(raw).type for _, raw in ben.store.outbox.control_messages(cid.key)]
    assert asked.count(MessageType.GROUP_PULL) == 1
    carry(ann, ben, cid)
    assert ben.node.groups.joined() == []
    ben.wait(1_200)
    ben.maintain()
    carry(ann, ben, cid)
    assert list(ben.store.outbox.recipients()) == []
