"""Votes as messages: what another admin's counts for, and what everybody else's gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import GroupManifest, Member, Mode, Role
from covey.core.group.policy import Action, sign_vote
from covey.core.ids import DeviceKey, EpochId, GroupId
from covey.core.membership.events import GroupChanged, VoteCast
from covey.core.membership.voting import OpenVote, open_votes
from covey.core.wire.message import MessageType
from covey.errors import LocalError
from tests.fleet import Device, admit, carry, found, identity

Group = tuple[bytes, Device, Device, Device, Device]


@pytest.fixture
def group(tmp_path: Path) -> Group:
    """Ann, ben and cem are admins; dan is none."""
    ann, ben, cem, dan = everybody = [Device(name, tmp_path) for name in ("ann", "ben", "cem", "dan")]
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us, Mode.ADMIN_INVITES).group_id
    for each in (ben, cem, dan):
        admit(ann, each, group_id, *everybody)
    for each in (ben, cem):
        _change(ann, group_id, lambda draft, key=each.key: _promoted(draft, key))
        carry(*everybody)
    return group_id, ann, ben, cem, dan


def _promoted(draft: GroupManifest, key: DeviceKey) -> GroupManifest:
    member = draft.member(key)
    assert member is not None
    return draft.changing(replace(member, role=Role.ADMIN))


def _change(device: Device, group_id: GroupId, edit: Callable[[GroupManifest], GroupManifest]) -> None:
    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, _: edit(draft), device.now)


def _cast(voter: Device, recipient: Device, group_id: GroupId, target: Device, since: int) -> list[object]:
    """Send a vote as no honest device would; return what its recipient makes of it."""
    recipient.events()
    raw = sign_vote(group_id, Action.BAN, target.key, since, voter.identity).raw
    with voter.store.transaction():
        voter.node._queue.queue(recipient.key, MessageType.GROUP_VOTE, group_id, raw, voter.now)
    carry(voter, recipient)
    return [event.code if isinstance(event, EnvelopeDropped) else event for event in recipient.events()]


def _votes(device: Device, after: int) -> list[tuple[str, int, int]]:
    """Return (voter, votes, needed) of the votes that programs are told of."""
    kept = device.store.events.between(after, device.store.events.last_number(), 100)
    return [(each.about["voter"], each.about["votes"], each.about["needed"]) for each in kept if each.kind == "vote"]


def test_a_vote_that_comes_again_is_one_event(group: Group) -> None:
    group_id, ann, ben, _, dan = group
    for _ in range(3):
        _cast(ben, ann, GroupId(group_id), dan, 4)
    assert len(_votes(ann, 0)) == 1


@pytest.mark.slow
def test_open_votes_are_listed_until_they_decide(group: Group) -> None:
    group_id, ann, ben, _, dan = group
    manifest = ann.node.groups.group(GroupId(group_id))
    assert open_votes(ann.node.groups, ann.store.votes, manifest) == []
    _cast(ben, ann, GroupId(group_id), dan, 4)
    assert open_votes(ann.node.groups, ann.store.votes, manifest) == [OpenVote(Action.BAN, dan.key, (ben.key,), 2)]
    with ann.store.transaction():
        ann.node.actions.vote(GroupId(group_id), Action.BAN, dan.key, ann.now)
    after = ann.node.groups.group(GroupId(group_id))
    assert after.member(dan.key) is None
    assert open_votes(ann.node.groups, ann.store.votes, after) == []


def test_a_removal_that_the_group_refuses_leaves_nothing_behind(group: Group) -> None:
    group_id, ann, ben, cem, dan = group
    with pytest.raises(LocalError, match="is not allowed to do that"):
        _change(dan, GroupId(group_id), lambda draft: draft.removing(cem.key, EpochId(bytes(32))))
    dan.events()
    _change(ann, GroupId(group_id), lambda draft: draft.changing(replace(draft.members[0], label="pump")))
    carry(ann, ben, cem, dan)
    assert [event for event in dan.events() if not isinstance(event, GroupChanged)] == []
    assert dan.node.groups.group(GroupId(group_id)).hash == ann.node.groups.group(GroupId(group_id)).hash


@pytest.mark.slow
def test_votes_to_keep_somebody_out_decide_where_a_branch_that_lost_is_of_a_later_epoch(group: Group) -> None:
    group_id, ann, ben, cem, dan = GroupId(group[0]), *group[1:]
    stranger = DeviceKey(b"stranger" * 4)

    def bans(voter: Device, by: Device, target: Device) -> None:
        member = ann.node.groups.group(group_id).member(target.key)
        assert member is not None
        raw = sign_vote(group_id, Action.BAN, target.key, member.since, voter.identity).raw
        with by.store.transaction():
            by.store.votes.save(group_id, voter.key, raw, {ann.key, ben.key, cem.key})
            assert by.node.actions.vote(group_id, Action.BAN, target.key, by.now).decided

    bans(cem, ben, ann)
    bans(cem, ann, dan)
    bans(ben, ann, cem)
    carry(ann, ben, cem, dan)
    assert not ben.node.groups.trust(group_id).conflict
    assert len(ben.node.groups.trust(group_id).heads()) == 2
    for voter in (ben, cem):
        with voter.store.transaction():
            voting = voter.node.actions.vote(group_id, Action.KEEP_OUT, stranger, voter.now)
        carry(ben, cem)
    assert voting.decided
    assert ben.node.groups.group(group_id).ban(stranger) is not None


@pytest.mark.slow
def test_a_vote_counts_only_as_the_rules_say(group: Group) -> None:  # accepts: 003.34, 003.36
    group_id, ann, ben, cem, dan = group
    assert _cast(dan, ann, GroupId(group_id), ben, 2) == [], "by no admin yet, as far as ann knows: it waits"
    assert len(ann.store.ahead.of_group(GroupId(group_id))) == 1
    assert _cast(ben, ann, GroupId(group_id), ben, 2) == ["vote"], "vote on itself"
    assert _cast(ben, ann, GroupId(group_id), dan, 3) == ["vote"], "about a member of another time"
    assert ann.store.votes.of_group(GroupId(group_id)) == []
    assert ann.store.counters.values()["quarantined_vote"] == 2
    assert _cast(ben, ann, GroupId(group_id), dan, 4) == [
        VoteCast(GroupId(group_id), Action.BAN, dan.key, ben.key, 1, 2)
    ]
    assert _cast(cem, ann, GroupId(group_id), cem, 3) == ["vote"]
    assert len(ann.store.votes.of_group(GroupId(group_id))) == 1


@pytest.mark.slow
def test_the_target_is_not_told_and_two_of_three_decide(group: Group) -> None:  # accepts: 003.34, 003.35, 003.37
    group_id, ann, ben, cem, dan = group
    with ben.store.transaction():
        voting = ben.node.actions.vote(GroupId(group_id), Action.BAN, dan.key, ben.now)
    assert (voting.votes, voting.needed, voting.decided) == (1, 2, False)
    assert {outgoing.recipient for outgoing in ben.sends()} == {ann.key, cem.key}
    places = {device.name: device.store.events.last_number() for device in (ann, dan)}
    ben.wait(300)
    carry(ann, ben, cem, dan)
    assert not [event for event in dan.events() if isinstance(event, VoteCast)]
    with ann.store.transaction():
        assert ann.node.actions.vote(GroupId(group_id), Action.BAN, dan.key, ann.now).decided
    carry(ann, ben, cem, dan)
    for device in (ann, ben, cem):
        assert device.node.groups.group(GroupId(group_id)).ban(dan.key)
    assert _votes(ann, places["ann"]) == [(ben.key.hex(), 1, 2), (ann.key.hex(), 2, 2)]
    assert _votes(dan, places["dan"]) == []
    assert dan.node.groups.joined() == []


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True])
def test_votes_that_cross_decide(group: Group, ends: bool) -> None:  # accepts: 003.34, 003.45
    group_id, *everybody = group
    ann, ben, cem, dan = everybody
    actions = (Action.BAN, Action.UNBAN) if ends else (Action.BAN,)
    for action in actions:
        for voter in (ann, ben):
            with voter.store.transaction():
                assert not voter.node.actions.vote(GroupId(group_id), action, dan.key, voter.now).decided
        for _ in range(6):
            carry(*everybody)
            for device in everybody:
                device.wait(30)
                device.maintain()
    views = {device.node.groups.group(GroupId(group_id)).raw for device in (ann, ben, cem)}
    assert len(views) == 1
    assert b"" not in views, "they have agreed"
    assert (ann.node.groups.group(GroupId(group_id)).member(dan.key) is not None) == ends
    assert bool(dan.node.groups.joined()) == ends
    assert [device.store.votes.of_group(GroupId(group_id)) for device in (ann, ben)] == [[], []]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("voter", "target", "reason"),
    [("dan", "ann", "only an admin"), ("ann", "ann", "vote on itself"), ("ann", "nobody", "no such member")],
)
def test_forbidden_votes_are_refused(group: Group, voter: str, target: str, reason: str) -> None:
    group_id, *everybody = group
    devices = {device.name: device for device in everybody}
    key = DeviceKey(devices[target].key if target in devices else bytes(32))
    with pytest.raises(LocalError, match=reason):
        devices[voter].node.actions.vote(GroupId(group_id), Action.BAN, key, devices[voter].now)


@pytest.mark.slow
def test_the_end_of_a_ban_lets_the_device_in_again_as_it_was(group: Group) -> None:  # accepts: 003.45
    name, ann, ben, cem, dan = group
    group_id = GroupId(name)
    before = ann.node.groups.group(group_id).member(cem.key)
    for action in (Action.BAN, Action.UNBAN):
        for voter in (ann, ben):
            with voter.store.transaction():
                voter.node.actions.vote(group_id, action, cem.key, voter.now)
            carry(ann, ben, cem, dan)
        if action is Action.BAN:
            assert cem.node.groups.joined() == []
            _change(ann, group_id, lambda draft: draft)  # something that cem does not hear of
            carry(ann, ben, dan)
    now = dan.node.groups.group(group_id).member(cem.key)
    assert before is not None
    assert now is not None
    assert (now.keys, now.label, now.role) == (before.keys, before.label, Role.ADMIN)
    assert now.since == dan.node.groups.group(group_id).version
    assert cem.node.groups.group(group_id) == dan.node.groups.group(group_id)
    assert cem.node.groups.secret(group_id) == dan.node.groups.secret(group_id) is not None
    dan.blob(group_id, b"welcome back")
    carry(ann, ben, cem, dan)
    assert cem.inbox() == [b"welcome back"]
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_a_ban_can_end_without_letting_the_device_in(group: Group) -> None:
    name, ann, ben, cem, dan = group
    group_id = GroupId(name)
    for action in (Action.BAN, Action.UNBAN):
        for voter in (ann, ben):
            with voter.store.transaction():
                voter.node.actions.vote(group_id, action, cem.key, voter.now, readmit=False)
            carry(ann, ben, cem, dan)
    current = dan.node.groups.group(group_id)
    assert (current.ban(cem.key), current.member(cem.key)) == (None, None)


def _decide(group_id: GroupId, action: Action, target: DeviceKey, voters: tuple[Device, ...], all_of: Group) -> None:
    for voter in voters:
        with voter.store.transaction():
            voter.node.actions.vote(group_id, action, target, voter.now)
        carry(*all_of[1:])


@pytest.mark.slow
def test_admins_keep_a_device_out_that_is_no_member(group: Group, tmp_path: Path) -> None:  # accepts: 003.43
    name, ann, ben, cem, dan = group
    group_id, eve = GroupId(name), Device("eve", tmp_path)
    secret = ann.node.groups.secret(group_id)
    _decide(group_id, Action.KEEP_OUT, eve.key, (ann,), group)
    assert ann.node.groups.group(group_id).ban(eve.key) is None, "one of two"
    _decide(group_id, Action.KEEP_OUT, eve.key, (ben,), group)
    for device in (ann, ben, cem, dan):
        assert device.node.groups.group(group_id).ban(eve.key)
    assert ann.node.groups.secret(group_id) not in {secret, None}, "an epoch ends, and with it what was voted in it"
    with ann.store.transaction():
        invite = ann.node.joining.invite(group_id, (), "mqtt://", ann.now.wall_us)
    with eve.store.transaction():
        eve.node.actions.request_join(invite, "eve", eve.now)
    carry(ann, eve)
    assert eve.node.groups.joined() == []
    assert ann.node.groups.group(group_id).member(eve.key) is None
    assert ann.store.counters.values()["quarantined_invite"] == 1


@pytest.mark.slow
def test_a_vote_to_keep_a_device_out_serves_for_one_ban(group: Group) -> None:
    name, ann, ben, cem, dan = group
    group_id, eve = GroupId(name), DeviceKey(bytes([7]) * 32)
    epoch = ann.node.groups.group(group_id).epoch
    _decide(group_id, Action.KEEP_OUT, eve, (ann, ben), group)
    old = ann.node.groups.group(group_id).votes
    assert len(old) == 2
    _decide(group_id, Action.UNBAN, eve, (ann, ben), group)
    with pytest.raises(LocalError, match="0 of 2 required votes"):
        _change(ben, group_id, lambda draft: draft.banning(eve, EpochId(bytes(32)), old))
    raw = sign_vote(group_id, Action.KEEP_OUT, eve, epoch, ben.identity).raw
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.GROUP_VOTE, group_id, raw, ben.now)
    ann.events()
    carry(ann, ben, cem, dan)
    assert [event.code for event in ann.events() if isinstance(event, EnvelopeDropped)] == ["vote"]
    ahead = sign_vote(group_id, Action.KEEP_OUT, eve, epoch + 2, ben.identity).raw
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.GROUP_VOTE, group_id, ahead, ben.now)
    carry(ann, ben, cem, dan)
    assert len(ann.store.ahead.of_group(group_id)) == 1, "of an epoch that ann does not know yet"


@pytest.mark.slow
def test_an_invite_can_be_voted_away(group: Group, tmp_path: Path) -> None:  # accepts: 003.43
    name, ann, ben, cem, dan = group
    group_id, eve, fay = GroupId(name), Device("eve", tmp_path), Device("fay", tmp_path)
    with ann.store.transaction():
        invites = [ann.node.joining.invite(group_id, (), "mqtt://", ann.now.wall_us) for _ in range(2)]
    _decide(group_id, Action.KEEP_OUT, DeviceKey(invites[0].secret_hash), (ben, cem), group)
    for device, invite in zip((eve, fay), invites, strict=True):
        with device.store.transaction():
            device.node.actions.request_join(invite, device.name, device.now)
    carry(ann, ben, cem, dan, eve, fay)
    members = {member.label for member in dan.node.groups.group(group_id).members}
    assert members == {"ann", "ben", "cem", "dan", "fay"}
    assert eve.node.groups.joined() == []


def test_acts_of_a_device_admitted_and_banned_at_once_are_void(tmp_path: Path) -> None:
    ann, ben, eve = (Device(name, tmp_path) for name in ("ann", "ben", "eve"))
    group_id = found(ann, ben)
    with ann.store.transaction():
        invite = ann.node.joining.invite(group_id, (), "mqtt://", ann.now.wall_us)
    with eve.store.transaction():
        eve.node.actions.request_join(invite, "eve", eve.now)
    carry(ann, eve)
    _change(eve, group_id, lambda draft: draft.adding(Member(identity("more of eve").keys)))
    with ben.store.transaction():  # who knows nothing of it
        ben.node.actions.change(group_id, lambda draft, epoch_id: draft.banning(eve.key, epoch_id), ben.now)
    for _ in range(4):
        carry(ann, ben, eve)
        for device in (ann, ben):
            device.wait(300)
    for device in (ann, ben):
        current = device.node.groups.group(group_id)
        assert {member.keys.signing_public for member in current.members} == {ann.key, ben.key}
        assert current.ban(eve.key)


@pytest.mark.slow
def test_votes_that_decide_since_the_group_has_changed_are_not_left_waiting(group: Group) -> None:
    """Two of four admins want dan out, and need a third; when one of the others leaves, two are more than half."""
    group_id, ann, ben, cem, dan = group
    group_id = GroupId(group_id)
    eve = Device("eve", ann.path.parent)
    admit(ann, eve, group_id, ann, ben, cem, dan)
    _change(ann, group_id, lambda draft: _promoted(draft, eve.key))
    everybody = (ann, ben, cem, dan, eve)
    carry(*everybody)
    for device in (ann, ben):
        with device.store.transaction():
            assert not device.node.actions.vote(group_id, Action.BAN, dan.key, device.now).decided
        carry(*everybody)
    with eve.store.transaction():
        eve.node.actions.leave(group_id, eve.now)
    carry(*everybody)
    for device in everybody:
        device.maintain()
    carry(*everybody)
    for device in (ann, ben, cem):
        assert device.node.groups.group(group_id).member(dan.key) is None
        assert not device.node.groups.trust(group_id).conflict
