"""Heads in acknowledgements and beats: what one member knows reaches those that it meets, whoever issued it is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.messages import pull_from_wire
from covey.core.ids import GroupId
from covey.core.membership.agreement import Agreement, agreement
from covey.core.membership.events import GroupDestroyed
from covey.core.wire.heads import GroupHead
from covey.core.wire.message import NO_GROUP, MessageType, read_message
from covey.limits.group import BUNDLE_BYTES, MAXIMUM_LABEL_BYTES
from covey.limits.heads import HEADS_PER_SECOND, HEADS_ROUND_US, HEADS_SAVED
from covey.limits.link import LINK_WINDOW_HISTORY_MESSAGES
from tests.fleet import Device, Make, admit, carry, found, identity, settled
from tests.stolen import Stolen, acknowledge, meet, members_of, queued, remove, rename, report
from tests.unit.core.history.conduct import read_notes, write_note

_HOUR_S = 3_600


def test_a_removal_reaches_a_sleeper_by_an_acknowledgement_alone(make: Make) -> None:
    world = Stolen(make)
    world.sam.blob(world.group_id, b"hello")
    meet(world.ben, world.sam, world.mal)
    world.check_sam_knows()
    assert world.sam.store.inbox.arrived(10) == []
    world.sam.blob(world.group_id, b"again")
    assert not [each for each in world.sam.sends() if each.recipient == world.mal.key and each.entry is not None]


@pytest.mark.slow
def test_a_removal_reaches_a_sleeper_that_acknowledges(make: Make) -> None:
    world = Stolen(make)
    world.ben.blob(world.group_id, b"hello")
    meet(world.ben, world.sam)
    world.check_sam_knows()


def test_a_removal_reaches_a_sleeper_by_a_beat_alone(make: Make) -> None:
    world = Stolen(make, presence_us=60_000_000)
    world.sam.maintain()
    world.sam.node.heartbeat.connected("relay", None)
    assert world.sam.store.outbox.totals()[0] == 0
    meet(world.ben, world.sam, seconds=200)
    world.check_sam_knows()


@pytest.mark.slow
@pytest.mark.parametrize("by_beat", [False, True])
def test_a_destruction_reaches_a_sleeper(make: Make, *, by_beat: bool) -> None:
    ann, ben, sam = make("ann"), make("ben", collects=True), make("sam", presence_us=60_000_000 if by_beat else 0)
    group_id = found(ann, ben, sam)
    other = found(ann, ben, sam)
    with ann.store.transaction():
        ann.node.actions.destroy(group_id, ann.now)
    carry(ann, ben)
    with ben.store.transaction():  # as if the relay had lost it, and ben's outbox had been erased
        ben.node.refresh()
        ben.store.outbox.forget(sam.key)
    for device in (ben, sam):
        device.compares_on_contact_only()
    if by_beat:
        sam.maintain()
        sam.node.heartbeat.connected("relay", None)
    else:
        sam.blob(other, b"hello")
    meet(ben, sam)
    assert [group.group_id for group in sam.node.groups.joined()] == [other]
    assert any(isinstance(event, GroupDestroyed) for event in sam.events())


@pytest.mark.slow
def test_a_destruction_takes_along_the_manifests_that_it_rests_on(make: Make) -> None:
    world = Stolen(make)
    found_too = found(world.ben, world.sam)
    with world.ben.store.transaction():
        world.ben.node.actions.destroy(world.group_id, world.ben.now)
        world.ben.store.outbox.forget(world.sam.key)
    world.ben.node.refresh()
    world.sam.blob(found_too, b"hello")
    meet(world.ben, world.sam)
    assert [group.group_id for group in world.sam.node.groups.joined()] == [found_too]


def test_a_device_learns_of_its_collectors_removal_from_the_collector(make: Make) -> None:
    ann, ben, mal, sam = make("ann"), make("ben"), make("mal", collects=True), make("sam")
    group_id = found(ann, ben, mal, sam)
    remove(ann, mal, group_id)
    carry(ann, ben)
    for _ in range(int(3 * HEADS_ROUND_US / 1e6) // 60):
        sam.batch(group_id, b"readings")
        meet(ben, mal, sam, seconds=60)
        if mal.key not in members_of(sam, group_id):
            break
    assert mal.key not in members_of(sam, group_id)


@pytest.mark.slow
def test_rivals_come_together_by_a_third(make: Make) -> None:
    """Ann and ben, who never meet, both change the group; cay hears from both."""
    ann, ben, cay = make("ann"), make("ben"), make("cay")
    group_id = found(ann, ben, cay)
    for device in (ann, ben):
        with device.store.transaction():
            member = device.node.groups.group(group_id).member(device.key)
            assert member is not None
            changed = replace(member, label=f"{device.name} anew")
            device.node.actions.change(group_id, lambda draft, _, to=changed: draft.changing(to), device.now)
            device.store.outbox.forget(cay.key)
        device.restart()
    cay.blob(group_id, b"hello")
    meet(ann, cay, seconds=60)
    meet(ben, cay, seconds=200)
    cay.blob(group_id, b"hello again")
    meet(ann, cay, seconds=60)
    listed = {device.node.groups.group(group_id).members for device in (ann, ben, cay)}
    assert len(listed) == 1
    assert {member.label for member in cay.node.groups.group(group_id).members} >= {"ann anew", "ben anew"}


def _agreement(device: Device, group_id: GroupId) -> Agreement:
    said_to = {key: device.node.heads.said_to(key) for key in members_of(device, group_id)}
    changed_at_us = device.store.groups.changed_at(group_id)
    trust = device.node.groups.trust(group_id)
    return agreement(trust, device.key, said_to, device.store.heads.all(), changed_at_us)


@pytest.mark.slow
def test_agreement_is_what_everybody_was_last_seen_with(make: Make) -> None:
    world = Stolen(make)
    ann, ben, mal, sam = world.ann, world.ben, world.mal, world.sam
    before = _agreement(sam, world.group_id)
    assert not before.whole, "it has spoken with the inviter alone"
    assert set(before.never) == {ben.key, mal.key}
    mal.blob(world.group_id, b"all is well")
    meet(mal, sam, seconds=10)
    sam.blob(world.group_id, b"yes")
    meet(mal, sam, seconds=10)
    deceived = _agreement(sam, world.group_id)
    assert mal.key in deceived.same
    assert deceived.never == (ben.key,), "and so it does not say that all agree"
    meet(ben, sam)
    after = _agreement(sam, world.group_id)
    assert after.same == (ben.key,)
    assert set(after.others) == {ann.key}, "who was last seen before the removal"
    assert after.others[ann.key] == sam.store.groups.changed_at(world.group_id)
    ann.now = sam.now
    sam.blob(world.group_id, b"hello")
    meet(ann, ben, sam, seconds=400)
    assert _agreement(sam, world.group_id).whole


def test_of_two_groups_the_report_says_which_one_differs(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    one, other = found(ann, ben), found(ann, ben)
    with ann.store.transaction():
        member = ann.node.groups.group(one).member(ann.key)
        assert member is not None
        changed = replace(member, label="anew")
        ann.node.actions.change(one, lambda draft, _: draft.changing(changed), ann.now)
    report(ben, ann, *ben.node.heads.report(ann.key).heads)
    assert _agreement(ann, other).whole
    assert set(_agreement(ann, one).others) == {ben.key}


def test_a_member_that_takes_nothing_is_still_asked(make: Make) -> None:
    """What waits for a member may never be taken, as it has removed this device: its answer tells."""
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    meet(ann, ben, seconds=1)
    group = ann.node.groups.joined()[0]
    member = group.member(ann.key)
    assert member is not None
    relabelled = replace(member, label="anew")
    with ann.store.transaction():
        ann.node.actions.change(group.group_id, lambda draft, _: draft.changing(relabelled), ann.now)
    asked = [each for each in meet(ann, seconds=3 * HEADS_ROUND_US // 1_000_000) if each.entry is None]
    assert queued(ann, ben) == [MessageType.GROUP_MANIFEST]
    assert asked


@pytest.mark.parametrize("renamings", [1, 2], ids=["of the same version", "of a later one"])
def test_a_member_with_other_heads_is_asked_even_with_messages_waiting(make: Make, renamings: int) -> None:
    """They may be why it takes nothing: who both together remove holds neither without the other (seed 730002867)."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    rename(ann, group_id, "anew")
    for number in range(renamings):
        rename(ben, group_id, f"anew {number}")
    assert queued(ann, ben) == [MessageType.GROUP_MANIFEST]
    for _ in range(2):
        report(ben, ann, *ben.node.heads.report(ann.key).heads)
        assert queued(ann, ben) == [MessageType.GROUP_MANIFEST, MessageType.GROUP_PULL], "and once"
        ann.wait(_HOUR_S)


