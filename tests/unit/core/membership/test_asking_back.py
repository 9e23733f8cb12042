"""A device that lost with its state that it was let in again finds that out when a member speaks to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.messages import Bundle, GroupSend, pull_to_wire
from covey.core.ids import GroupId, inbox_name
from covey.core.wire.message import MessageType, read_message
from tests.fleet import Device, Make, admit, carry, found


def _remove(ann: Device, ben: Device, group_id: GroupId) -> None:
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(ben.key, epoch), ann.now)
    carry(ann, ben)
    assert group_id not in {group.group_id for group in ben.node.groups.joined()}


def test_a_device_that_lost_its_readmission_asks_back(make: Make) -> None:
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


def test_a_device_that_lost_its_readmission_is_given_what_it_lacks(make: Make) -> None:
    """It cannot ask: what is never taken would wait for that member for ever."""
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    group_id = found(ann, ben)
    _remove(ann, ben, group_id)
    copy = ben.copy_state()
    admit(ann, ben, group_id)
    ben.return_to(copy)
    carry(ann, ben)
    for _ in range(10):
        for device in (ann, ben):
            device.wait(60)
            device.maintain()
        carry(ann, ben)
    assert ben.node.groups.group(group_id).hash == ann.node.groups.group(group_id).hash
    assert ben.node.groups.secret(group_id) == ann.node.groups.secret(group_id)


def test_a_removed_device_asks_seldom(make: Make) -> None:
    """What members said before they knew of the removal comes late."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    carry(ann, ben, cid)
    for number in range(5):
        cid.blob(group_id, b"%d" % number)
    late = [each for each in cid.sends() if each.topic.endswith(inbox_name(ben.key))]
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


def test_what_a_removed_device_asks_expires_where_it_also_notifies_the_member(make: Make) -> None:
    """The notice gives the member an address for a month."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    first, second = found(ann, ben, cid), found(ann, ben, cid)
    carry(ann, ben, cid)
    cid.blob(first, b"late")
    late = [each for each in cid.sends() if each.topic.endswith(inbox_name(ben.key))]
    _remove_in_vain(ann, ben, first)
    carry(ann, ben, cid)
    _remove_in_vain(ann, cid, second)
    for each in ann.sends():
        (cid if each.topic.endswith(inbox_name(cid.key)) else ben).receive(each.envelope)
    for each in late:
        ben.receive(each.envelope)
    assert _waiting(ben, cid) == [MessageType.GROUP_PULL, MessageType.GROUP_MANIFEST]
    _pass_an_hour(ann, ben, cid)
    assert list(ben.store.outbox.recipients()) == []


def test_what_a_removed_device_answers_expires_where_it_also_notifies_the_member(make: Make) -> None:
    """The member asked while it listed the device, and takes nothing of it any more."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    first, second = found(ann, ben, cid), found(ann, ben, cid)
    carry(ann, ben, cid)
    with cid.store.transaction():
        ask = GroupSend(ben.key, MessageType.GROUP_PULL, first, pull_to_wire(1))
        cid.node.actions.queue_sends([ask], cid.now)
    late = [each for each in cid.sends() if each.topic.endswith(inbox_name(ben.key))]
    _remove_in_vain(ann, ben, first)
    _remove_in_vain(ann, cid, second)
    to_cid = []
    for each in ann.sends():
        if each.topic.endswith(inbox_name(cid.key)):
            to_cid.append(each)
        else:
            ben.receive(each.envelope)
    for each in late:
        ben.receive(each.envelope)
    for each in to_cid:
        cid.receive(each.envelope)
    assert _waiting(ben, cid) == [MessageType.GROUP_MANIFEST]
    _pass_an_hour(ann, ben, cid)
    assert list(ben.store.outbox.recipients()) == []


def test_what_a_removed_device_asks_expires_where_it_shares_a_group_since(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    carry(ann, ben, cid)
    cid.blob(group_id, b"late")
    late = [each for each in cid.sends() if each.topic.endswith(inbox_name(ben.key))]
    _remove_in_vain(ann, ben, group_id)
    carry(ann, ben, cid)
    for each in late:
        ben.receive(each.envelope)
    assert _waiting(ben, cid) == [MessageType.GROUP_PULL, MessageType.GROUP_MANIFEST]
    ben.sends()  # it is lost
    found(cid, ben)
    _pass_an_hour(ann, ben, cid)
    assert list(ben.store.outbox.recipients()) == []


def _waiting(device: Device, recipient: Device) -> list[MessageType]:
    return [read_message(raw, verify=False).type for _, raw in device.store.outbox.control_messages(recipient.key)]


def _pass_an_hour(*devices: Device) -> None:
    for _ in range(12):
        carry(*devices)
        for device in devices:
            device.wait(300)
            device.maintain()
    carry(*devices)


@pytest.mark.slow
def test_a_device_readmitted_by_a_lost_life_proves_it_to_members_that_report_its_removal(make: Make) -> None:
    """Its inviter was restored, nobody else had heard of it, and members who know of the removal hear nothing of it."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    carry(ann, ben, cid)
    _remove(ann, ben, group_id)
    carry(ann, cid)
    copy = ann.copy_state()
    admit(ann, ben, group_id)
    ann.return_to(copy)
    _relabel(ann, group_id)
    carry(ann, cid)
    assert ann.node.groups.group(group_id).member(ben.key) is None
    for _ in range(60):
        for device in (ann, ben, cid):
            device.wait(60)
            device.maintain()
        carry(ann, ben, cid)
    hashes = {each.node.groups.group(group_id).hash for each in (ann, ben, cid)}
    assert hashes == {ann.node.groups.group(group_id).hash}
    assert ann.node.groups.group(group_id).member(ben.key) is not None
    assert list(ben.store.outbox.recipients()) == []


def test_a_removed_device_that_says_so_of_others_is_given_nothing(make: Make) -> None:
    ann, mal = make("ann"), make("mal")
    group_id = found(ann, mal)
    _remove_in_vain(mal, ann, group_id)
    said = [each for each in mal.sends() if each.recipient == ann.key]
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(mal.key, epoch), ann.now)
    ann.sends()
    _relabel(ann, group_id)
    for each in said:
        ann.receive(each.envelope)
    assert ann.node.groups.group(group_id).member(mal.key) is None
    waiting = [read_message(raw, verify=False) for _, raw in ann.store.outbox.control_messages(mal.key)]
    manifests = [read_manifest(raw) for each in waiting for raw in Bundle.from_wire(each.body).manifests]
    assert "restored" not in {member.label for each in manifests for member in each.members}


def _remove_in_vain(device: Device, other: Device, group_id: GroupId) -> None:
    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, epoch: draft.removing(other.key, epoch), device.now)


def _relabel(device: Device, group_id: GroupId) -> None:
    def edit(draft: GroupManifest) -> GroupManifest:
        own = draft.member(device.key)
        assert own is not None
        return draft.changing(replace(own, label="restored"))

    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, _: edit(draft), device.now)
