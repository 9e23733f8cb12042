"""Secrets of earlier epochs, through `Node`: who is given one, for which file, and what a liar has of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.sqlite.content import ContentState
from covey.core.content.messages import ContentPart, ContentPull
from covey.core.events import EnvelopeDropped
from covey.core.group.messages import SECRET_BYTES
from covey.core.history.files import FileOffer
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.ids import ContentHash, GroupId, Incarnation, LinkSeq, OperationId
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.limits.content import CONTENT_PULL_US, SECRETS_AT_ONCE
from tests.content import opened, put, want
from tests.fleet import Device, admit, carry, found

_CONTENT = bytes(range(256)) * 300


class _Group:
    """Ann put a file while gus was a member; he is removed, so another epoch has begun, and dan came in that one."""

    def __init__(self, folder: Path, *, pinned: bool = True) -> None:
        self.folder = folder
        self.ann, self.ben, gus, self.dan = (Device(name, folder) for name in ("ann", "ben", "gus", "dan"))
        self.group_id: GroupId = found(self.ann, self.ben, gus)
        self.offer = put(self.ann, self.group_id, _CONTENT, folder)
        self.pin(self.ann, pinned=pinned)
        carry(self.ann, self.ben, gus)
        self.epoch = self.ann.node.groups.group(self.group_id).epoch_id
        with self.ann.store.transaction():
            self.ann.node.actions.change(
                self.group_id, lambda draft, epoch_id: draft.removing(gus.key, epoch_id), self.ann.now
            )
        carry(self.ann, self.ben, gus)
        admit(self.ann, self.dan, self.group_id, self.ben)
        self.members = [self.ann, self.ben, self.dan]
        self.settle()

    def settle(self) -> None:
        """Carry what there is, for long enough that histories are alike."""
        for _ in range(4):
            carry(*self.members)
            for device in self.members:
                device.wait(10)
                device.maintain()
        carry(*self.members)

    def pin(self, device: Device, *, pinned: bool = True) -> None:
        with device.store.transaction():
            device.store.content.pin(self.offer.content.hash, pinned=pinned)

    def id_of(self, device: Device, offer: FileOffer) -> OperationId:
        """Return by what a file is offered, as a device knows it."""
        offers = device.store.operations.of_kind(self.group_id, OperationKind.FILE)
        return next(each.id for each in offers if read_operation(each.raw).body == offer.to_wire())

    def ask(self, device: Device) -> None:
        """Have a device ask for the file, and for what it opens by."""
        want(device, self.group_id, self.offer.content, self.ann)
        with device.store.transaction():
            device.store.content.lack(self.offer.content.hash, self.id_of(device, self.offer), device.now.wall_us)
        device.node.content.refresh()

    def has_secret(self, device: Device) -> bool:
        return device.store.groups.secret(self.group_id, self.epoch) is not None

    def say(self, device: Device, to: Device, kind: MessageType, body: bytes) -> None:
        """Have a member say something as no rule would have it."""
        words = device.identity, kind, to.key, self.group_id, Incarnation(b"incarnat"), 0, LinkSeq(0), 0
        to.receive(seal(write_message(*words, body), to.identity.noise_public, device.rng(32), device.rng(24)))


@pytest.fixture
def group(tmp_path: Path) -> _Group:
    return _Group(tmp_path)


@pytest.mark.slow
def test_a_later_member_opens_pinned_files(group: _Group) -> None:
    assert not group.has_secret(group.dan)
    group.ask(group.dan)
    carry(*group.members)
    kept = group.dan.store.content.of(group.offer.content.hash)
    assert kept is not None
    assert kept.state is ContentState.HERE
    assert opened(group.dan, group.group_id, group.offer, group.folder) == _CONTENT
    assert group.dan.node.content.next_deadline() is None, "nothing is asked for any more"


@pytest.mark.slow
def test_nobody_is_given_a_secret_who_has_not_asked_for_a_file_of_it(group: _Group) -> None:
    want(group.dan, group.group_id, group.offer.content, group.ann)
    group.settle()
    assert not group.has_secret(group.dan)


@pytest.mark.slow
def test_a_file_that_is_here_is_enough_to_ask(group: _Group) -> None:
    """As one that came from a stick."""
    want(group.dan, group.group_id, group.offer.content, group.ann)
    carry(*group.members)
    group.ask(group.dan)
    with group.dan.store.transaction():
        author, now = group.ann.key, group.dan.now
        group.dan.store.content.put(group.group_id, author, group.offer.content, now.wall_us)
    group.dan.restart()
    carry(*group.members)
    assert group.has_secret(group.dan)


@pytest.mark.slow
def test_a_later_member_opens_no_file_without_a_pin(tmp_path: Path) -> None:
    group = _Group(tmp_path, pinned=False)
    want(group.ben, group.group_id, group.offer.content, group.ann)
    carry(*group.members)
    group.ask(group.dan)
    carry(*group.members)
    assert not group.has_secret(group.dan)
    group.pin(group.ben)
    for _ in range(8):
        group.dan.wait(2 * CONTENT_PULL_US / 1e6)
        carry(*group.members)
    assert group.has_secret(group.dan)


@pytest.mark.slow
def test_files_that_nobody_has_pinned_do_not_hold_up_one_of_their_epoch_that_is(group: _Group) -> None:
    """Also where more of them were asked for before than are asked for at a time."""
    loose = [
        replace(group.offer, content=replace(group.offer.content, hash=ContentHash(bytes([number] * 32))))
        for number in range(SECRETS_AT_ONCE + 1)
    ]
    with group.ann.store.transaction():
        ids = [group.ann.node.history.write(group.group_id, each, group.ann.now).id for each in loose]
    group.settle()
    for offer, offer_id in zip(loose, ids, strict=True):
        want(group.dan, group.group_id, offer.content, group.ann)
        with group.dan.store.transaction():
            group.dan.store.content.lack(offer.content.hash, offer_id, group.dan.now.wall_us)
    group.dan.wait(1)
    group.ask(group.dan)
    carry(*group.members)
    assert group.has_secret(group.dan)


@pytest.mark.slow
def test_a_member_without_the_whole_file_gives_no_secret(group: _Group) -> None:
    """A pin alone, on what is still to come, is nothing that a member holds."""
    want(group.ben, group.group_id, group.offer.content, group.ann)
    group.pin(group.ben)
    group.ask(group.dan)
    for _ in range(4):
        carry(group.ben, group.dan)
        group.dan.wait(CONTENT_PULL_US / 1e6)
    assert not group.has_secret(group.dan)


@pytest.mark.slow
def test_a_forged_offer_reveals_no_earlier_secret(group: _Group) -> None:
    """Neither for what ann has pinned, nor for what it has of dan's own."""
    own = put(group.dan, group.group_id, b"of dan", group.folder)
    group.settle()
    want(group.ann, group.group_id, own.content, group.dan)
    carry(*group.members)
    with group.ann.store.transaction():
        group.ann.store.content.pin(own.content.hash, pinned=True)
    for content in (group.offer.content, own.content):
        forged = FileOffer("forged", group.offer.file_id, group.epoch, content)
        with group.dan.store.transaction():
            operation = group.dan.node.history.write(group.group_id, forged, group.dan.now)
        group.settle()
        assert group.ann.store.operations.raw(group.group_id, operation.id) is not None, "it is in the history"
        pull = ContentPull(ContentHash(operation.id), 0, SECRET_BYTES).to_wire()
        group.say(group.dan, group.ann, MessageType.CONTENT_PULL, pull)
        [answer] = [each for each in group.ann.sends() if each.lifetime_s is not None]
        group.dan.receive(answer.envelope)
        assert not group.has_secret(group.dan)


