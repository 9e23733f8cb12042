"""Who comes back gets at once what waits: with a lost database however much that is, and after an outage."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.group.manifest import GroupManifest
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
        invite = inviter.node.joining.invite(group_id, ("collector",), "", inviter.now.wall_us)
    joiner.now = inviter.now
    with joiner.store.transaction():
        joiner.node.actions.request_join(invite, joiner.name, joiner.now)


@pytest.mark.slow
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


@pytest.mark.slow
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


def _labelled(draft: GroupManifest, device: Device, label: str) -> GroupManifest:
    members = [replace(each, label=label) if each.keys == device.identity.keys else each for each in draft.members]
    return replace(draft, members=tuple(members))


def _change_label(device: Device, group_id: GroupId, label: str) -> None:
    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, _: _labelled(draft, device, label), device.now)


def _believed(device: Device, group_id: GroupId) -> tuple[GroupManifest, bytes | None]:
    return device.node.groups.group(group_id), device.node.groups.secret(group_id)


def _come_back(inviter: Device, tmp_path: Path, group_id: GroupId, *others: Device) -> Device:
    """Let the collector's keys come back with nothing else, invited by a member; return it as it is soon after."""
    second = Device("collector", folder_for(tmp_path, "second"), collects=True, chance=random.Random("another life"))
    _ask(inviter, second, group_id)
    for _ in range(5):
        everybody = {device.name: device for device in (inviter, second, *others)}.values()
        carry(*everybody)
        for device in everybody:
            device.wait(1)
    return second


def _refused(device: Device) -> dict[str, int]:
    return {name: count for name, count in device.store.counters.values().items() if name.startswith("quarantined")}


def test_any_member_lets_a_device_in_again_also_one_that_never_changed_the_group(tmp_path: Path) -> None:
    ann, ben, before = Device("ann", tmp_path), Device("ben", tmp_path), Device("collector", tmp_path, collects=True)
    group_id = found(ann, ben, before)
    before.stop()
    second = _come_back(ben, tmp_path, group_id, ann)
    assert _refused(second) == {}
    assert _believed(second, group_id) == _believed(ben, group_id) == _believed(ann, group_id)


@pytest.mark.slow
@pytest.mark.parametrize("inviter", [0, 1])
@pytest.mark.parametrize("ended", [True, False])
def test_a_group_whose_manifests_forked_lets_a_device_in_again(tmp_path: Path, inviter: int, *, ended: bool) -> None:
    ann, ben, cas = members = [Device(name, tmp_path) for name in ("ann", "ben", "cas")]
    before = Device("collector", tmp_path, collects=True)
    group_id = found(*members, before)
    before.stop()
    _change_label(ann, group_id, "one")
    _change_label(ben, group_id, "other")
    carry(*members)
    if ended:
        _change_label(cas, group_id, "both")
        carry(*members)
    second = _come_back(members[inviter], tmp_path, group_id, *members)
    assert _refused(second) == {}
    assert all(_believed(second, group_id) == _believed(member, group_id) for member in members)


@pytest.mark.slow
def test_older_messages_may_arrive_instead_of_the_answer(tmp_path: Path) -> None:
    ann, ben, before = Device("ann", tmp_path), Device("ben", tmp_path), Device("collector", tmp_path, collects=True)
    group_id = found(ann, ben, before)
    _change_label(ben, group_id, "other")
    _change_label(ann, group_id, "one")
    carry(ann, before)  # who so has not heard of the other one
    before.stop()
    carry(ann, ben)
    _change_label(ann, group_id, "both")
    second = _come_back(ann, tmp_path, group_id)
    assert _refused(second) == {}
    assert _believed(second, group_id) == _believed(ann, group_id)


@pytest.mark.slow
def test_control_messages_that_wait_in_vain_do_not_hold_up_the_answer(tmp_path: Path) -> None:
    """The window of control has closed to one message, which goes every five minutes: who asks reopens it."""
    ann, before = Device("ann", tmp_path), Device("collector", tmp_path, collects=True)
    group_id = found(ann, before)
    before.stop()
    for number in range(4):
        _change_label(ann, group_id, f"label {number}")
        _without_answers(ann, 60)
    second = _come_back(ann, tmp_path, group_id)
    assert [group.group_id for group in second.node.groups.joined()] == [group_id]
    assert _believed(second, group_id) == _believed(ann, group_id)
