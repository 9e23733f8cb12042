"""What nobody waits for any more is given up: departures, join requests, links of too many incarnations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import Note
from covey.core.ids import GroupId, Incarnation, LinkSeq, Place
from covey.core.link import receiver
from covey.core.membership.actions import GroupActions
from covey.core.membership.events import JoinExpired, RemovedFromGroup
from covey.core.now import Now
from covey.core.pairing.invite import Invite
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, read_message, write_message
from covey.limits.group import DEPARTURE_US
from covey.limits.link import RETRY_US_MAX
from covey.limits.pairing import INVITE_US, JOIN_GRACE_US, JOIN_MEMORY_US, JOIN_RETRY_US, PREPARED_INVITE_US
from tests.fleet import Device, Make, carry, found


def _later(device: Device, microseconds: int) -> None:
    """Let time pass and groups be tended."""
    device.wait(microseconds / 1e6)
    if device.node.has_work(device.now):
        with device.store.transaction():
            device.node.maintain(device.now)


def _remove(remover: Device, target: Device, group_id: GroupId) -> None:
    with remover.store.transaction():
        remover.node.actions.change(group_id, lambda draft, epoch: draft.removing(target.key, epoch), remover.now)


def _invite(inviter: Device, group_id: GroupId) -> Invite:
    with inviter.store.transaction():
        return inviter.node.joining.invite(group_id, (), "mqtt://fleet", inviter.now.wall_us)


def _ask(joiner: Device, invite: Invite) -> None:
    with joiner.store.transaction():
        joiner.node.actions.request_join(invite, joiner.name, joiner.now)


def test_a_removed_device_that_knows_is_forgotten(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _remove(ann, ben, group_id)
    assert ann.node.groups.address(ben.key) is not None
    carry(ann, ben)
    _later(ann, 600_000_000)
    assert ann.node.groups.address(ben.key) is None
    assert ann.store.departures.addresses() == []


def test_a_removed_device_no_longer_notifies_the_devices_it_removed(make: Make) -> None:
    """What it did counts no more: that device is a member, and hears nothing of who is none."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id, other = found(ann, ben, mal), found(ann, ben)
    _remove(ann, ben, group_id)
    _remove(ben, mal, group_id)
    assert ben.node.groups.address(mal.key) is not None
    carry(ann, ben)
    carry(ann, mal)
    assert [each.group_id for each in ben.node.groups.joined()] == [other]
    assert ann.node.groups.group(group_id).member(mal.key) is not None
    _later(ben, 600_000_000)
    assert mal.key not in ben.store.outbox.recipients()


@pytest.mark.slow
def test_devices_removed_together_owe_each_other_nothing(make: Make) -> None:
    """Neither hears the other any more; here ben learns of both removals at once, with something for mal waiting."""
    ann, ben, cid, mal = make("ann"), make("ben"), make("cid"), make("mal")
    group_id = found(ann, ben, cid, mal)
    carry(ann, ben, cid, mal)
    ben.blob(group_id, b"never comes")
    _relabel(ben, group_id)
    ben.sends()  # and all of it is lost
    for removed in (mal, ben):
        _remove(ann, removed, group_id)
        carry(ann, cid, mal)
    for _ in range(30):
        _later(ben, 60_000_000)
        _later(cid, 60_000_000)
        carry(cid, ben)
    assert ben.node.groups.joined() == []
    _later(ben, 600_000_000)
    assert list(ben.store.outbox.recipients()) == []
    assert ben.store.departures.addresses() == []


@pytest.mark.slow
def test_a_removed_device_leaves_notices_of_its_own_removals_to_members(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    ben.blob(group_id, b"never comes")
    ben.sends()
    _remove(ben, mal, group_id)
    carry(ann, ben)
    _remove(ann, ben, group_id)
    carry(ann, ben)
    _later(ben, 600_000_000)
    assert list(ben.store.outbox.recipients()) == []
    for _ in range(30):
        _later(mal, 60_000_000)
        _later(ann, 60_000_000)
        carry(ann, mal)
    assert mal.node.groups.joined() == []


def _relabel(device: Device, group_id: GroupId) -> None:
    def edit(draft: GroupManifest) -> GroupManifest:
        own = draft.member(device.key)
        assert own is not None
        return draft.changing(replace(own, label="another"))

    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, _: edit(draft), device.now)


