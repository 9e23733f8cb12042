"""What comes before the manifest that it rests on waits for it: a destruction, and a vote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import GroupManifest, Member, Mode, Role
from covey.core.group.messages import Bundle, GroupSend
from covey.core.group.policy import Action, sign_vote
from covey.core.group.revocation import sign_revoke
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.membership.events import GroupDestroyed, VoteCast
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.limits.group import MESSAGES_AHEAD_OF_ONE
from tests.fleet import Device, Make, admit, carry, found


def _maintain(device: Device) -> None:
    if device.node.has_work(device.now):
        with device.store.transaction():
            device.node.maintain(device.now)


def _remove(remover: Device, target: Device, group_id: bytes) -> None:
    with remover.store.transaction():
        remover.node.actions.change(
            GroupId(group_id), lambda draft, epoch: draft.removing(target.key, epoch), remover.now
        )


def _promote(issuer: Device, target: Device, group_id: bytes) -> None:
    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        member = draft.member(target.key)
        assert member is not None
        return draft.changing(replace(member, role=Role.ADMIN))

    with issuer.store.transaction():
        issuer.node.actions.change(GroupId(group_id), edit, issuer.now)


def _overtake(sender: Device, recipient: Device) -> None:
    """Carry what a device has for another one, the newest first and the oldest not yet."""
    mine = [each for each in sender.sends() if each.recipient == recipient.key]
    for outgoing in mine[:0:-1]:
        recipient.receive(outgoing.envelope)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_destruction_waits_for_the_epoch_that_it_is_of(make: Make, restarted: bool) -> None:  # accepts: 000.22
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _remove(ann, cem, group_id)
    with ann.store.transaction():
        ann.node.actions.destroy(group_id, ann.now)
    _overtake(ann, ben)
    assert [each.group_id for each in ben.node.groups.joined()] == [group_id], "ben is one epoch behind"
    assert ben.store.ahead.groups() == [group_id]
    if restarted:
        ben.restart()
    ann.wait(600)
    carry(ann, ben)
    _maintain(ben)
    assert ben.node.groups.joined() == []
    assert any(isinstance(event, GroupDestroyed) for event in ben.events())
    assert ben.store.ahead.groups() == []


@pytest.mark.parametrize("by", ["who let it in", "who knows nothing of that"])
def test_a_destruction_waits_for_what_lets_a_device_in_again(make: Make, by: str) -> None:  # accepts: 000.22
    """Who knows nothing of that does not name it: whoever let it in passes the destruction on."""
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _remove(ann, cem, group_id)
    carry(ann, ben, cem)
    assert cem.node.groups.joined() == []
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft.adding(Member(cem.identity.keys)), ann.now)
        secret = ann.node.groups.secret(group_id)
        assert secret is not None
        bundle = Bundle((ann.node.groups.group(group_id).raw,), (secret,))
        ann.node._queue.queue(cem.key, MessageType.GROUP_MANIFEST, group_id, bundle.to_wire(), ann.now)
    [on_its_way] = [each for each in ann.sends() if each.recipient == cem.key]
    _destroy(ann if by == "who let it in" else ben, group_id)
    carry(ann, ben, cem)
    assert cem.store.ahead.groups() == [group_id]
    cem.receive(on_its_way.envelope)
    _maintain(cem)
    assert cem.node.groups.joined() == []
    assert any(isinstance(event, GroupDestroyed) for event in cem.events())
    assert cem.store.ahead.groups() == []


def _destroy(device: Device, group_id: GroupId) -> None:
    with device.store.transaction():
        device.node.actions.destroy(group_id, device.now)


@pytest.mark.slow
def test_a_destruction_is_obeyed_where_a_later_epoch_has_begun(make: Make) -> None:  # accepts: 000.22
    ann, ben, cem, dan, eve = (make(name) for name in ("ann", "ben", "cem", "dan", "eve"))
    group_id = found(ann, ben, cem, dan)
    _remove(ann, cem, group_id)
    carry(ann, dan)
    with ann.store.transaction():
        invite = ann.node.joining.invite(group_id, (), "mqtt://", ann.now.wall_us)
    with eve.store.transaction():
        eve.node.actions.request_join(invite, "eve", eve.now)
    carry(ann, eve)
    _destroy(ben, group_id)  # who knows nothing of all that
    ben.wait(600)
    carry(ann, ben, dan, eve)
    for device in (ann, ben, dan, eve):
        assert device.node.groups.joined() == [], device.name
    assert any(isinstance(event, GroupDestroyed) for event in dan.events())


@pytest.mark.slow
def test_a_readmitted_devices_earlier_destruction_is_not_obeyed(make: Make) -> None:
    ann, ben, dan = everybody = [make(name) for name in ("ann", "ben", "dan")]
    group_id = found(*everybody)
    revoke = sign_revoke(ben.node.groups.group(group_id), ben.identity)
    late = sign_revoke(replace(ben.node.groups.group(group_id), epoch=2), ben.identity)
    _remove(ann, ben, group_id)
    carry(*everybody)
    for raw, code in ((revoke.raw, "unknown_issuer"), (late.raw, "unknown_issuer")):
        assert _say(dan, ann, group_id, raw) == [code], "ben is no member"
    admit(ann, ben, group_id, *everybody)
    for raw in (revoke.raw, late.raw):
        assert _say(dan, ann, group_id, raw) == ["rollback"], "of an earlier membership"
    assert [group.group_id for group in ann.node.groups.joined()] == [group_id]
    _destroy(ben, group_id)
    carry(*everybody)
    assert [device.node.groups.joined() for device in everybody] == [[], [], []]


@pytest.mark.parametrize("ends", ["removed", "left", "destroyed"])
def test_messages_of_a_no_longer_shared_group_are_withdrawn(make: Make, ends: str) -> None:
    """They are in another group still, in which their link goes on: nobody would ever take what waits."""
    ann, ben = make("ann"), make("ben")
    lasting, group_id = found(ann, ben), found(ann, ben)
    for device in (ann, ben):
        device.blob(group_id, b"too late")
        device.blob(lasting, b"in time")
    if ends == "removed":
        _remove(ann, ben, group_id)
    elif ends == "left":
        with ann.store.transaction():
            ann.node.actions.leave(group_id, ann.now)
    else:
        _destroy(ann, group_id)
    _overtake(ann, ben)
    ann.wait(600)
    ben.wait(600)
    carry(ann, ben)
    assert [device.store.outbox.totals()[0] for device in (ann, ben)] == [0, 0]
    assert ann.inbox() == [b"in time"]
    assert b"in time" in ben.inbox()
    assert [device.store.losses.recipients() for device in (ann, ben)] == [[], []]


def _say(author: Device, recipient: Device, group_id: GroupId, body: bytes) -> list[str]:
    """Send a Revoke as no honest device would; return why it is dropped."""
    recipient.events()
    with author.store.transaction():
        author.node._queue.queue(recipient.key, MessageType.REVOKE, group_id, body, author.now)
    carry(author, recipient)
    return [event.code for event in recipient.events() if isinstance(event, EnvelopeDropped)]


def test_a_vote_waits_for_the_manifest_that_makes_its_voter_an_admin(make: Make) -> None:  # accepts: 003.34
    ann, ben, cem, dan = everybody = [make(name) for name in ("ann", "ben", "cem", "dan")]
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us, Mode.ADMIN_INVITES).group_id
    for each in (ben, cem, dan):
        admit(ann, each, group_id, *everybody)
    _promote(ann, ben, group_id)
    carry(*everybody)
    _promote(ben, cem, group_id)
    carry(ben, cem)  # ann is away
    with cem.store.transaction():
        cem.node.actions.vote(group_id, Action.BAN, dan.key, cem.now)
    for outgoing in cem.sends():
        if outgoing.recipient == ann.key:
            ann.receive(outgoing.envelope)
    assert not any(isinstance(event, VoteCast) for event in ann.events())
    carry(*everybody)
    _maintain(ann)
    assert VoteCast(group_id, Action.BAN, dan.key, cem.key, 1, 2) in ann.events()
    with ann.store.transaction():
        assert ann.node.actions.vote(group_id, Action.BAN, dan.key, ann.now).decided


def test_one_author_fills_no_disk_and_loses_nothing(make: Make) -> None:
    ann, ben, cem = everybody = [make(name) for name in ("ann", "ben", "cem")]
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us, Mode.ADMIN_INVITES).group_id
    for each in (ben, cem):
        admit(ann, each, group_id, *everybody)
    since = 3
    votes = [
        GroupSend(
            ann.key,
            MessageType.GROUP_VOTE,
            group_id,
            sign_vote(group_id, Action.BAN, cem.key, 100 + each, ben.identity).raw,
        )
        for each in range(3 * MESSAGES_AHEAD_OF_ONE)
    ]
    with ben.store.transaction():
        ben.node.actions.queue_sends(votes, ben.now)
    carry(*everybody)
    assert len(ann.store.ahead.of_group(group_id)) == MESSAGES_AHEAD_OF_ONE
    assert ben.store.outbox.totals()[0] == 2 * MESSAGES_AHEAD_OF_ONE, "what finds no room is not acknowledged"
    legitimate = sign_vote(group_id, Action.BAN, ben.key, since - 1, cem.identity).raw
    raw = write_message(
        cem.identity, MessageType.GROUP_VOTE, ann.key, group_id, Incarnation(bytes(8)), 1, LinkSeq(1), 1, legitimate
    )
    ann.receive(seal(raw, ann.identity.noise_public, cem.rng(32), cem.rng(24)))
    assert len(ann.store.ahead.of_group(group_id)) == MESSAGES_AHEAD_OF_ONE + 1, "nor are others kept out"