@pytest.mark.slow
@pytest.mark.parametrize("content", [bytes(SECRET_BYTES), b"", b"short"], ids=["another", "nothing", "a part"])
def test_a_liar_has_its_turn_and_the_next_member_is_asked(group: _Group, content: bytes) -> None:
    """What is kept is the secret of that epoch, whoever gives it."""
    want(group.ben, group.group_id, group.offer.content, group.ann)
    carry(*group.members)
    group.pin(group.ben)
    want(group.dan, group.group_id, group.offer.content, group.ann)
    carry(*group.members)
    group.ask(group.dan)
    [*group.dan.sends()]  # ann is asked, and lies
    name = ContentHash(group.id_of(group.dan, group.offer))
    group.say(group.ann, group.dan, MessageType.CONTENT_PART, ContentPart(name, 0, content).to_wire())
    codes = [each.code for each in group.dan.events() if isinstance(each, EnvelopeDropped)]
    assert codes == (["wrong_content"] if len(content) == SECRET_BYTES else [])
    assert not group.has_secret(group.dan)
    for _ in range(2):  # who has given something is asked once more
        group.dan.wait(CONTENT_PULL_US / 1e6)
        carry(group.ben, group.dan)
    assert group.has_secret(group.dan)


@pytest.mark.slow
def test_a_secret_that_was_not_asked_of_its_author_is_not_taken(group: _Group) -> None:
    secret = group.ann.store.groups.secret(group.group_id, group.epoch)
    name = ContentHash(group.id_of(group.dan, group.offer))
    group.say(group.ann, group.dan, MessageType.CONTENT_PART, ContentPart(name, 0, secret).to_wire())
    assert not group.has_secret(group.dan)


@pytest.mark.slow
def test_an_offer_that_is_for_some_alone_brings_out_nothing(group: _Group) -> None:
    content = group.offer.content
    for_some = FileOffer("for some", group.offer.file_id, group.epoch, content, sealed_secret=bytes(177))
    with group.ann.store.transaction():
        operation = group.ann.node.history.write(group.group_id, for_some, group.ann.now)
    pull = ContentPull(ContentHash(operation.id), 0, SECRET_BYTES).to_wire()
    group.settle()
    group.say(group.dan, group.ann, MessageType.CONTENT_PULL, pull)
    carry(*group.members)
    assert not group.has_secret(group.dan)


@pytest.mark.slow
def test_a_member_passes_on_a_secret(group: _Group) -> None:
    group.ask(group.dan)
    carry(*group.members)
    group.pin(group.dan)
    eve = Device("eve", group.folder)
    admit(group.ann, eve, group.group_id, *group.members)
    group.members.append(eve)
    group.settle()
    group.ask(eve)
    for _ in range(6):
        carry(group.dan, eve)
        eve.wait(CONTENT_PULL_US / 1e6)
    assert group.has_secret(eve)


@pytest.mark.slow
def test_a_device_that_was_removed_is_given_nothing(group: _Group) -> None:
    group.ask(group.dan)
    [pull] = [each for each in group.dan.sends() if each.lifetime_s is not None and each.recipient == group.ann.key][:1]
    group.ann.receive(pull.envelope)
    with group.ann.store.transaction():
        group.ann.node.actions.change(
            group.group_id, lambda draft, epoch_id: draft.removing(group.dan.key, epoch_id), group.ann.now
        )
    carry(*group.members)
    assert not group.has_secret(group.dan)