def test_a_device_readmitted_by_a_void_manifest_learns_it_from_its_issuer(make: Make) -> None:
    """Others never heard of it: ann has banned mal, and removed ben, who did not know and has let mal in again."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id, _ = found(ann, ben, mal), found(ann, ben)
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.banning(mal.key, epoch), ann.now)
    carry(ann, ben, mal)
    _remove(ann, ben, group_id)
    with ben.store.transaction():
        ben.node.actions.unban(group_id, mal.key, ben.now)
    carry(ben, mal)
    assert mal.node.groups.joined()
    carry(ann, ben)
    ben.wait(60)
    carry(ben, mal)
    assert mal.node.groups.joined() == []


def test_messages_for_a_device_without_address_are_dropped(make: Make) -> None:
    """Nothing can be sealed for it, and nobody would take it."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        ann.node.actions.destroy(group_id, ann.now)
    assert ann.store.outbox.totals()[0] == 1
    with ann.store.transaction():
        ann.node.membership.groups.drop(group_id)
        ann.store.groups.forget(group_id)
        ann.node.membership.groups.readdress()
    assert ann.node.groups.address(ben.key) is None
    _later(ann, 600_000_000)
    assert ann.store.outbox.totals()[0] == 0


def _leave(device: Device, group_id: GroupId) -> None:
    with device.store.transaction():
        device.node.actions.leave(group_id, device.now)


def _keeps(device: Device, group_id: GroupId) -> tuple[bool, bool]:
    """Say whether a device has anything that a group said, and anything of who was in it."""
    said, groups = device.store.operations.in_order(group_id), device.store.groups
    return bool(said), bool(groups.manifests_from(group_id, 1))


def test_a_group_that_was_left_is_erased_when_somebody_knows(make: Make) -> None:  # accepts: 003.51, 003.53
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    secret = ann.node.groups.secret(group_id)
    assert secret is not None
    with ben.store.transaction():
        ben.node.history.write(group_id, Note("text/plain", b"the key is under the pot"), ben.now)
    carry(ben, ann)
    _leave(ann, group_id)
    _later(ann, 600_000_000)
    assert _keeps(ann, group_id) == (True, True), "nobody has heard that it left"
    carry(ann, ben)
    _later(ann, 600_000_000)
    assert _keeps(ann, group_id) == (False, True), "one member knows, the other has a notice coming"
    carry(ann, cid)
    _later(ann, 600_000_000)
    assert _keeps(ann, group_id) == (False, False)
    assert {len(each.node.groups.group(group_id).members) for each in (ben, cid)} == {2}
    ann.store.close()
    files = b"".join(each.read_bytes() for each in ann.path.parent.glob(f"{ann.path.name}*"))
    assert b"under the pot" not in files
    assert secret not in files


def test_a_left_group_is_erased_as_soon_as_a_member_knows(make: Make) -> None:
    """Not at the next of the rounds that come every ten minutes, in which the manifests go."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    with ben.store.transaction():
        ben.node.history.write(group_id, Note("text/plain", b"the key is under the pot"), ben.now)
    carry(ben, ann)
    _later(ann, 1_000_000)
    epoch_id = ann.node.groups.group(group_id).epoch_id
    _leave(ann, group_id)
    _later(ann, 1_000_000)
    assert _keeps(ann, group_id) == (True, True), "nobody has heard that it left"
    carry(ann, ben)
    _later(ann, 1_000_000)
    assert _keeps(ann, group_id) == (False, True), "who has heard of it may ask what that follows"
    assert ann.store.groups.secret(group_id, epoch_id) is None
    _ask(ann, _invite(ben, group_id))
    carry(ann, ben)
    assert ann.node.groups.secret(group_id) is not None
    epoch_id = ann.node.groups.group(group_id).epoch_id
    _leave(ann, group_id)
    carry(ann, ben)
    _later(ann, 1_000_000)
    assert ann.store.groups.secret(group_id, epoch_id) is None, "once more"


def test_a_device_comes_back_to_a_group_that_it_has_erased(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _leave(ann, group_id)
    carry(ann, ben)
    _later(ann, 600_000_000)
    assert _keeps(ann, group_id) == (False, False)
    _ask(ann, _invite(ben, group_id))
    carry(ann, ben)
    assert ann.node.groups.group(group_id).member(ann.key)
    assert ann.node.groups.group(group_id).hash == ben.node.groups.group(group_id).hash


def test_a_group_that_removed_this_device_is_kept(make: Make) -> None:
    """It may be a mistake, and what was said there is this device's to read."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _remove(ann, ben, group_id)
    carry(ann, ben)
    _later(ben, 600_000_000)
    assert _keeps(ben, group_id)[1]


