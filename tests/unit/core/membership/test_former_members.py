"""Devices that were removed: who tells them so, whoever removed them is gone, and what they set going besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.messages import Bundle
from covey.core.history.bodies import Note
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.membership import former_members
from covey.core.membership.events import InviteRequested, RemovedFromGroup
from covey.core.wire.envelope import seal
from covey.core.wire.heads import GroupHead
from covey.core.wire.message import UNKNOWN_TYPE, MessageType, write_message
from covey.limits.heads import FORMER_LOOK_SECONDS, FORMER_LOOKS_SAVED
from tests.examples import parameters
from tests.fleet import Device, Make, carry, found
from tests.stolen import Stolen, acknowledge, meet, members_of, queued, remove, rename, report

_HOUR_S = 3_600


@pytest.mark.slow
def test_any_member_tells_a_device_of_its_removal(make: Make) -> None:
    """Whoever removed it tells it; but that one's state may be lost, or an earlier one restored."""
    world = Stolen(make)
    report(world.mal, world.ben, *world.mal.node.heads.report(world.ben.key).heads)
    meet(world.ben, world.mal)
    assert world.mal.node.groups.joined() == []
    assert world.ben.store.outbox.totals()[0] == len(queued(world.ben, world.sam) + queued(world.ben, world.ann))
    world.ben.wait(_HOUR_S)
    world.ben.maintain()
    assert world.ben.node.groups.address(world.mal.key) is None, "it knows, and is spoken to no more"


@pytest.mark.slow
def test_a_removed_devices_messages_cause_nothing_else(make: Make) -> None:
    world = Stolen(make)
    ben, mal = world.ben, world.mal
    for number in range(100):
        acknowledge(mal, ben, GroupId(bytes([number + 1]) * 32))
        report(mal, ben, GroupHead(world.group_id, 1 + number, bytes([number]) * 16), asks=True)
    assert not [each for each in meet(ben, seconds=1) if each.recipient == mal.key and each.entry is None]
    assert queued(ben, mal) == [MessageType.GROUP_MANIFEST], "the news of its removal, once"
    assert mal.key not in ben.store.heads.seen_at()


def test_a_stranger_receives_no_notice(make: Make) -> None:
    world, stranger = Stolen(make), make("stranger")
    ben = world.ben
    for version in range(1, 9):
        report(stranger, ben, GroupHead(world.group_id, version, b"heads".ljust(16)), asks=True)
    assert queued(ben, stranger) == []
    assert ben.node.groups.address(stranger.key) is None


