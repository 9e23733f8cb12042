"""`covey.core.membership.unknown_groups`: a device addressed in a group that it does not hold may ask for it."""

from __future__ import annotations

import pytest

from covey.core.group.manifest import Member, Mode
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.membership.events import GroupInvited, InviteRequested
from covey.core.membership.unknown_groups import invite_wishes, unknown_groups
from covey.core.now import Now
from covey.core.pairing.pending import UnknownGroup
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.errors import LocalError
from covey.limits.pairing import (
    GROUP_REQUEST_US,
    INVITE_REQUEST_US,
    MAXIMUM_GROUP_ASKS_OF_ONE,
    MAXIMUM_GROUP_REQUESTS,
)
from tests.fleet import Device, Make, carry, found


def _say(author: Device, to: Device, group_id: GroupId, number: int = 1, kind: MessageType = MessageType.BLOB) -> None:
    """Address a device in a group, whether it is in it or not."""
    incarnation, now_us = Incarnation(b"incarnat"), author.now.wall_us
    body = b"hello" if kind is MessageType.BLOB else b"\x80"
    message = write_message(author.identity, kind, to.key, group_id, incarnation, number, LinkSeq(number), now_us, body)
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


def _create(device: Device, mode: Mode = Mode.INVITES_ONLY) -> GroupId:
    with device.store.transaction():
        return device.node.membership.create("further", (), device.now.wall_us, mode).group_id


def _unknown(device: Device) -> list[UnknownGroup]:
    return unknown_groups(device.node.groups, device.store, device.now.wall_us)


def _wishes(device: Device) -> list[tuple[GroupId, bytes]]:
    wishes = invite_wishes(device.node.groups, device.store, device.now.wall_us)
    return [(each.group_id, each.device) for each in wishes]


def _ask(device: Device) -> None:
    with device.store.transaction():
        device.node.actions.request_invite(_unknown(device)[0], device.now)


def test_a_device_addressed_in_an_unknown_group_asks_once_its_person_agrees(make: Make) -> None:  # accepts: 003.82
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    further = _create(ann)
    _say(ann, ben, further)
    assert [(each.group_id, each.author) for each in _unknown(ben)] == [(further, ann.key)]
    assert ben.sends() == [], "nobody learns by itself what ben holds"

    _ask(ben)
    carry(ann, ben)
    assert InviteRequested(further, ben.key) in ann.events()
    assert _wishes(ann) == [(further, ben.key)]
    assert ann.node.groups.group(further).member(ben.key) is None, "a person decides"
    with ann.store.transaction():
        ann.node.actions.invite_member(further, ben.key, (), ann.now)
    assert _wishes(ann) == []
    carry(ann, ben)
    [request] = ben.store.requests.pending()
    assert _unknown(ben) == []
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    carry(ann, ben)
    assert ben.node.groups.is_in(further)


