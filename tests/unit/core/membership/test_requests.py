"""`covey.core.membership.requests`: invitations between devices that share a group already."""

from __future__ import annotations

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.link.queued import MessageClass
from covey.core.membership.events import GroupInvited, JoinRefused
from covey.core.membership.requests import GroupInvite, decline, unanswered
from covey.core.now import Now
from covey.core.pairing.invite import JoinRequest
from covey.core.pairing.preview import GroupDescription, GroupPreview
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from covey.errors import LocalError
from covey.limits.history import MAXIMUM_AVATAR_BYTES
from covey.limits.pairing import (
    GROUP_REQUEST_US,
    INVITE_REQUEST_US,
    MAXIMUM_DECLINED_GROUPS,
    MAXIMUM_GROUP_REQUESTS,
    MAXIMUM_GROUP_REQUESTS_OF_ONE,
)
from tests.fleet import Device, Make, admit, carry, found


def create(device: Device) -> bytes:
    with device.store.transaction():
        return device.node.membership.create(device.name, (), device.now.wall_us).group_id


def invite(inviter: Device, member: Device, group_id: GroupId) -> None:
    with inviter.store.transaction():
        inviter.node.actions.invite_member(group_id, member.key, (), inviter.now)


def test_an_invitation_shows_the_group(make: Make) -> None:  # accepts: 003.14, 003.58
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    further = GroupId(create(ann))
    with ann.store.transaction():
        described = GroupDescription("Pumps", "All of the site", ("image/png", bytes(MAXIMUM_AVATAR_BYTES)))
        ann.node.actions.invite_member(further, ben.key, (), ann.now, described)
    carry(ann, ben)
    ben.restart()
    [request] = ben.store.requests.pending()
    assert request.preview is not None
    assert (request.preview.title, request.preview.count) == ("Pumps", 1)
    assert request.preview.members == ((ann.key, "ann"),)
    assert request.preview.description == "All of the site"
    assert request.preview.picture == ("image/png", bytes(MAXIMUM_AVATAR_BYTES))


def forge(author: Device, to: Device, number: LinkSeq, body: bytes, group_id: GroupId = NO_GROUP) -> None:
    message = write_message(
        author.identity, MessageType.GROUP_INVITE, to.key, group_id, Incarnation(b"incarnat"), number, number, 1, body
    )
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


def body(author: Device, expires_at_us: int) -> bytes:
    return GroupInvite(bytes(16), author.identity.noise_public, expires_at_us, GroupPreview("", 1, ())).to_wire()


def codes(device: Device) -> list[str]:
    return [event.code for event in device.events() if isinstance(event, EnvelopeDropped)]


def test_an_invitation_waits_for_a_person_and_survives_a_restart(make: Make) -> None:  # accepts: 003.13, 003.14
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    second = GroupId(create(ann))
    invite(ann, ben, second)
    carry(ann, ben)
    assert GroupInvited(second, ann.key) in ben.events()
    ben.restart()
    [request] = ben.store.requests.pending()
    assert (request.group_id, request.inviter) == (second, ann.identity.keys)
    assert len(ben.node.groups.joined()) == 1
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    carry(ann, ben)
    assert {group.group_id for group in ben.node.groups.joined()} >= {second}
    assert ben.store.requests.pending() == []


def _invitations(device: Device) -> list[tuple[str, str]]:
    """Return (state, the other device) of what programs are told of invitations."""
    kept = device.store.events.between(0, device.store.events.last_number(), 100)
    return [(each.about["state"], each.about["device"]) for each in kept if each.kind == "invitation"]