def test_only_so_much_is_read_for_who_was_removed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that, it is told nothing, as it is where nothing is found: no report costs more than the bound says."""
    world = Stolen(make)
    ben, mal = world.ben, world.mal
    monkeypatch.setattr(former_members, "FORMER_LOOK_BYTES", 1)
    report(mal, ben, *mal.node.heads.report(ben.key).heads)
    assert queued(ben, mal) == []
    monkeypatch.undo()
    ben.wait(FORMER_LOOK_SECONDS)
    report(mal, ben, *mal.node.heads.report(ben.key).heads)
    assert queued(ben, mal) == [MessageType.GROUP_MANIFEST]


@pytest.mark.slow
def test_only_so_many_reports_of_strangers_are_looked_at(make: Make) -> None:
    """Each costs the reading of manifests; who was removed is told all the same, when its next one comes."""
    world = Stolen(make)
    ben, mal = world.ben, world.mal
    for number in range(3 * FORMER_LOOKS_SAVED):
        report(make(f"stranger {number}"), ben, GroupHead(world.group_id, 1, b"heads".ljust(16)), asks=True)
    codes = [event.code for event in ben.events() if isinstance(event, EnvelopeDropped)]
    assert codes == ["not_a_member"] * FORMER_LOOKS_SAVED + ["rate"] * 2 * FORMER_LOOKS_SAVED
    ben.wait(2 * FORMER_LOOK_SECONDS)
    report(mal, ben, *mal.node.heads.report(ben.key).heads)
    assert queued(ben, mal) == [MessageType.GROUP_MANIFEST]


def test_a_removed_device_learns_of_its_removal_from_any_member_and_nothing_later(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id, other = found(ann, ben, mal), found(ben, mal)
    remove(ann, mal, group_id)
    carry(ann, ben)
    removal: GroupManifest = ben.node.groups.group(group_id)
    with ben.store.transaction():
        member = removal.member(ben.key)
        assert member is not None
        changed = replace(member, label="later")
        ben.node.actions.change(group_id, lambda draft, _: draft.changing(changed), ben.now)
    for device in (ben, mal):
        device.compares_on_contact_only()
    mal.blob(other, b"hello")
    meet(ben, mal)
    assert any(isinstance(event, RemovedFromGroup) for event in mal.events())
    assert [group.group_id for group in mal.node.groups.joined()] == [other]
    held = [read_manifest(raw).version for raw in mal.store.groups.manifests_from(group_id, 1)]
    assert max(held) == removal.version
    assert mal.store.groups.secret(group_id, removal.epoch_id) is None


def test_a_device_that_passes_its_removal_on_is_answered_by_members_that_have_heard_of_it(make: Make) -> None:
    """They share another group; without an answer it would send the manifest again and again."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    found(ben, mal)
    remove(ann, mal, group_id)
    carry(ann, ben, mal)
    removal = Bundle((ben.node.groups.group(group_id).raw,), ())
    with mal.store.transaction():
        mal.node._queue.queue(ben.key, MessageType.GROUP_MANIFEST, group_id, removal.to_wire(), mal.now)
    assert queued(mal, ben) == [MessageType.GROUP_MANIFEST]
    meet(ben, mal)
    assert queued(mal, ben) == []


def test_a_removed_device_that_holds_a_rival_of_its_removal_is_notified(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    remove(ann, cid, group_id)
    carry(ann, ben)
    for label in ("one", "two", "three"):
        rename(cid, group_id, label)
    held = cid.node.groups.group(group_id)
    report(cid, ben, GroupHead(group_id, held.version, b"heads".ljust(16)), asks=True)
    meet(ben, cid)
    assert cid.node.groups.joined() == []


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 20])
def test_members_of_another_shared_group_notify_a_removed_device_that_is_not_behind(make: Make, ahead: int) -> None:
    """It was restored to before its removal, and has issued as many versions since as the others, or many more."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id, other = found(ann, ben, cid), found(ben, cid)
    remove(ann, cid, group_id)
    carry(ann, ben)
    removal = ben.node.groups.group(group_id)
    rename(ben, group_id, "what comes later is nothing for who was removed")
    for number in range(2 * ahead):
        rename(cid, group_id, f"{number}")
    assert cid.node.groups.group(group_id).version >= ben.node.groups.group(group_id).version
    for device in (ben, cid):
        device.compares_on_contact_only()
    cid.blob(other, b"hello")
    meet(ben, cid)
    assert [group.group_id for group in cid.node.groups.joined()] == [other]
    by_others = [read_manifest(raw) for raw in cid.store.groups.manifests_from(group_id, removal.version)]
    assert [each.hash for each in by_others if each.issuer != cid.key] == [removal.hash]
    assert queued(ben, cid) == [], "once is enough"


@pytest.mark.slow
def test_a_removed_device_on_a_long_branch_receives_all_manifests_of_the_others(make: Make) -> None:
    """It cannot place its removal without what that follows, and gets no answer when it asks for that."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id, other = found(ann, ben, cid), found(ben, cid)
    for number in range(3):
        rename(ann, group_id, f"ann {number}")
        rename(cid, group_id, f"cid {number}")
    remove(ann, cid, group_id)
    carry(ann, ben)
    for _ in range(3):
        report(cid, ben, *cid.node.heads.report(ben.key).heads)
        meet(ben, cid, seconds=40)
    assert [group.group_id for group in cid.node.groups.joined()] == [other]