def test_a_device_that_the_group_lists_already_is_invited_at_once(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    further = _create(ann)
    with ann.store.transaction():
        ann.node.actions.add_device(further, Member(ben.identity.keys), "", ann.now)
    carry(ann, ben)
    assert [(each.group_id, each.author) for each in _unknown(ben)] == [(further, ann.key)]
    _ask(ben)
    carry(ann, ben)
    assert GroupInvited(further, ann.key) in ben.events()
    ben.now = Now(ben.now.monotonic_us, ben.now.wall_us + INVITE_REQUEST_US)
    _say(ben, ann, further, 1_000, MessageType.INVITE_REQUEST)
    assert len([each for each in ann.store.invites.all() if each.bound_to == ben.key]) == 1
    [request] = ben.store.requests.pending()
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    carry(ann, ben)
    assert ben.node.groups.is_in(further)


def test_one_member_is_asked_once_an_hour(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    further = _create(ann)
    _say(ann, ben, further)
    _ask(ben)
    carry(ann, ben)
    with pytest.raises(LocalError, match="asked already"):
        _ask(ben)
    ben.now = Now(ben.now.monotonic_us, ben.now.wall_us + INVITE_REQUEST_US)
    _ask(ben)
    carry(ann, ben)
    assert _wishes(ann) == [(further, ben.key)]


def test_a_stranger_causes_nothing(make: Make) -> None:
    ann, ben, eve = make("ann"), make("ben"), make("eve")
    found(ann, ben)
    further = _create(ann)
    _say(eve, ben, further)
    assert _unknown(ben) == []
    _say(eve, ann, further, kind=MessageType.INVITE_REQUEST)
    assert _wishes(ann) == []
    assert ann.sends() == []


def test_each_device_fills_only_its_own_room(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    found(ann, ben, mal)
    further = _create(ann)
    _say(ann, ben, further)
    for number in range(3 * MAXIMUM_GROUP_ASKS_OF_ONE):
        ben.wait(1)
        _say(mal, ben, GroupId(bytes([number]) * 32), 1 + number)
    authors = [each.author for each in _unknown(ben)]
    assert authors.count(mal.key) == MAXIMUM_GROUP_ASKS_OF_ONE
    assert authors.count(ann.key) == 1


def test_notes_end_and_a_declined_group_is_not_noted(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    further, other = _create(ann), _create(ann)
    _say(ann, ben, further)
    with ben.store.transaction():
        ben.store.requests.decline(further, ben.now.wall_us)
    assert _unknown(ben) == []
    _say(ann, ben, other, 2)
    assert [each.group_id for each in _unknown(ben)] == [other]
    ben.now = Now(ben.now.monotonic_us, ben.now.wall_us + GROUP_REQUEST_US + 1)
    assert _unknown(ben) == []


def test_a_group_that_this_device_was_in_is_not_unknown(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    further = found(ann, ben)
    with ben.store.transaction():
        ben.node.actions.leave(further, ben.now)
    _say(ann, ben, further, 500)
    assert _unknown(ben) == []


def test_a_member_that_asks_all_the_time_is_reported_once_an_hour(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    found(ann, ben, mal)
    groups = [_create(ann) for _ in range(3 * MAXIMUM_GROUP_ASKS_OF_ONE)]
    ann.events()
    number, reported = 1, 0
    for _ in range(3):
        for group_id in groups:
            number += 1
            _say(mal, ann, group_id, number, MessageType.INVITE_REQUEST)
        reported += sum(isinstance(each, InviteRequested) for each in ann.events())
    assert reported == MAXIMUM_GROUP_ASKS_OF_ONE
    _say(ben, ann, groups[0], kind=MessageType.INVITE_REQUEST)
    assert InviteRequested(groups[0], ben.key) in ann.events()
    ann.now = Now(ann.now.monotonic_us, ann.now.wall_us + INVITE_REQUEST_US)
    _say(mal, ann, groups[0], number + 1, MessageType.INVITE_REQUEST)
    assert InviteRequested(groups[0], mal.key) in ann.events()


def test_a_declined_request_is_not_shown_again(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    found(ann, ben, mal)
    further = _create(ann)
    _say(mal, ann, further, kind=MessageType.INVITE_REQUEST)
    assert _wishes(ann) == [(further, mal.key)]
    with ann.store.transaction():
        ann.store.group_asks.decline_wishes(further, ann.now.wall_us)
    ann.events()
    for number in range(2, 6):
        ann.now = Now(ann.now.monotonic_us, ann.now.wall_us + INVITE_REQUEST_US)
        _say(mal, ann, further, number, MessageType.INVITE_REQUEST)
    assert (_wishes(ann), ann.events()) == ([], [])
    _say(ben, ann, further, kind=MessageType.INVITE_REQUEST)
    assert _wishes(ann) == [(further, ben.key)]


def test_nobody_asks_to_be_one_of_a_persons_own_devices(make: Make) -> None:
    ann, mal = make("ann"), make("mal")
    found(ann, mal)
    personal = _create(ann, Mode.PERSONAL)
    _say(mal, ann, personal, kind=MessageType.INVITE_REQUEST)
    assert _wishes(ann) == []


@pytest.mark.slow
def test_listed_devices_that_ask_take_no_room_of_a_persons_own_invitations(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    crowd = [make(f"mal {number}") for number in range(MAXIMUM_GROUP_REQUESTS + 1)]
    found(ann, ben)
    shared = found(ann)
    further = _create(ann)
    with ann.store.transaction():
        for group_id in (shared, further):
            for each in crowd:
                ann.node.actions.add_device(group_id, Member(each.identity.keys), "", ann.now)
    ann.sends()
    for each in crowd:
        _say(each, ann, further, kind=MessageType.INVITE_REQUEST)
    bound = [each.bound_to for each in ann.store.invites.all() if each.bound_to is not None]
    assert sorted(bound) == sorted(each.key for each in crowd)
    with ann.store.transaction():
        ann.node.actions.invite_member(further, ben.key, (), ann.now)


def test_a_listed_device_that_uses_each_invitation_gets_a_bounded_number(make: Make) -> None:
    ann, mal = make("ann"), make("mal")
    found(ann, mal)
    further = _create(ann)
    with ann.store.transaction():
        ann.node.actions.add_device(further, Member(mal.identity.keys), "", ann.now)
    ann.sends()
    for number in range(1, 3 * MAXIMUM_GROUP_ASKS_OF_ONE):
        _say(mal, ann, further, number, MessageType.INVITE_REQUEST)
        with ann.store.transaction():
            for each in ann.store.invites.all():
                ann.store.invites.use(each.secret_hash, mal.key)  # as a JOIN by it does
    made = [each for each in ann.store.invites.all() if each.bound_to == mal.key]
    assert len(made) == MAXIMUM_GROUP_ASKS_OF_ONE


def test_only_admins_show_requests_where_only_they_admit(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    found(ann, ben, cid)
    further = _create(ann, Mode.ADMIN_INVITES)
    with ann.store.transaction():
        ann.node.actions.invite_member(further, ben.key, (), ann.now)
    carry(ann, ben, cid)
    [request] = ben.store.requests.pending()
    with ben.store.transaction():
        ben.node.actions.accept_request(request, "ben", ben.now)
    carry(ann, ben, cid)
    _say(cid, ben, further, 700, MessageType.INVITE_REQUEST)
    assert _wishes(ben) == []
    _say(cid, ann, further, 700, MessageType.INVITE_REQUEST)
    assert _wishes(ann) == [(further, cid.key)]