def test_the_outcome_of_an_invitation_is_reported_once(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    second = GroupId(create(ann))
    for _ in range(2):
        invite(ann, ben, second)
        carry(ann, ben)
    assert _invitations(ann) == [("sent", ben.key.hex())] * 2
    assert _invitations(ben) == [("received", ann.key.hex())]
    [request] = ben.store.requests.pending()
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    assert _invitations(ben) == [("received", ann.key.hex()), ("accepted", ann.key.hex())]


def test_an_invitation_is_one_devices_alone(make: Make) -> None:
    ann, ben, cleo = make("ann"), make("ben"), make("cleo")
    found(ann, ben, cleo)
    second = GroupId(create(ann))
    invite(ann, ben, second)
    carry(ann, ben)
    [request] = ben.store.requests.pending()
    with cleo.store.transaction():
        cleo.node.actions.accept_request(request, "cleo", cleo.now)
    carry(ann, cleo)
    assert codes(ann) == ["invite"]
    assert ann.node.groups.group(second).member(cleo.key) is None


def test_a_strangers_is_refused_before_it_is_read(make: Make) -> None:
    ann, eve = make("ann"), make("eve")
    create(ann)
    forge(eve, ann, LinkSeq(1), b"not even CBOR")
    assert codes(ann) == ["not_a_member"]
    assert ann.store.counters.values() == {"dropped_not_a_member": 1}
    assert ann.store.requests.pending() == []


def test_malformed_and_expired_requests_are_dropped(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    forge(ann, ben, LinkSeq(1), b"not even CBOR")
    forge(ann, ben, LinkSeq(2), body(ann, ben.now.wall_us - 1))
    assert codes(ben) == ["malformed", "invite"]
    assert ben.store.requests.pending() == []


def test_they_end_by_themselves(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    forge(ann, ben, LinkSeq(1), body(ann, 2**60), GroupId(b"a" * 32))
    [request] = ben.store.requests.pending()
    assert request.expires_at_us == ben.now.wall_us + GROUP_REQUEST_US
    ben.now = Now(ben.now.monotonic_us, ben.now.wall_us + GROUP_REQUEST_US + 1)
    with pytest.raises(LocalError, match="expired"), ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    forge(ann, ben, LinkSeq(2), body(ann, 2**60), GroupId(b"b" * 32))
    assert [each.group_id for each in ben.store.requests.pending()] == [b"b" * 32]


def test_one_member_cannot_use_up_the_room(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    for number in range(1, MAXIMUM_GROUP_REQUESTS_OF_ONE + 2):
        forge(ann, ben, LinkSeq(number), body(ann, 2**60), GroupId(bytes([number]) * 32))
    assert codes(ben) == ["limit"]
    assert len(ben.store.requests.pending()) == MAXIMUM_GROUP_REQUESTS_OF_ONE
    forge(
        ann, ben, LinkSeq(20), body(ann, 2**60), GroupId(bytes([1]) * 32)
    )  # the same group again takes the earlier one's place
    assert codes(ben) == []


def test_one_member_reports_a_bounded_number_of_invitations_however_soon_they_expire(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    reported = 0
    for number in range(1, 4 * MAXIMUM_GROUP_REQUESTS_OF_ONE):
        forge(ann, ben, LinkSeq(number), body(ann, ben.now.wall_us), GroupId(bytes([number]) * 32))
        ben.now = Now(ben.now.monotonic_us, ben.now.wall_us + 1)
        reported += sum(isinstance(each, GroupInvited) for each in ben.events())
    assert reported == MAXIMUM_GROUP_REQUESTS_OF_ONE
    assert len([state for state, _ in _invitations(ben) if state == "received"]) == MAXIMUM_GROUP_REQUESTS_OF_ONE
    ben.now = Now(ben.now.monotonic_us, ben.now.wall_us + INVITE_REQUEST_US)
    forge(ann, ben, LinkSeq(100), body(ann, 2**60), GroupId(bytes([200]) * 32))
    assert GroupInvited(GroupId(bytes([200]) * 32), ann.key) in ben.events()
    for number in range(101, 110):
        forge(ann, ben, LinkSeq(number), body(ann, 2**60), GroupId(bytes([200]) * 32))
    assert ben.events() == [], "the same again is no news"


@pytest.mark.slow
def test_nor_can_many(make: Make) -> None:
    most = MAXIMUM_GROUP_REQUESTS // MAXIMUM_GROUP_REQUESTS_OF_ONE
    devices = [make(f"device {number}") for number in range(most + 2)]
    ben, others = devices[0], devices[1:]
    found(*devices)
    for device in others:
        for number in range(1, MAXIMUM_GROUP_REQUESTS_OF_ONE + 1):
            forge(device, ben, LinkSeq(number), body(device, 2**60), GroupId(bytes([number]) * 32))
    assert len(ben.store.requests.pending()) == MAXIMUM_GROUP_REQUESTS + 1, "one is there for every member"
    assert codes(ben) == ["limit"] * (MAXIMUM_GROUP_REQUESTS_OF_ONE - 1)


def test_members_and_strangers_cannot_be_invited(make: Make) -> None:
    ann, ben, eve = make("ann"), make("ben"), make("eve")
    first = found(ann, ben)
    for member, words in ((ben, "already in that group"), (eve, "shares no group with this one")):
        with pytest.raises(LocalError, match=words), ann.store.transaction():
            ann.node.actions.invite_member(first, member.key, (), ann.now)


def declined(device: Device, group_id: GroupId) -> None:
    [request] = [each for each in device.store.requests.pending() if each.group_id == group_id]
    with device.store.transaction():
        decline(device.store.requests, request, device.now.wall_us)


def offered(device: Device) -> list[GroupId]:
    """Return the groups whose invitations a person finds."""
    found = unanswered(device.node.groups, device.store.requests, device.now.wall_us)
    return [each.group_id for each in found]


def test_a_declined_group_stays_declined_when_another_member_invites(make: Make) -> None:  # accepts: 003.20
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    found(ann, ben, cem)
    second, third = GroupId(b"2" * 32), GroupId(b"3" * 32)
    forge(ann, ben, LinkSeq(1), body(ann, 2**60), second)
    declined(ben, second)
    ben.restart()
    ben.events()
    for number, author in ((2, ann), (3, cem)):
        forge(author, ben, LinkSeq(number), body(author, 2**60), second)
    assert [event for event in ben.events() if isinstance(event, GroupInvited)] == []
    assert offered(ben) == []
    [kept] = ben.store.requests.pending()
    assert kept.inviter == cem.identity.keys, "the newest one is kept, unseen"
    forge(cem, ben, LinkSeq(4), body(cem, 2**60), third)
    assert offered(ben) == [third], "another group is another question"
    with ben.store.transaction():
        ben.store.requests.reconsider(second)
    assert set(offered(ben)) == {second, third}


def test_a_person_who_asks_to_join_has_changed_their_mind(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    second = GroupId(create(ann))
    invite(ann, ben, second)
    carry(ann, ben)
    declined(ben, second)
    admit(ann, ben, second)
    assert ben.store.requests.declined() == {}
    assert ben.node.groups.group(second).member(ben.key) is not None


@pytest.mark.slow
def test_declined_groups_use_up_nobodys_room(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    number = 0
    for round_number in range(3):
        groups = [GroupId(bytes([round_number, each]) * 16) for each in range(MAXIMUM_GROUP_REQUESTS_OF_ONE)]
        for group_id in groups:
            number += 1
            forge(ann, ben, LinkSeq(number), body(ann, 2**60), group_id)
        assert offered(ben) == groups
        for group_id in groups:
            declined(ben, group_id)
    assert codes(ben) == []
    assert len(ben.store.requests.declined()) == 3 * MAXIMUM_GROUP_REQUESTS_OF_ONE
    with ben.store.transaction():
        for each in range(MAXIMUM_DECLINED_GROUPS):
            ben.store.requests.decline(GroupId(each.to_bytes(32, "big")), ben.now.wall_us + 1 + each)
    assert len(ben.store.requests.declined()) == MAXIMUM_DECLINED_GROUPS


def test_the_first_inviter_admits_although_a_later_one_lost_its_state(make: Make) -> None:
    """The first one has let it in by then, and makes no other invitation for who is in."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    found(ann, ben, cid)
    further = GroupId(create(ann))
    invite(ann, ben, further)
    carry(ann, ben, cid)
    [request] = ben.store.requests.pending()
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    carry(ann, ben)
    for inviter in (ann, ben):
        invite(inviter, cid, further)
    carry(ann, cid)
    carry(ben, cid)
    with cid.store.transaction():
        for request in cid.store.requests.pending():
            cid.node.actions.accept_request(request, "cid", cid.now)
    ben.return_to(None)
    carry(ann, cid)
    assert further in {group.group_id for group in cid.node.groups.joined()}
    assert cid.store.joins.pending() == []


def _asks_by_a_lost_invite(ann: Device, ben: Device) -> GroupId:
    """Let ann lose its state after it has invited ben, who asks when the two share a group again."""
    found(ann, ben)
    further = GroupId(create(ann))
    invite(ann, ben, further)
    carry(ann, ben)
    ann.return_to(None)
    admit(ben, ann, ben.node.groups.joined()[0].group_id)
    [request] = ben.store.requests.pending()
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    ann.events()
    return further


def test_a_device_learns_that_its_inviter_lost_the_invite(make: Make) -> None:  # accepts: 003.16
    ann, ben = make("ann"), make("ben")
    further = _asks_by_a_lost_invite(ann, ben)
    ben.events()
    carry(ann, ben)
    assert JoinRefused(further, ann.key) in ben.events()
    assert codes(ann) == ["invite"]
    assert ben.store.outbox.totals()[0] == ann.store.outbox.totals()[0] == 0, "it asked for a week, in vain"
    assert ben.store.joins.pending(), "an answer that was under way is still taken"


def test_a_forged_invite_gets_no_answer(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = GroupId(create(ann))
    with ann.store.transaction():
        lost = ann.node.joining.invite(group_id, (), "", ann.now.wall_us)
    with ben.store.transaction():
        ben.node.actions.request_join(lost, "ben", ben.now)
    ann.return_to(None)
    carry(ann, ben)
    assert codes(ann) == ["invite"]
    assert ben.store.outbox.totals()[0] == 1
    assert ann.store.outbox.totals()[0] == 0


def test_a_joiner_retries_while_the_inviters_clock_is_ahead(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    further = GroupId(create(ann))
    invite(ann, ben, further)
    carry(ann, ben)
    [request] = ben.store.requests.pending()
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    right = ann.now
    ann.now = Now(right.monotonic_us, right.wall_us + GROUP_REQUEST_US + 1)
    carry(ann, ben)
    assert codes(ann) == ["invite"]
    assert ben.store.outbox.totals()[0] == 1
    ann.now = right
    ben.wait(600)
    carry(ann, ben)
    assert ben.node.groups.group(further).member(ben.key)


def test_many_forged_invites_fill_no_outbox(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.membership.maintenance.BUNDLE_BYTES", 3_000)
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    for number in range(1, 50):
        request = JoinRequest(number.to_bytes(16), ben.identity.noise_public, "").to_wire()
        message = write_message(
            ben.identity,
            MessageType.JOIN,
            ann.key,
            GroupId(bytes(32)),
            Incarnation(b"incarnat"),
            number,
            LinkSeq(number),
            1,
            request,
        )
        ann.receive(seal(message, ann.identity.noise_public, ben.rng(32), ben.rng(24)))
    assert 3_000 < ann.store.outbox.waiting_bytes(ben.key, MessageClass.CONTROL) < 4_000
