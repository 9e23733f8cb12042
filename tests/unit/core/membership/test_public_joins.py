"""`public_joins`: a device joins a public group on its own manifest, and nobody fills it with devices of its making."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from covey.core.crypto import Identity
from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import GroupManifest, Member, Mode, Role, sign_manifest
from covey.core.group.messages import Bundle
from covey.core.group.policy import Action
from covey.core.ids import DeviceKey, GroupId
from covey.core.membership.events import GroupChanged
from covey.core.now import Now
from covey.core.pairing.uri import GroupUri
from covey.core.wire.message import MessageType
from covey.errors import LocalError
from covey.limits.group import PUBLIC_JOIN_US, PUBLIC_JOINS_AT_ONCE, SELF_JOINED_MEMBERS
from covey.limits.pairing import PUBLIC_VISITORS, VISIT_US
from tests.fleet import Device, Make, carry, identity


def opened(creator: Device, mode: Mode = Mode.PUBLIC) -> GroupId:
    with creator.store.transaction():
        return creator.node.membership.create("", (), creator.now.wall_us, mode).group_id


def ask(visitor: Device, group_id: GroupId, *contacts: Device) -> None:
    uri = GroupUri(group_id, tuple(each.identity.keys for each in contacts), "")
    with visitor.store.transaction():
        visitor.node.actions.request_visit(GroupUri.from_uri(uri.to_uri()), visitor.name, visitor.now)


def join(visitor: Device, group_id: GroupId, contact: Device, *others: Device) -> None:
    ask(visitor, group_id, contact)
    carry(visitor, contact, *others)


def members(device: Device, group_id: GroupId) -> set[DeviceKey]:
    return {member.keys.signing_public for member in device.node.groups.group(group_id).members}


def codes(device: Device) -> list[str]:
    return [event.code for event in device.events() if isinstance(event, EnvelopeDropped)]


def change(device: Device, group_id: GroupId, edit: Callable[[GroupManifest], GroupManifest]) -> None:
    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, _: edit(draft), device.now)


def test_a_device_lets_itself_in_by_asking_a_member_that_is_no_admin(make: Make) -> None:  # accepts: 003.07, 003.09
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = opened(ann)
    join(ben, group_id, ann)
    join(cem, group_id, ben, ann)
    everybody = {ann.key, ben.key, cem.key}
    assert members(ann, group_id) == members(ben, group_id) == members(cem, group_id) == everybody
    listed = ann.node.groups.group(group_id).member(cem.key)
    assert listed is not None
    assert (listed.label, listed.role, listed.capabilities, listed.since) == ("cem", Role.MEMBER, (), 3)
    assert ann.node.groups.group(group_id).issuer == cem.key
    assert cem.node.groups.secret(group_id) == ann.node.groups.secret(group_id) is not None
    assert any(isinstance(event, GroupChanged) and event.joined for event in cem.events())
    assert cem.store.joins.pending() == []
    cem.blob(group_id, b"hello")
    carry(ann, ben, cem)
    assert (ann.inbox(), ben.inbox()) == ([b"hello"], [b"hello"])


def test_it_asks_all_that_the_uri_names_and_survives_a_restart(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = opened(ann)
    join(ben, group_id, ann)
    ask(cem, group_id, ann, ben)
    assert len(cem.store.joins.pending()) == 2
    cem.restart()
    carry(cem, ben)  # ann is away
    assert members(ben, group_id) == {ann.key, ben.key, cem.key}
    for device in (ann, cem):
        device.wait(300)
    carry(ann, ben, cem)
    assert members(ann, group_id) == members(cem, group_id) == {ann.key, ben.key, cem.key}
    assert ann.node.groups.group(group_id).version == 3, "ann's answer came too late, and changes nothing"


@pytest.mark.parametrize("mode", [Mode.ADMIN_INVITES, Mode.INVITES_ONLY])
def test_no_other_group_is_joined_so(make: Make, mode: Mode) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = opened(ann, mode)
    join(ben, group_id, ann)
    assert codes(ann) == ["invite"]
    assert members(ann, group_id) == {ann.key}
    assert ann.store.outbox.totals()[0] == 0, "it is not even answered"
    join(ben, GroupId(b"?" * 32), ann)
    assert codes(ann) == ["unknown_group"]


def test_a_banned_device_is_not_answered_and_its_manifest_is_void(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = opened(ann)
    join(ben, group_id, ann)
    join(cem, group_id, ann, ben)
    before = ann.node.groups.group(group_id)
    with ann.store.transaction():
        voting = ann.node.actions.vote(group_id, Action.BAN, cem.key, ann.now)
    assert voting.decided
    carry(ann, ben, cem)
    assert members(ben, group_id) == {ann.key, ben.key}
    cem.node.groups.refresh()
    join(cem, group_id, ann, ben)
    assert codes(ann) == ["invite"]
    for parent in (before, ann.node.groups.group(group_id)):
        draft = parent.draft()
        rest = tuple(each for each in draft.members if each.keys.signing_public != cem.key)
        unbanned = replace(draft, banned=(), members=rest).adding(Member(cem.identity.keys))
        _bring(cem, ben, group_id, sign_manifest(unbanned, cem.identity))
    assert members(ben, group_id) == members(ann, group_id) == {ann.key, ben.key}


def _bring(author: Device, to: Device, group_id: GroupId, *manifests: GroupManifest) -> None:
    """Have a device send manifests as no honest one would."""
    with author.store.transaction():
        author.node._queue.queue(
            to.key,
            MessageType.GROUP_MANIFEST,
            group_id,
            Bundle(tuple(each.raw for each in manifests)).to_wire(),
            author.now,
        )
    carry(author, to)


@pytest.mark.parametrize(
    "edit",
    [
        lambda draft, stranger, _: draft.adding(Member(stranger.keys, role=Role.ADMIN)),
        lambda draft, stranger, _: draft.adding(Member(stranger.keys, capabilities=("collector",))),
        lambda draft, _, other: draft.adding(Member(other.keys)),
        lambda draft, stranger, other: draft.adding(Member(stranger.keys)).adding(Member(other.keys)),
        lambda draft, stranger, _: replace(draft.adding(Member(stranger.keys)), members=(Member(stranger.keys),)),
    ],
)
def test_a_stranger_does_nothing_else(
    make: Make, edit: Callable[[GroupManifest, Identity, Identity], GroupManifest]
) -> None:
    ann, eve = make("ann"), make("eve")
    group_id = opened(ann)
    ask(eve, group_id, ann)
    carry(eve)  # nothing of it arrives
    before = ann.node.groups.group(group_id)
    eve.node.groups.addresses._noise[ann.key] = ann.identity.noise_public
    forged = sign_manifest(edit(before.draft(), eve.identity, identity("other")), eve.identity)
    _bring(eve, ann, group_id, forged)
    assert ann.node.groups.group(group_id) == before


def test_the_answer_is_believed_of_nobody_else_and_of_no_other_group(make: Make) -> None:
    ann, ben, eve = make("ann"), make("ben"), make("eve")
    group_id = opened(ann)
    false = opened(eve)
    ask(ben, group_id, ann)
    eve.node.groups.addresses._noise[ben.key] = ben.identity.noise_public
    _bring(eve, ben, group_id, ann.node.groups.group(group_id))
    _bring(eve, ben, group_id, eve.node.groups.group(false))
    assert ben.node.groups.joined() == []
    ben.wait(300)
    carry(ann, ben)
    assert members(ann, group_id) == {ann.key, ben.key}


def _strangers(count: int, of: GroupManifest) -> list[GroupManifest]:
    """Return the manifests of devices that let themselves in, one after the other."""
    chain = []
    for number in range(count):
        stranger = identity(f"made up {number}")
        of = sign_manifest(of.adding(Member(stranger.keys)), stranger)
        chain.append(of)
    return chain


@pytest.mark.slow
def test_a_member_that_brings_devices_of_its_making_waits_as_strangers_do(make: Make) -> None:
    ann, eve = make("ann"), make("eve")
    group_id = opened(ann)
    join(eve, group_id, ann)
    chain = _strangers(PUBLIC_JOINS_AT_ONCE + 20, ann.node.groups.group(group_id))
    half = len(chain) // 2
    _bring(eve, ann, group_id, *chain[:half])
    _bring(eve, ann, group_id, *chain[half:])
    taken = len(members(ann, group_id))
    assert taken <= PUBLIC_JOINS_AT_ONCE + 2
    later = ann.now.wall_us + 3 * PUBLIC_JOIN_US
    ann.now = Now(ann.now.monotonic_us + 3 * PUBLIC_JOIN_US, later)
    _bring(eve, ann, group_id, chain[-1])
    assert len(members(ann, group_id)) == taken + 3, "one more in each minute"


@pytest.mark.slow
def test_a_chain_that_an_admin_followed_is_taken_at_once(make: Make) -> None:
    ann, ben, eve = make("ann"), make("ben"), make("eve")
    group_id = opened(ann)
    join(ben, group_id, ann)
    join(eve, group_id, ann, ben)
    chain = _strangers(PUBLIC_JOINS_AT_ONCE + 20, ann.node.groups.group(group_id))
    admins = sign_manifest(chain[-1].changing(replace(_own(chain[-1], ann), label="new")), ann.identity)
    for first in range(0, len(chain), 40):
        _bring(ann, ben, group_id, *chain[first : first + 40], admins)
    ben.wait(60)
    carry(ann, ben)
    assert len(members(ben, group_id)) == len(chain) + 3


def _own(group: GroupManifest, device: Device) -> Member:
    found = group.member(device.key)
    assert found is not None
    return found


@pytest.mark.slow
def test_strangers_leave_room_for_members_that_admins_add(make: Make) -> None:
    ann, eve = make("ann"), make("eve")
    group_id = opened(ann)
    crowd = [Member(identity(f"member {number}").keys) for number in range(SELF_JOINED_MEMBERS - 1)]

    def fill(draft: GroupManifest) -> GroupManifest:
        members = [*draft.members, *(replace(each, since=draft.version) for each in crowd)]
        return replace(draft, members=tuple(sorted(members, key=lambda each: each.keys.signing_public)))

    change(ann, group_id, fill)
    assert len(members(ann, group_id)) == SELF_JOINED_MEMBERS
    join(eve, group_id, ann)
    assert codes(ann) == ["invite"]
    change(ann, group_id, lambda draft: draft.adding(Member(eve.identity.keys)))
    assert eve.key in members(ann, group_id)


@pytest.mark.slow
def test_visitors_take_up_a_bounded_room_for_a_bounded_time(make: Make) -> None:
    ann = make("ann")
    group_id = opened(ann)
    visitors = [make(f"visitor {number}") for number in range(PUBLIC_VISITORS + 1)]
    for visitor in visitors:
        ask(visitor, group_id, ann)
        for outgoing in visitor.sends():
            ann.receive(outgoing.envelope)  # and the visitor is never seen again
    assert ann.store.departures.visitors() == PUBLIC_VISITORS
    assert ann.store.outbox.totals()[0] == PUBLIC_VISITORS
    assert ann.store.counters.values()["refused_full"] == 1
    ann.wait(VISIT_US / 1e6 + 1)
    ann.maintain()
    assert (ann.store.departures.visitors(), ann.store.outbox.totals()[0]) == (0, 0)
    late = visitors[-1]
    late.wait(VISIT_US / 1e6 + 1)
    carry(ann, late)
    assert members(ann, group_id) == {ann.key, late.key}


def test_members_and_the_maker_of_the_uri_do_not_ask_to_join(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = opened(ann)
    join(ben, group_id, ann)
    with pytest.raises(LocalError, match="already in that group"):
        ask(ben, group_id, ann)
    with pytest.raises(LocalError, match="this device made the URI itself"):
        ask(ann, GroupId(b"?" * 32), ann)
