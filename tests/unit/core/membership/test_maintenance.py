"""What groups need from time to time, as it is seen from outside: here an epoch whose secret nobody has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.group.manifest import GroupManifest, Mode
from covey.core.ids import GroupId
from covey.core.wire.message import MessageType, read_message
from covey.limits.group import PULLS_ANSWERED, SECRET_PULLS
from tests.fleet import Device, Make, admit, carry, found

_DAY_MINUTES = 1_440


def _lose_secret(group_id: GroupId, *devices: Device) -> None:
    """Take the secret of the epoch from devices, which start anew: what had drawn it is gone for good."""
    for device in devices:
        with device.store.transaction():
            device.store.connection.execute("DELETE FROM epoch_secret WHERE group_id = ?", (group_id,))
        device.restart()


def _live(*devices: Device, minutes: int) -> int:
    """Let devices hear each other; return how many envelopes went."""
    went = 0
    for _ in range(minutes):
        for device in devices:
            device.wait(60)
            device.maintain()
        went += carry(*devices)
    return went


def _secrets(group_id: GroupId, *devices: Device) -> set[bytes | None]:
    return {device.node.groups.secret(group_id) for device in devices}


@pytest.mark.slow
def test_an_epoch_whose_secret_nobody_has_is_followed_by_another(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    epoch = ann.node.groups.group(group_id).epoch
    _lose_secret(group_id, ann, ben, cid)
    _live(ann, ben, cid, minutes=5)
    assert _secrets(group_id, ann, ben, cid) == {None}  # whoever has it may just be away
    _live(ann, ben, cid, minutes=180)
    (secret,) = _secrets(group_id, ann, ben, cid)
    assert secret is not None
    groups = [device.node.groups.group(group_id) for device in (ann, ben, cid)]
    assert {group.hash for group in groups} == {groups[0].hash}
    assert groups[0].epoch > epoch
    assert len(groups[0].members) == 3
    assert _live(ann, ben, cid, minutes=_DAY_MINUTES) < _DAY_MINUTES


@pytest.mark.slow
def test_a_secret_that_somebody_still_has_is_waited_for(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    _lose_secret(group_id, ben)
    before = ann.node.groups.group(group_id)
    _live(ann, ben, cid, minutes=180)
    assert _secrets(group_id, ann, ben, cid) == {ann.node.groups.secret(group_id)} != {None}
    assert ben.node.groups.group(group_id).hash == before.hash


def test_an_absent_member_is_owed_few_requests(make: Make) -> None:
    """More of them would have their turns before what was there first, as they were tried less."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _lose_secret(group_id, ben)
    for _ in range(6 * 60):
        ben.wait(60)
        ben.maintain()
    waiting = [read_message(raw, verify=False).type for _, raw in ben.store.outbox.control_messages(ann.key)]
    assert waiting.count(MessageType.GROUP_PULL) <= PULLS_ANSWERED
    _live(ann, ben, minutes=10)
    assert _secrets(group_id, ann, ben) == {ann.node.groups.secret(group_id)} != {None}


@pytest.mark.slow
def test_only_an_admin_begins_an_epoch_where_there_are_admins(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us, Mode.ADMIN_INVITES).group_id
    admit(ann, ben, group_id)
    _lose_secret(group_id, ann, ben)
    for _ in range(_DAY_MINUTES):
        ben.wait(60)
        ben.maintain()
    assert _secrets(group_id, ben) == {None}
    _live(ann, ben, minutes=SECRET_PULLS * 10)
    (secret,) = _secrets(group_id, ann, ben)
    assert secret is not None
    assert ben.node.groups.group(group_id).issuer == ann.key


@pytest.mark.slow
def test_a_long_answer_comes_in_several(make: Make) -> None:
    """More rivals than one message has room for: each request would be answered with the same first ones."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    _receive_rivals(cid, ann, group_id, ann, ben)
    _live(ann, ben, minutes=30)
    group = ann.node.groups.group(group_id)
    assert group.raw
    assert ben.node.groups.group(group_id).hash == group.hash


@pytest.mark.slow
def test_a_removed_device_hears_it_in_several_messages(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    _receive_rivals(cid, ann, group_id, ann, ben)
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(ben.key, epoch), ann.now)
    _live(ann, ben, minutes=_DAY_MINUTES // 2)
    assert ben.node.groups.joined() == []


def _receive_rivals(restored: Device, receiver: Device, group_id: GroupId, *behind_a_small_relay: Device) -> None:
    """Let a member hear of more rivals by a device than one message carries, and go on without that one."""
    carry(restored, *behind_a_small_relay)
    copy, rivals = restored.copy_state(), 6
    for number in range(rivals):
        _relabel(restored, group_id, f"label {number}")
        for outgoing in restored.sends():
            if outgoing.recipient == receiver.key:
                receiver.receive(outgoing.envelope)
        restored.return_to(copy)
    restored.stop()
    assert len(receiver.node.groups.trust(group_id).heads()) == rivals
    for device in behind_a_small_relay:
        device.node.state.carriage.maximum_payload = 1_700  # two manifests, of three members


def _relabel(device: Device, group_id: GroupId, label: str) -> None:
    def edit(draft: GroupManifest) -> GroupManifest:
        own = draft.member(device.key)
        assert own is not None
        return draft.changing(replace(own, label=label))

    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, _: edit(draft), device.now)
