"""`covey.core.actions.probing`: what is on trial is acknowledged by a member, and by nobody else."""

from __future__ import annotations

from pathlib import Path

from covey.core.history.bodies import Note
from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.wire.message import MessageType, read_message
from covey.limits.actions import PROBED_MEMBERS
from tests.fleet import Device, carry, settled


def _probe(device: Device, author: Device, group_id: GroupId) -> dict[DeviceKey, Place]:
    with device.store.transaction():
        return device.node.probes.send(device.node.groups.group(group_id), author.key, device.now)


def test_one_member_that_acknowledges_is_enough_and_nothing_less_is(tmp_path: Path) -> None:
    ann, ben, cid = (Device(name, tmp_path) for name in ("ann", "ben", "cid"))
    group_id = GroupId(settled(ann, ben, cid))
    assert not ann.node.probes.are_acknowledged({})
    sent = _probe(ann, ben, group_id)
    assert sent.keys() == {ben.key, cid.key}
    assert (ann.node.probes.are_acknowledged(sent), ann.node.probes.wait(sent)) == (False, True)
    ann.sends()
    assert not ann.node.probes.are_acknowledged(sent), "a relay has taken it, and no member"
    ann.wait(60)
    carry(ann, cid)
    assert ann.node.probes.are_acknowledged(sent)


def test_so_many_are_asked_and_who_gave_the_order_first(tmp_path: Path) -> None:
    ann, *others = (Device(f"device {number}", tmp_path) for number in range(PROBED_MEMBERS + 3))
    group_id = GroupId(settled(ann, *others))
    for author in (others[0], others[-1]):
        sent = _probe(ann, author, group_id)
        assert (len(sent), author.key in sent) == (PROBED_MEMBERS, True)
    [(_, raw), *_] = ann.store.outbox.queued(others[0].key, Place(0), 1, 100_000)
    assert read_message(raw, verify=False).type is MessageType.HISTORY_PULL


def test_a_probe_asks_for_nothing_however_much_has_been_said_in_the_group(tmp_path: Path) -> None:
    ann, ben, *others = (Device(f"device {number}", tmp_path) for number in range(8))
    group_id = GroupId(settled(ann, ben, *others))
    for other in others:
        with other.store.transaction():
            other.node.history.write(group_id, Note("text/plain", b"what ben alone hears"), other.now)
        carry(other, ben)
    sent = _probe(ann, ben, group_id)
    [(_, raw), *_] = ann.store.outbox.queued(ben.key, Place(0), 1, 100_000)
    assert read_message(raw, verify=False).body == bytes.fromhex("86480000000000000000f540008080")
    carry(ann, ben)
    ben.wait(60)
    carry(ann, ben)
    assert ann.node.probes.are_acknowledged(sent)
    assert list(ann.store.operations.logs(group_id)) == [], "it is not given what it did not ask for"