def test_a_removed_device_owes_nobody_word_of_that(make: Make) -> None:
    """What its lost life had issued comes back to a restored device in one bundle with its removal."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    copy = ben.copy_state()
    with ben.store.transaction():
        own = ben.node.groups.group(group_id).member(ben.key)
        assert own is not None
        renamed = replace(own, label="of a life that is lost")
        ben.node.actions.change(group_id, lambda draft, _: draft.changing(renamed), ben.now)
    carry(ann, ben)
    ben.stop()
    ben.return_to(copy)
    remove(ann, ben, group_id)
    bundle = Bundle(tuple(ann.store.groups.manifests_from(group_id, 1)))
    with ben.store.transaction():
        ben.node.membership.take(group_id, bundle.manifests, ben.now.wall_us)
    assert ben.node.groups.joined() == []
    assert not ben.node.groups.addresses.notifies(ann.key)


def test_the_secret_of_a_manifest_that_a_removed_device_brings_is_asked_of_the_others(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    remove(ann, cid, group_id)
    carry(ann, cid)
    removal = ann.node.groups.group(group_id)
    body, fresh = Bundle((removal.raw,)).to_wire(), Incarnation(b"anotherx")
    message = write_message(
        cid.identity, MessageType.GROUP_MANIFEST, ben.key, group_id, fresh, 1, LinkSeq(1), cid.now.wall_us, body
    )
    ben.receive(seal(message, ben.identity.noise_public, cid.rng(32), cid.rng(24)))
    assert members_of(ben, group_id) == {ann.key, ben.key}
    with ann.store.transaction():
        ann.node._queue.forget(ben.key)  # the issuer's own message is lost with its state
    for _ in range(8):
        ben.wait(60)
        ben.maintain()
        carry(ben, ann)
    assert ben.node.groups.secret(group_id) == ann.node.groups.secret(group_id) is not None


@pytest.mark.slow
def test_what_a_removed_device_still_had_to_send_reaches_nobody_and_stops_nothing_in_another_group(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id, other = found(ann, ben, mal), found(ben, mal)
    carry(ann, ben, mal)
    remove(ann, mal, group_id)
    carry(ann, ben)
    before = ben.store.operations.count(group_id)
    mal.blob(group_id, b"too late")
    with mal.store.transaction():
        mal.node.history.write(group_id, Note("text/plain", b"too late"), mal.now)
    mal.blob(other, b"hello")
    meet(ben, mal, seconds=2 * _HOUR_S)
    assert ben.inbox() == [b"hello"]
    assert ben.store.operations.count(group_id) == before
    assert [group.group_id for group in mal.node.groups.joined()] == [other], "it learned of its removal from ben"
    assert mal.store.outbox.totals() == (0, 0), "nothing is sent for ever"


@pytest.mark.parametrize("kind", parameters((each for each in MessageType if each is not UNKNOWN_TYPE), quick=8))
def test_no_kind_of_message_by_a_removed_device_changes_anything_in_its_former_group(
    make: Make, kind: MessageType
) -> None:
    """It shares another group with the recipient, so it is no stranger; only its request for an invite is shown."""
    ann, ben, mal = make("ann"), make("ben", collects=True), make("mal")
    group_id = found(ann, ben, mal)
    found(ben, mal)
    remove(ann, mal, group_id)
    carry(ann, ben)
    ben.events()
    manifest, operations, inbox, outbox = _state(ben, group_id)
    for number in (0, 1):  # with and without a number; a kind that may not have the one is refused as malformed
        message = write_message(
            mal.identity, kind, ben.key, group_id, Incarnation(b"incarnat"), number, LinkSeq(number), 5, b"\x80"
        )
        ben.receive(seal(message, ben.identity.noise_public, mal.rng(32), mal.rng(24)))
    assert _state(ben, group_id) == (manifest, operations, inbox, outbox)
    happened = [each for each in ben.events() if not isinstance(each, EnvelopeDropped)]
    assert [type(each) for each in happened] == [InviteRequested] * (kind is MessageType.INVITE_REQUEST)


def _state(device: Device, group_id: GroupId) -> tuple[bytes, int, list[bytes], tuple[int, int]]:
    manifest = device.node.groups.group(group_id).hash
    return manifest, device.store.operations.count(group_id), device.inbox(), device.store.outbox.totals()
