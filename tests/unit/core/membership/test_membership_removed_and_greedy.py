"""What a removed device, and a member that asks too much, get: nothing that was not theirs before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.crypto import Secret
from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.group.messages import Bundle, pull_to_wire
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq, Place
from covey.core.link.link_keys import LinkKey
from covey.core.link.queued import MessageClass
from covey.core.membership.events import RemovedFromGroup
from covey.core.presence.status import Presence, State
from covey.core.wire.envelope import seal
from covey.core.wire.message import (
    NO_GROUP,
    Loss,
    LossReason,
    MessageType,
    Resumption,
    read_message,
    write_message,
)
from covey.limits.group import BUNDLE_BYTES, PULL_US, PULLS_ANSWERED
from tests.fleet import Device, Make, admit, carry, found


def _say(author: Device, to: Device, kind: MessageType, body: bytes, number: int, group_id: GroupId = NO_GROUP) -> None:
    message = write_message(
        author.identity, kind, to.key, group_id, Incarnation(b"incarnat"), number, LinkSeq(number), 1, body
    )
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


def _remove(remover: Device, target: Device, group_id: GroupId) -> None:
    with remover.store.transaction():
        remover.node.actions.change(group_id, lambda draft, epoch: draft.removing(target.key, epoch), remover.now)


def _own(group: GroupManifest, device: Device) -> Member:
    member = group.member(device.key)
    assert member is not None
    return member


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MessageType.LOSS, Loss(LossReason.EXPIRED, ((1, 1),)).to_wire()),
        (MessageType.RESUME, Resumption(((1, 5),)).to_wire()),
        (MessageType.LINK, LinkKey(DeviceKey(b""), bytes(16), Secret(bytes(32))).to_wire()),
        (MessageType.PRESENCE, Presence(2, State.HERE, 60, (1,)).to_wire()),
    ],
)
def test_a_removed_device_is_not_heard_while_its_farewell_waits(make: Make, kind: MessageType, body: bytes) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    assert ann.node.groups.address(mal.key) is not None
    ann.events()
    _say(mal, ann, kind, body, 0 if kind in {MessageType.RESUME, MessageType.PRESENCE} else 2)
    assert [event.code for event in ann.events() if isinstance(event, EnvelopeDropped)] == ["not_a_member"]
    assert "lost_messages" not in ann.store.counters.values()
    assert b"incarnat" not in dict(ann.store.received.links(mal.key))
    carry(ann, ben, mal)
    assert any(isinstance(event, RemovedFromGroup) for event in mal.events()), "it hears of its removal all the same"
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_a_member_that_pulls_again_and_again_fills_no_outbox(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(1, 1_000):
        _say(ben, ann, MessageType.GROUP_PULL, pull_to_wire(1), number, group_id)
    assert ann.store.outbox.totals()[0] == PULLS_ANSWERED
    assert ann.store.counters.values()["pulls_unanswered"] == 999 - PULLS_ANSWERED
    ann.wait(PULL_US / 1e6)
    _say(ben, ann, MessageType.GROUP_PULL, pull_to_wire(1), 1_000, group_id)
    assert ann.store.outbox.totals()[0] == PULLS_ANSWERED + 1, "who keeps to the pace is answered"


def test_a_newcomers_request_for_what_went_before_is_answered_after_one_of_before_its_restart(make: Make) -> None:
    """It asks further back, and two seconds later for all; unanswered it would take no history for half a minute."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number, version in enumerate((2, 2, 1), 1):
        _say(ben, ann, MessageType.GROUP_PULL, pull_to_wire(version), number, group_id)
    assert ann.store.outbox.totals()[0] == 3
    assert "pulls_unanswered" not in ann.store.counters.values()


def test_answers_for_a_slow_member_are_bounded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.membership.maintenance.BUNDLE_BYTES", 3_000)
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(1, 100):
        ann.wait(PULL_US / 1e6)
        _say(ben, ann, MessageType.GROUP_PULL, pull_to_wire(1), number, group_id)
    size = ann.store.outbox.waiting_bytes(ben.key, MessageClass.CONTROL)
    assert 3_000 < size < 3_000 + BUNDLE_BYTES
    assert size < 6_000


def test_a_device_that_the_removed_make_up_learns_nothing_later(make: Make) -> None:
    ann, ben, mal, dan, zoe = (make(name) for name in ("ann", "ben", "mal", "dan", "zoe"))
    group_id = found(ann, ben, mal)
    with mal.store.transaction():  # it knows nothing of its removal yet, or does not care
        newcomer = Member(dan.identity.keys, "dan")
        mal.node.actions.change(group_id, lambda draft, _: draft.adding(newcomer), mal.now)
    void = [outgoing for outgoing in mal.sends() if outgoing.recipient == ann.key]
    _remove(ann, mal, group_id)
    carry(ann, ben)
    admit(ann, zoe, group_id, ben)
    with ann.store.transaction():
        ann.node.actions.change(
            group_id, lambda draft, _: draft.changing(replace(_own(draft, ann), label="later")), ann.now
        )
    carry(ann, ben, zoe)
    for outgoing in void:
        ann.receive(outgoing.envelope)
    notices = [read_message(raw) for _, raw in ann.store.outbox.queued(dan.key, Place(0), 100, 10_000_000)]
    assert [message.type for message in notices] == [MessageType.GROUP_MANIFEST]
    bundle = Bundle.from_wire(notices[0].body)
    manifests = [read_manifest(raw) for raw in bundle.manifests]
    assert bundle.secrets == ()
    assert manifests
    assert manifests[-1].member(mal.key) is None, "the removal, which says all that it has to hear"
    assert not any(manifest.member(zoe.key) for manifest in manifests)
    assert "later" not in {member.label for manifest in manifests for member in manifest.members}