@pytest.mark.slow
def test_a_member_that_says_one_thing_after_another_is_asked_and_told_at_a_pace(make: Make) -> None:
    ann, mal = make("ann"), make("mal")
    group_id = found(ann, mal)
    for device in (ann, mal):
        device.compares_on_contact_only()
    reports = 0
    for number in range(2 * _HOUR_S // 10):
        ann.wait(10)
        ann.maintain()
        for version in (1, 2**63 - 1):
            report(mal, ann, GroupHead(group_id, version, number.to_bytes(16)), asks=True)
        acknowledge(mal, ann, GroupId(number.to_bytes(32, "little")[:31] + b"\1"))
        sends = [each for each in ann.sends() if each.entry is None]
        reports += len(sends)
        assert queued(ann, mal).count(MessageType.GROUP_PULL) <= 1, "one row, and the next when it has come"
    assert 1 <= reports <= 16, "less and less often"


@pytest.mark.slow
def test_empty_answers_make_requests_rarer(make: Make) -> None:
    ann, mal = make("ann"), make("mal")
    group_id = found(ann, mal)
    ann.compares_on_contact_only()
    asked = []
    for _ in range(4 * _HOUR_S // 30):
        ann.wait(30)
        report(mal, ann, GroupHead(group_id, 2**62, b"made up".ljust(16, b"\0")))
        asked += [pull_from_wire(read_message(raw).body) for _, raw in ann.store.outbox.control_messages(mal.key)]
        with ann.store.transaction():
            ann.node._queue.forget(mal.key)  # as acknowledged
    assert 5 <= len(asked) <= 16
    assert 1 in asked[-2:], "further and further back, in turn with what follows"


@pytest.mark.slow
def test_a_thousand_different_heads_are_reported_one_after_the_other(make: Make) -> None:
    ann, *others = [make(f"{number}") for number in range(61)]
    group_id = GroupId(settled(ann, *others))
    ann.compares_on_contact_only()
    for other in others:
        acknowledge(other, ann, GroupId(b"\1" * 32))
    ann.wait(4)
    assert len(ann.sends()) == HEADS_SAVED
    deadline = ann.node.next_deadline()
    assert deadline is not None
    assert deadline > ann.now.monotonic_us, "it waits, and does not spin"
    ann.wait(1)
    assert len(ann.sends()) == HEADS_PER_SECOND
    ann.wait(4)
    assert len(ann.sends()) == 61 - 1 - HEADS_SAVED - HEADS_PER_SECOND
    assert ann.store.outbox.totals()[0] == 0
    for other in others:
        report(other, ann, GroupHead(group_id, 10_000, b"\1" * 16))
    assert 1 <= ann.store.outbox.totals()[0] <= 4, "a few are asked, whoever offers"


@pytest.mark.slow
def test_a_member_that_was_away_catches_up_however_much_changed(make: Make) -> None:
    """What it lacks is several times as much as one answer carries."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = GroupId(settled(ann, ben, cid))
    with ann.store.transaction():
        ann.node.actions.change(group_id, _with_many_more, ann.now)
    carry(ann, cid)
    for number in range(28):
        rename(ann, group_id, f"ann {number}")
        carry(ann, cid)
    lacking = cid.store.groups.manifests_from(group_id, ben.node.groups.group(group_id).version + 1)
    assert sum(map(len, lacking)) > 2 * BUNDLE_BYTES
    with cid.store.transaction():
        cid.node.send_blob(group_id, b"you are back", cid.now, to=ben.key)
    meet(ben, cid, seconds=30)
    assert ben.node.groups.group(group_id).hash == ann.node.groups.group(group_id).hash


def _with_many_more(draft: GroupManifest, _epoch: bytes) -> GroupManifest:
    for number in range(130):
        draft = draft.adding(Member(identity(f"member {number}").keys, "m" * MAXIMUM_LABEL_BYTES))
    return draft


def test_an_honest_pair_exchanges_at_most_two_reports_and_a_request(make: Make) -> None:
    world = Stolen(make)
    world.sam.blob(world.group_id, b"hello")
    went = meet(world.ben, world.sam)
    unsequenced = [each for each in went if each.entry is None and each.recipient in {world.ben.key, world.sam.key}]
    messages = [each for each in went if each.entry is not None and each.recipient in {world.ben.key, world.sam.key}]
    assert len(messages) == 6, "the blob, a request, the manifests; two requests for histories, the operations of one"
    assert len(unsequenced) <= 6 + 2, "an acknowledgement of each, and two reports"


def test_a_member_learns_nothing_of_groups_that_it_is_not_in(make: Make) -> None:
    ann, ben, cay = make("ann"), make("ben"), make("cay")
    shared, secret = found(ann, ben), found(ann, cay)
    heads = ann.node.heads
    report = heads.report(ben.key)
    assert [head.group_id for head in report.heads] == [shared]
    before = heads.said_to(ben.key), heads.said_to(cay.key)
    with ann.store.transaction():
        ann.node.joining.invite(secret, (), "", ann.now.wall_us)
    admit(ann, make("dan"), secret, cay)
    assert heads.said_to(ben.key) == before[0]
    assert heads.said_to(cay.key) != before[1]
    assert heads.said_to(make("zoe").key) == NO_GROUP


def test_a_version_without_heads_is_left_in_peace(make: Make) -> None:
    ann, old = make("ann"), make("old")
    found(ann, old)
    ann.compares_on_contact_only()
    for _ in range(10):
        acknowledge(old, ann, NO_GROUP)
        ann.wait(10)
        assert ann.sends() == []
    assert ann.store.heads.seen_at().get(old.key, 0) <= ann.now.wall_us - 100_000_000


def test_a_device_that_keeps_no_histories_is_left_in_peace(make: Make) -> None:
    ann, new = make("ann"), make("new")
    found(ann, new)
    heads = ann.node.heads
    own = heads.said_to(new.key)
    without = GroupId(own[:10] + bytes(22))
    ann.compares_on_contact_only()
    acknowledge(new, ann, without)
    ann.wait(10)
    assert ann.sends() == [], "in step, as far as both say anything"


@pytest.mark.slow
def test_messages_that_a_restored_member_never_takes_do_not_stop_another_groups_history(make: Make) -> None:
    """Ann's copy of her state is older than the second group, so she takes nothing that ben sends in it."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    copy = ann.copy_state()
    lost = found(ann, ben)
    ann.return_to(copy)
    rename(ben, lost, "ben anew")
    write_note(ann, group_id, "written before they met")
    with ann.store.transaction():
        ann.store.outbox.forget(ben.key)
    ann.restart()
    meet(ann, ben, seconds=2 * _HOUR_S)
    assert MessageType.GROUP_MANIFEST in queued(ben, ann)
    assert read_notes(ben, group_id) == ["written before they met"]


@pytest.mark.slow
def test_history_that_a_restored_member_never_takes_does_not_stop_another_groups(make: Make) -> None:
    """Ben's window of history holds only operations of groups that ann has lost."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    copy = ann.copy_state()
    lost = [found(ann, ben) for _ in range(LINK_WINDOW_HISTORY_MESSAGES + 1)]
    ann.return_to(copy)
    for each in lost:
        write_note(ben, each, "never taken")
    meet(ann, ben, seconds=60)
    write_note(ben, group_id, "to be taken")
    meet(ann, ben, seconds=2 * _HOUR_S)
    assert read_notes(ann, group_id) == ["to be taken"]


def test_members_that_stay_as_they_are_compare_their_groups_once_an_hour(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    pace = ann.node.state.heads

    def rounds(hours: int) -> int:
        """Let time pass in long steps; return how many reports ask for an answer."""
        asked, planned = 0, pace.round_at_us
        for _ in range(hours * 60):
            ann.wait(60)
            ann.maintain()
            list(ann.sends())
            asked += planned is not None and pace.round_at_us != planned
            planned = pace.round_at_us
        return asked

    assert 4 <= rounds(1) <= 14  # after a start they compare often
    assert 3 <= rounds(4) <= 10
    rename(ann, group_id, "anew")
    assert 4 <= rounds(1) <= 14