def test_a_removed_device_that_never_returns_is_given_up_after_a_stated_time(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"not any more")
    _remove(ann, ben, group_id)
    ann.sends()
    assert ann.store.outbox.totals()[0] == 2, "the news, and what else will not come"
    _later(ann, DEPARTURE_US - 1_000_000)
    assert ann.store.outbox.totals()[0] == 2
    _later(ann, 600_000_000)
    assert ann.store.outbox.totals() == (0, 0)
    assert ann.store.counters.values()["dropped_departures"] == 2
    assert ann.sends() == []
    _later(ann, 600_000_000)
    assert ann.node.next_deadline() is None, "nothing is retried any more"


def test_a_clock_that_is_set_years_ahead_gives_up_nobody(make: Make) -> None:
    """A Pi without a clock has the time of its last shutdown until it finds the network."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _remove(ann, ben, group_id)
    ann.sends()
    _later(ann, 600_000_000)
    ann.now = Now(ann.now.monotonic_us, ann.now.wall_us + 2 * DEPARTURE_US)
    _later(ann, 600_000_000)
    assert ann.store.outbox.totals()[0] == 1
    carry(ann, ben)
    assert ben.node.groups.joined() == []


def test_time_goes_on_over_restarts(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _remove(ann, ben, group_id)
    for _ in range(3):
        _later(ann, DEPARTURE_US // 3)
        ann.now = Now(ann.now.monotonic_us, 1)  # and its clock begins anew
        ann.restart()
    _later(ann, 600_000_000)
    _later(ann, 600_000_000)
    assert ann.store.outbox.totals() == (0, 0)


def test_messages_of_another_group_outlive_a_departure(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id, other_id = found(ann, ben), found(ann, ben)
    _remove(ann, ben, group_id)
    ann.blob(other_id, b"of the other group")
    ann.sends()  # and ben is away
    _later(ann, DEPARTURE_US + 600_000_000)
    _later(ann, 600_000_000)
    ben.wait(DEPARTURE_US / 1e6)
    carry(ann, ben)
    assert ben.inbox() == [b"of the other group"]
    assert [group.group_id for group in ben.node.groups.joined()] == [other_id]
    assert "dropped_departures" not in ann.store.counters.values()
    _later(ann, 600_000_000)
    assert ann.store.outbox.totals()[0] == 0
    assert ann.store.departures.addresses() == []


def test_messages_for_members_do_not_wait_for_a_removed_device(make: Make) -> None:
    """Here the removed device knows of it by ben, and answers ann no more."""
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    with ann.store.transaction():
        for kind in (MessageType.HISTORY_PULL, MessageType.GROUP_VOTE):
            ann.node._queue.queue(cem.key, kind, group_id, b"\x00", ann.now)
    ann.sends()  # and they are lost on the way
    _remove(ben, cem, group_id)
    carry(ben, cem, ann)
    _later(ann, 600_000_000)
    assert ann.store.outbox.totals()[0] == 0
    assert ann.store.departures.addresses() == []


def test_a_removed_device_gives_up_what_nobody_would_take(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ben.blob(group_id, b"never sent")
    _remove(ann, ben, group_id)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    assert ben.node.groups.joined() == []
    _later(ben, 600_000_000)
    assert ben.store.outbox.totals() == (0, 0)
    assert ben.store.counters.values()["dropped_after_removal"] == 1


@pytest.mark.parametrize("removed", [True, False])
def test_telemetry_of_who_is_out_of_a_group_is_withdrawn_where_another_one_is_shared(
    tmp_path: Path, make: Make, removed: bool
) -> None:
    ann, ben, collector = make("ann"), make("ben"), Device("collector", tmp_path, collects=True)
    group_id, other_id = found(ann, ben, collector), found(ann, ben, collector)
    carry(ann, ben, collector)
    ben.batch(group_id, b"nobody would take it")
    ben.batch(other_id, b"of another group")
    if removed:
        _remove(ann, ben, group_id)
        for outgoing in ann.sends():
            if outgoing.recipient == ben.key:
                ben.receive(outgoing.envelope)
    else:
        with ben.store.transaction():
            ben.node.actions.leave(group_id, ben.now)
    carry(ann, ben, collector)
    _later(ben, 600_000_000)
    carry(ann, ben, collector)
    waiting = [raw for _, raw in ben.store.outbox.queued(collector.key, Place(0), 10, 100_000)]
    groups = {read_message(raw, verify=False).group_id for raw in waiting}
    assert group_id not in groups
    assert other_id in groups, "which lands later"
    assert collector.store.counters.values()["lost_messages"] == 1


def test_a_leaving_device_tells_until_all_know(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ben.store.transaction():
        ben.node.actions.leave(group_id, ben.now)
    ben.sends()  # and ann is away
    _later(ben, 86_400_000_000)
    assert ben.store.outbox.totals()[0] == 1
    carry(ann, ben)
    assert [each.keys.signing_public for each in ann.node.groups.group(group_id).members] == [ann.key]
    assert ben.store.outbox.totals()[0] == 0
    _later(ben, 600_000_000)
    assert ben.store.departures.addresses() == []


def test_a_device_that_returns_late_is_received(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _remove(ann, ben, group_id)
    _later(ann, DEPARTURE_US + 1_000_000)
    invite = _invite(ann, group_id)
    ben.wait(DEPARTURE_US / 1e6)
    ben.node.membership.leave(group_id, ben.now.wall_us)  # it never heard of its removal
    ben.node.refresh()
    _ask(ben, invite)
    carry(ann, ben)
    ann.blob(group_id, b"welcome back")
    carry(ann, ben)
    assert ben.inbox() == [b"welcome back"]
    assert ann.store.outbox.totals()[0] == 0


def _sendings(device: Device, until_us: int) -> list[int]:
    """Return when a device sent anything, in microseconds from now, while nothing comes back."""
    began_us, times = device.now.monotonic_us, list[int]()
    while device.now.monotonic_us - began_us < until_us:
        times += [device.now.monotonic_us - began_us] * len(device.sends())
        device.wait(1)
    return times


def test_a_join_request_goes_again_and_again_while_its_invite_lives(make: Make) -> None:  # accepts: 003.16
    """Its inviter may have been out of reach until shortly before the end."""
    ann, ben = make("ann"), make("ben")
    _ask(ben, _invite(ann, found(ann)))
    times = _sendings(ben, INVITE_US)
    assert max(later - earlier for earlier, later in pairwise(times)) <= JOIN_RETRY_US + 1_000_000
    assert INVITE_US - times[-1] <= JOIN_RETRY_US + 1_000_000


def test_a_request_that_may_wait_is_repeated_as_rarely_as_other_messages(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann)
    with ann.store.transaction():
        invite = ann.node.joining.invite(group_id, (), "mqtt://fleet", ann.now.wall_us, PREPARED_INVITE_US)
    _ask(ben, invite)
    times = _sendings(ben, 3_600_000_000)
    assert len(times) <= 3_600_000_000 / RETRY_US_MAX + 10


def test_a_join_request_ends_with_its_invite(make: Make) -> None:  # accepts: 003.16
    ann, ben = make("ann"), make("ben")
    group_id = found(ann)
    _ask(ben, _invite(ann, group_id))
    ben.sends()
    _later(ben, INVITE_US + JOIN_GRACE_US)
    assert ben.store.outbox.totals()[0] == 1
    _later(ben, 600_000_000)
    assert ben.store.outbox.totals() == (0, 0)
    assert ben.events() == [JoinExpired(group_id, ann.key)]
    assert ben.store.counters.values()["expired_joins"] == 1
    assert ben.store.joins.pending(), "a late answer is still taken"
    _later(ben, JOIN_MEMORY_US)
    assert ben.store.joins.pending() == []
    assert ben.node.groups.address(ann.key) is None
    assert ben.node.next_deadline() is None


def test_an_answer_that_comes_after_the_request_was_withdrawn_is_taken(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann)
    _ask(ben, _invite(ann, group_id))
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)  # and the acknowledgement is lost
    _later(ben, INVITE_US + JOIN_GRACE_US + 600_000_000)
    carry(ann, ben)
    assert ben.node.groups.group(group_id).member(ben.key)


def test_a_withdrawn_request_to_somebody_we_know_is_admitted_as_a_loss(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    shared = found(ann, ben)
    with ann.store.transaction():
        other = ann.node.membership.create("ann", (), ann.now.wall_us).group_id
    _ask(ben, _invite(ann, other))
    _later(ben, INVITE_US + JOIN_GRACE_US + 600_000_000)
    ben.blob(shared, b"what follows is not held up")
    carry(ann, ben)
    assert ann.inbox() == [b"what follows is not held up"]
    assert ann.store.counters.values()["lost_messages"] == 1
    assert ben.store.outbox.totals()[0] == 0


def test_an_invite_brings_nobody_back_who_was_removed(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann)
    invite = _invite(ann, group_id)
    _ask(ben, invite)
    carry(ann, ben)
    _remove(ann, ben, group_id)
    carry(ann, ben)
    ann.events()
    _ask(ben, invite)  # the same one again
    carry(ann, ben)
    assert ann.node.groups.group(group_id).member(ben.key) is None
    assert [event.code for event in ann.events() if isinstance(event, EnvelopeDropped)] == ["invite"]


def test_a_device_admitted_by_a_void_branch_learns_that_it_is_no_member(make: Make) -> None:
    ann, ben, mal, dan = (make(name) for name in ("ann", "ben", "mal", "dan"))
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    invite = _invite(mal, group_id)  # mal does not know yet, or does not care
    _ask(dan, invite)
    carry(mal, dan)
    assert dan.node.groups.group(group_id).member(dan.key)
    everybody = (ann, ben, mal, dan)
    for _ in range(5):  # what was lost goes again
        carry(*everybody)
        for device in everybody:
            device.wait(300)
    for device in (ann, ben):
        assert [each.keys.signing_public for each in device.node.groups.group(group_id).members] == sorted(
            [ann.key, ben.key]
        )
        assert device.store.outbox.totals()[0] == 0, device.name
    for device in (mal, dan):
        assert any(isinstance(event, RemovedFromGroup) for event in device.events()), device.name
        assert device.node.groups.joined() == []


def test_an_author_has_a_bounded_number_of_incarnations(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    monkeypatch.setattr(receiver, "INCARNATIONS", 3)
    for number in range(5):
        raw = write_message(
            ann.identity,
            MessageType.BLOB,
            ben.key,
            group_id,
            Incarnation(bytes([number]) * 8),
            1,
            LinkSeq(1),
            1,
            b"%d" % number,
        )
        assert read_message(raw)
        ben.receive(seal(raw, ben.identity.noise_public, ann.rng(32), ann.rng(24)))
    assert ben.inbox() == [b"0", b"1"], "the third is ann's own"
    assert ben.store.counters.values()["dropped_limit"] == 3
    ann.blob(group_id, b"the links that are known go on")
    carry(ann, ben)
    assert ben.inbox()[-1] == b"the links that are known go on"


@pytest.mark.parametrize("ends", [(GroupActions.leave,), (GroupActions.destroy, GroupActions.forget_destroyed)])
def test_no_secret_of_a_group_waits_after_its_last_member_ended_it(
    make: Make, ends: tuple[Callable[[GroupActions, GroupId, Now], None], ...]
) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    other = found(ann, ben)
    carry(ann, ben, mal)
    _remove(ann, mal, group_id)
    ann.sends()  # the new epoch's secret, and ben is away
    secret = ann.store.groups.secret(group_id, ann.node.groups.group(group_id).epoch_id)
    assert secret is not None
    with ben.store.transaction():
        ben.node.actions.leave(group_id, ben.now)
    for outgoing in ben.sends():
        if outgoing.recipient == ann.key:
            ann.receive(outgoing.envelope)
    waiting = ann.store.outbox.control_messages(ben.key)
    assert any(secret in raw for _, raw in waiting)
    with ann.store.transaction():
        for end in ends:
            end(ann.node.actions, group_id, ann.now)
    assert [each.group_id for each in ann.node.groups.joined()] == [other]
    assert not any(secret in raw for _, raw in ann.store.outbox.control_messages(ben.key))
