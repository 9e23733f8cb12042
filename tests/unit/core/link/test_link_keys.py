"""`link_keys`: cheap envelopes between devices that have much to say, and never a message less for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import pytest

from covey.core.crypto import NoiseKey, Secret
from covey.core.events import EnvelopeDropped
from covey.core.ids import INCARNATION_BYTES, DeviceKey, GroupId, Incarnation, LinkSeq, Place
from covey.core.link.link_keys import KeptKey, LinkKey, LinkTerms, SendingLinks, open_envelope
from covey.core.link.sealer import NOT_KEPT, Outgoing
from covey.core.presence.status import Presence, State
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading
from covey.core.wire import cbor
from covey.core.wire.envelope import LINKED, SEALED, LinkEnvelope, read_envelope, seal, seal_by_link
from covey.core.wire.message import NO_GROUP, MessageType, read_message, write_message
from covey.core.wire.note import is_note, read_note, write_note
from covey.core.wire.sequences import SequenceSet
from covey.core.wire.short import Implied, ImpliedBatch, is_short, restore, shorten
from covey.core.wire.topics import inbox_topic
from covey.errors import DecryptionError, RemoteError
from covey.limits.group import MAINTENANCE_US
from covey.limits.link import RETRY_US_INITIAL, RETRY_US_MAX
from covey.limits.link_key import (
    LINK_AFTER_ENVELOPES,
    LINK_KEY_KEPT_US,
    LINK_KEY_US,
    LINK_KEYS_KEPT,
    LINK_NOTES_UNANSWERED,
)
from tests.fleet import Device, carry, found, identity
from tests.vectors import load, vectors

_VECTORS = load("link_envelopes")
_KEY, _TAG = bytes.fromhex(_VECTORS["key"]), bytes.fromhex(_VECTORS["tag"])
_TERMS = LinkTerms(after=2, envelopes=16)


class Talker(Device):
    """A device that tends its groups, as the runtime would, and soon has much to say."""

    def sends(self) -> list[Outgoing]:
        self.maintain()
        return super().sends()

    def speaks(self, group_id: GroupId, content: bytes) -> list[Outgoing]:
        """Queue a blob and hand over everything that may go."""
        self.blob(group_id, content)
        return self.sends()


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Talker]:
    return lambda name: Talker(name, tmp_path, terms=_TERMS)


@pytest.fixture
def ann(make: Callable[[str], Talker]) -> Talker:
    return make("ann")


@pytest.fixture
def ben(make: Callable[[str], Talker]) -> Talker:
    return make("ben")


@pytest.fixture
def group_id(ann: Talker, ben: Talker) -> GroupId:
    """Let both have links to each other."""
    group = found(ann, ben)
    for number in range(4):
        ann.blob(group, b"hello %d" % number)
        ben.blob(group, b"hello %d" % number)
        carry(ann, ben)
    return group


def _version(outgoing: Outgoing) -> int:
    return outgoing.envelope[1]


def _codes(device: Device) -> list[str]:
    return [event.code for event in device.events() if isinstance(event, EnvelopeDropped)]


def _keep(device: Device, link: LinkKey) -> None:
    device.store.link_keys.save(KeptKey.of(link, device.key, device.identity.noise.current, device.rng(24)), 1)


def _keys_held(device: Device) -> int:
    [(count,)] = device.store.connection.execute("SELECT count(*) FROM link_key").fetchall()
    return int(count)


@pytest.mark.parametrize("vector", vectors("link_envelopes"))
def test_vectors(vector: dict[str, Any], make: Callable[[str], Talker]) -> None:
    dan = make("dan")
    key = LinkKey(DeviceKey(b"a" * 32), _TAG, Secret(_KEY))
    with dan.store.transaction():
        _keep(dan, key)
    raw = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        message = bytes.fromhex(vector["message"])
        assert seal_by_link(message, _KEY, _TAG, int(vector["counter"])) == raw
        opened = open_envelope(raw, dan.identity, dan.store.link_keys.find)
        assert (opened.message, opened.author, opened.sealed_for) == (message, b"a" * 32, None)
        return
    with pytest.raises(RemoteError) as caught:
        open_envelope(raw, dan.identity, dan.store.link_keys.find)
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("vector", vectors("link_envelopes", "links"))
def test_bodies(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        link = LinkKey.from_wire(DeviceKey(b"a" * 32), body)
        assert (link.tag.hex(), link.key.reveal().hex()) == (vector["tag"], vector["key"])
        assert [each.hex() for each in link.named or ()] == vector["named"]
        assert link.to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        LinkKey.from_wire(DeviceKey(b"a" * 32), body)
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("vector", vectors("link_envelopes", "shorts"))
def test_short_messages(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["bytes"])
    names = [bytes.fromhex(vector[name]) for name in ("author", "recipient", "group", "incarnation")]
    batch = ImpliedBatch(
        *(bytes.fromhex(vector["boot_id"]), vector["monotonic_us"], vector["wall_us"]), bytes.fromhex(vector["names"])
    )
    implied = replace(Implied.from_bytes(b"".join(names)), batch=batch)
    assert Implied.from_bytes(implied.to_bytes()) == implied
    assert is_short(raw) or vector["code"] is not None
    if vector["code"] is None:
        message = restore(raw, implied)
        assert message.hex() == vector["message"]
        assert shorten(message, implied) == raw
        assert read_message(message).author == implied.author
        return
    with pytest.raises(RemoteError) as caught:
        read_message(restore(raw, implied))
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("vector", vectors("link_envelopes", "notes"))
def test_notes(vector: dict[str, Any]) -> None:
    raw, author, recipient = bytes.fromhex(vector["bytes"]), DeviceKey(b"a" * 32), DeviceKey(b"r" * 32)
    if vector["code"] is None:
        message = read_note(raw, author, recipient)
        assert (message.author, message.recipient, message.link_seq) == (author, recipient, 0)
        assert [message.type, message.group_id.hex(), message.body.hex()] == [
            vector[name] for name in ("type", "heads", "body")
        ]
        assert is_note(raw)
        return
    with pytest.raises(RemoteError) as caught:
        read_note(raw, author, recipient)
    assert caught.value.code == vector["code"]


def _acknowledgements(author: Device, recipient: Device) -> list[tuple[bytes, bytes]]:
    """Return (envelope, plaintext) of the acknowledgements that a device sends."""
    sent = [each.envelope for each in author.sends() if each.entry is None]
    opened = [open_envelope(raw, recipient.identity, recipient.store.link_keys.find).message for raw in sent]
    return [
        (envelope, plain)
        for envelope, plain in zip(sent, opened, strict=True)
        if (read_note(plain, author.key, recipient.key) if is_note(plain) else read_message(plain)).type
        is MessageType.ACK
    ]


def test_an_acknowledgement_under_a_link_key_is_short_and_frees(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    ben.wait(RETRY_US_MAX / 1e6)  # it does not repeat imprints for a start any more
    ben.receive(ann.speaks(group_id, b"one more")[0].envelope)
    ben.wait(1)
    [(envelope, plain)] = _acknowledgements(ben, ann)
    assert is_note(plain)
    assert len(envelope) <= 76
    assert 2 + 2 + len(inbox_topic(ann.key)) + 1 + len(envelope) <= 130, "as MQTT brings it"
    ann.receive(envelope)
    assert ann.store.outbox.totals()[0] == 0


def test_the_relay_keeps_acknowledgements_that_name_several_messages(
    ann: Talker, ben: Talker, group_id: GroupId
) -> None:
    """One message goes again where its acknowledgement is lost; several would cost more than the relay's PUBACKs."""
    ben.wait(RETRY_US_MAX / 1e6)
    for count, lifetime_s in ((1, NOT_KEPT), (8, 0)):
        for number in range(count):
            ben.receive(ann.speaks(group_id, b"message %d" % number)[0].envelope)
        ben.wait(1)
        [acknowledgement] = [each for each in ben.sends() if each.kind is MessageType.ACK]
        assert acknowledgement.lifetime_s == lifetime_s
        ann.receive(acknowledgement.envelope)


def test_an_acknowledgement_without_a_link_key_is_signed(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group = found(ann, ben)
    ann.blob(group, b"hello")
    ben.receive(ann.sends()[0].envelope)
    ben.wait(1)
    [(_, plain)] = _acknowledgements(ben, ann)
    assert read_message(plain).author == ben.key


def test_a_note_is_taken_for_its_types_alone_and_under_a_link_key_alone(
    ann: Talker, ben: Talker, group_id: GroupId
) -> None:
    """What has to be proved to others is signed: a blob as a note is dropped, and a note in a sealed envelope."""
    with ben.store.transaction():
        _keep(ben, LinkKey(ann.key, b"t" * 8, Secret(_KEY)))
    blob = cbor.encode([int(MessageType.BLOB), group_id[:20], b"unsigned"])
    ben.receive(seal_by_link(blob, _KEY, b"t" * 8, 1))
    assert _codes(ben) == ["unsupported"]
    note = write_note(MessageType.PRESENCE, NO_GROUP, Presence(2, State.HERE, 60, (1,)).to_wire())
    ben.receive(seal(note, ben.identity.noise.current.public, ben.rng(32), ben.rng(24)))
    assert _codes(ben) == ["malformed"]
    assert b"unsigned" not in ben.inbox()


def test_one_heartbeat_in_four_is_sealed(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    """A recipient that has lost the key hears of its author nevertheless."""
    address, heads = ben.identity.noise.current.public, NO_GROUP
    ann.speaks(group_id, b"a link is in use")
    forms = [
        ann.node._sealer.about_link(ben.key, MessageType.PRESENCE, b"", address, ann.now, heads=heads).envelope[1]
        for _ in range(LINK_NOTES_UNANSWERED)
    ]
    assert forms == [LINKED] * (LINK_NOTES_UNANSWERED - 1) + [SEALED]


def test_no_key_is_shown() -> None:  # accepts: 002.32
    assert _KEY.hex() not in repr(LinkKey(DeviceKey(b"a" * 32), _TAG, Secret(_KEY)))
    assert repr(_KEY)[2:-1] not in repr(LinkKey(DeviceKey(b"a" * 32), _TAG, Secret(_KEY)))


def test_a_link_begins_with_the_eighth_envelope_and_not_before_it_is_acknowledged(tmp_path: Path) -> None:
    ann, ben = Talker("ann", tmp_path), Talker("ben", tmp_path)
    group = found(ann, ben)
    first = ann.node.state.link_keys._sealed[ben.key][0]
    for number in range(LINK_AFTER_ENVELOPES - first):
        carry(ann, ben)
        assert not ann.node.state.link_keys.wanted
        assert [_version(each) for each in ann.speaks(group, b"%d" % number)] == [SEALED]
    assert ann.node.state.link_keys.wanted
    [repeated, link] = [*ann.sends(), *ann.speaks(group, b"while the key is under way")]
    assert [_version(repeated), _version(link)] == [SEALED, SEALED]
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, ben)
    assert [_version(each) for each in ann.speaks(group, b"now")] == [LINKED]
    ann.wait(3 * RETRY_US_INITIAL / 1e6)  # the first round trip was a whole retry time
    carry(ann, ben)
    assert ann.store.outbox.totals() == (0, 0)


def test_a_device_that_is_not_there_gets_no_key(make: Callable[[str], Talker], ann: Talker) -> None:
    group = found(ann, make("ben"))
    ann.restart()
    for number in range(20):
        ann.speaks(group, b"%d" % number)
    assert ann.store.outbox.totals()[0] == 20


def test_a_device_that_only_acknowledges_gets_a_key(ann: Talker, ben: Talker) -> None:
    group = found(ann, ben)
    ann.restart()
    for number in range(6):
        ann.blob(group, b"%d" % number)
        carry(ann, ben)
    assert [_version(each) for each in ann.speaks(group, b"by link")] == [LINKED]


def test_link_envelopes_and_their_acknowledgements_arrive(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    [first] = ann.speaks(group_id, b"by link")
    [second] = ann.speaks(group_id, b"by the same")
    one, two = read_envelope(first.envelope), read_envelope(second.envelope)
    assert isinstance(one, LinkEnvelope)
    assert isinstance(two, LinkEnvelope)
    assert (one.tag, one.counter + 1) == (two.tag, two.counter)
    for each in (first, second):
        ben.receive(each.envelope)
    ben.wait(1)
    [acknowledgement] = ben.sends()
    assert _version(acknowledgement) == LINKED
    ann.receive(acknowledgement.envelope)
    assert ann.store.outbox.totals() == (0, 0)
    assert ben.inbox()[-2:] == [b"by link", b"by the same"]
    assert not _codes(ann)
    assert not _codes(ben)


def test_a_repeated_message_is_sealed_and_ends_the_link_key(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    [lost] = ann.speaks(group_id, b"lost")
    ann.wait(RETRY_US_INITIAL / 1e6)
    [repeated] = ann.sends()
    assert [_version(lost), _version(repeated)] == [LINKED, SEALED]
    ben.receive(repeated.envelope)
    ben.wait(1)
    for answer in ben.sends():
        ann.receive(answer.envelope)
    uncertain = [each for each in ann.speaks(group_id, b"in doubt") if each.entry]
    assert [_version(each) for each in uncertain] == [SEALED, SEALED]
    kinds = [read_message(each.entry.message).type for each in uncertain if each.entry]
    assert kinds == [MessageType.LINK, MessageType.BLOB], "the key's successor is begun at the first failure"
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, ben)
    for number in range(4):
        ann.blob(group_id, b"%d" % number)
        carry(ann, ben)
    assert [_version(each) for each in ann.speaks(group_id, b"a new key")] == [LINKED]


def test_keys_that_fail_before_they_have_paid_are_begun_ever_later(ann: Talker, ben: Talker) -> None:
    """On a crowded relay, where everything is repeated, keys would fail as fast as they are given."""
    links = SendingLinks(ann.key, ann.rng, _TERMS)
    links.note_seen(ben.key)
    address, message = ben.identity.noise.current.public, b"an acknowledgement"
    places = itertools.count(1)

    def give() -> int:
        """Return how many envelopes were sealed until a key was wanted, and let it be in use."""
        sealed = 0
        while not links.wanted:
            sealed += 1
            assert links.seal(ben.key, message, address, 0) is None
        assert list(links.take_wanted()) == [ben.key]
        place = Place(next(places))
        links.begin(ben.key, links.draw(ben.key, Incarnation(b"i" * INCARNATION_BYTES)), address, place, 0)
        links.acknowledged(ben.key, SequenceSet().add(place))
        return sealed

    def fail_after(envelopes: int) -> None:
        for _ in range(envelopes):
            assert links.seal(ben.key, message, address, 0) is not None
        links.fail(ben.key, links.tag(ben.key))

    assert give() == _TERMS.after
    for doubled in (1, 2, 3, 4, 5, 6, 6):
        fail_after(_TERMS.after - 1)
        assert give() == _TERMS.after << doubled
    fail_after(_TERMS.after)
    assert give() == 0, "one that had paid has its successor at once"
    fail_after(_TERMS.after - 1)
    assert give() == _TERMS.after << 1, "and the doubling begins anew"


def test_a_recipient_that_has_lost_its_keys_is_reached_all_the_same(
    ann: Talker, ben: Talker, group_id: GroupId
) -> None:
    with ben.store.transaction():
        ben.store.link_keys.forget(lambda _: False, set(), ben.now.wall_us)
    ann.blob(group_id, b"unreadable at first")
    carry(ann, ben)
    assert _codes(ben) == ["decryption"]
    assert ann.store.outbox.totals()[0] == 1
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, ben)
    assert ben.inbox()[-1] == b"unreadable at first"
    assert ann.store.outbox.totals() == (0, 0)


def test_an_acknowledgement_that_did_not_open_is_sealed_when_it_is_asked_for_again(
    ann: Talker, ben: Talker, group_id: GroupId
) -> None:
    with ann.store.transaction():
        ann.store.link_keys.forget(lambda _: False, set(), ann.now.wall_us)
    ann.blob(group_id, b"acknowledged in vain")
    carry(ann, ben)
    assert _codes(ann) == ["decryption"]
    assert ann.store.outbox.totals()[0] == 1
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, ben)
    assert ann.store.outbox.totals() == (0, 0)


def test_a_repetition_by_the_relay_alone_ends_nothing(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    [outgoing] = ann.speaks(group_id, b"twice")
    ben.receive(outgoing.envelope)
    carry(ann, ben)
    ben.receive(outgoing.envelope)
    ben.wait(1)
    assert [_version(each) for each in ben.sends()] == [LINKED]


@pytest.mark.parametrize("who", ["ann", "ben"])
def test_a_restart_of_either_side(ann: Talker, ben: Talker, group_id: GroupId, who: str) -> None:
    [before] = ann.speaks(group_id, b"before")
    {"ann": ann, "ben": ben}[who].restart()
    ben.receive(before.envelope)
    seen = {(envelope.tag, envelope.counter) for envelope in [read_envelope(before.envelope)] if _linked(envelope)}
    for number in range(12):
        for outgoing in ann.speaks(group_id, b"%d" % number):
            envelope = read_envelope(outgoing.envelope)
            if _linked(envelope):
                assert (envelope.tag, envelope.counter) not in seen
                seen.add((envelope.tag, envelope.counter))
            ben.receive(outgoing.envelope)
        carry(ann, ben)
    assert len(seen) > 1
    assert len(ben.inbox()) == len(set(ben.inbox()))
    assert {b"before", *(b"%d" % number for number in range(12))} <= set(ben.inbox())
    assert ann.store.outbox.totals() == (0, 0)
    assert not _codes(ben)


def _linked(envelope: object) -> TypeGuard[LinkEnvelope]:
    return isinstance(envelope, LinkEnvelope)


@pytest.mark.slow
def test_keys_change_with_volume_and_nothing_waits_for_it(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    tags: dict[bytes, int] = {}
    for number in range(5 * _TERMS.envelopes):
        for outgoing in ann.speaks(group_id, b"%d" % number):
            envelope = read_envelope(outgoing.envelope)
            if isinstance(envelope, LinkEnvelope):
                tags[envelope.tag] = tags.get(envelope.tag, 0) + 1
            ben.receive(outgoing.envelope)
        carry(ann, ben)
    assert len(tags) >= 5
    assert max(tags.values()) <= _TERMS.envelopes
    assert sum(tags.values()) >= 4 * _TERMS.envelopes
    assert _keys_held(ben) == LINK_KEYS_KEPT
    assert len(ben.inbox()) == 4 + 5 * _TERMS.envelopes


def test_keys_change_with_time(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    ann.wait(LINK_KEY_US / 1e6)
    assert [_version(each) for each in ann.speaks(group_id, b"late")] == [SEALED]


def test_the_message_of_another_author_does_not_come_by_a_link(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    """Who has a link may not carry in it what somebody else has signed."""
    cem = identity("cem")
    with ben.store.transaction():
        _keep(ben, LinkKey(cem.signing_public, b"t" * 8, Secret(_KEY)))
    body = b"by ann, not by cem"
    message = write_message(
        ann.identity, MessageType.BLOB, ben.key, group_id, Incarnation(b"incarnat"), 9, LinkSeq(9), 1, body
    )
    ben.receive(seal_by_link(message, _KEY, b"t" * 8, 1))
    assert _codes(ben) == ["decryption"]
    assert body not in ben.inbox()


def test_a_tag_in_use_stays_its_authors(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    [outgoing] = ann.speaks(group_id, b"mine")
    envelope = read_envelope(outgoing.envelope)
    assert isinstance(envelope, LinkEnvelope)
    with ben.store.transaction():
        _keep(ben, LinkKey(DeviceKey(b"c" * 32), envelope.tag, Secret(_KEY)))
    ben.receive(outgoing.envelope)
    assert ben.inbox()[-1] == b"mine"


def test_a_key_that_was_not_sealed_is_not_kept(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    held = _keys_held(ben)
    [outgoing] = ann.speaks(group_id, b"this shows the key's tag")
    envelope = read_envelope(outgoing.envelope)
    assert isinstance(envelope, LinkEnvelope)
    kept = ben.store.link_keys.find(envelope.tag)
    assert kept is not None
    key, _ = kept.key(ben.identity.noise)
    body = LinkKey(ann.key, b"n" * 8, Secret(_KEY)).to_wire()
    message = write_message(
        ann.identity, MessageType.LINK, ben.key, NO_GROUP, Incarnation(b"incarnat"), 1, LinkSeq(1), 1, body
    )
    ben.receive(seal_by_link(message, key, envelope.tag, 1_000))
    assert _keys_held(ben) == held
    assert not _codes(ben)


def test_strangers_give_no_keys(make: Callable[[str], Talker], ben: Talker, group_id: GroupId) -> None:
    eve = make("eve")
    held = _keys_held(ben)
    body = LinkKey(eve.key, b"n" * 8, Secret(_KEY)).to_wire()
    message = write_message(
        eve.identity, MessageType.LINK, ben.key, NO_GROUP, Incarnation(b"incarnat"), 1, LinkSeq(1), 1, body
    )
    ben.receive(seal(message, ben.identity.noise.current.public, eve.rng(32), eve.rng(24)))
    assert _codes(ben) == ["not_a_member"]
    assert _keys_held(ben) == held


def test_keys_go_with_the_group(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    assert _keys_held(ann)
    with ann.store.transaction():
        ann.node.actions.leave(group_id, ann.now)
    carry(ann, ben)
    for device in (ann, ben):
        device.wait(MAINTENANCE_US / 1e6)
        device.sends()
        assert not _keys_held(device)
        assert not device.node.state.link_keys._used


def test_keys_go_with_time_and_with_the_noise_key(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    held = _keys_held(ben)
    with ben.store.transaction():
        ben.node._forget_link_keys(ben.now)
    assert _keys_held(ben) == held
    ben.identity.noise.take((NoiseKey.of(bytes(range(32))),))
    ben.wait(MAINTENANCE_US / 1e6)
    ben.sends()
    assert not _keys_held(ben)
    ann.wait(LINK_KEY_KEPT_US / 1e6)
    ann.sends()
    assert not _keys_held(ann)


def test_keys_lie_under_the_noise_key_and_leave_nothing_when_they_go(
    ann: Talker, ben: Talker, group_id: GroupId
) -> None:  # accepts: 002.38
    [outgoing] = ann.speaks(group_id, b"x")
    envelope = read_envelope(outgoing.envelope)
    assert isinstance(envelope, LinkEnvelope)
    kept = ben.store.link_keys.find(envelope.tag)
    assert kept is not None
    assert kept.key(ben.identity.noise)[0] not in kept.sealed
    with pytest.raises(DecryptionError):
        kept.key(ann.identity.noise)
    with ben.store.transaction():
        ben.store.link_keys.forget(lambda _: False, set(), ben.now.wall_us)
    ben.store.close()
    assert kept.sealed not in ben.path.read_bytes()
    ben.restart()


def test_another_noise_key_begins_another_link(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    ben.identity.noise.take((NoiseKey.of(bytes(range(32))), *ben.identity.noise.keys))
    with ben.store.transaction():
        ben.node.actions.rotate_noise_key(ben.now)
    carry(ann, ben)
    [outgoing] = ann.speaks(group_id, b"sealed to the new key")
    assert _version(outgoing) == SEALED
    ben.identity.noise.take(ben.identity.noise.keys[:1])
    ben.receive(outgoing.envelope)
    assert ben.inbox()[-1] == b"sealed to the new key"


def test_a_full_disk_begins_no_link(ann: Talker, ben: Talker) -> None:
    group = found(ann, ben)
    ann.restart()
    ben.blob(group, b"here I am")
    carry(ann, ben)
    for number in range(4):
        ann.blob(group, b"%d" % number)
        Device.sends(ann)
    assert ann.node.state.link_keys.wanted
    ann.on_a_full_disk(lambda: ann.node.maintain(ann.now))
    assert not ann.node.state.link_keys.wanted
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, ben)
    assert ben.inbox() == [b"0", b"1", b"2", b"3"]


def test_files_and_answers_by_hand_are_sealed(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    ann.blob(group_id, b"on a stick")
    characters = [envelope for _, envelope in ann.node.export.waiting(ben.key, Place(0))] + list(
        ann.node.export.answers_for(ben.key, ann.now)
    )
    assert {envelope[1] for envelope in characters} == {SEALED}


def test_an_unknown_tag_looks_like_a_damaged_envelope(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    [outgoing] = ann.speaks(group_id, b"x")
    damaged = outgoing.envelope[:-1] + bytes([outgoing.envelope[-1] ^ 1])
    unknown = seal_by_link(b"x", _KEY, b"u" * 8, 1)
    said = set()
    for raw in (damaged, unknown):
        with pytest.raises(DecryptionError) as caught:
            open_envelope(raw, ben.identity, ben.store.link_keys.find)
        said.add(str(caught.value))
    assert len(said) == 1


def test_messages_under_a_key_leave_out_what_it_implies(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    [outgoing] = ann.speaks(group_id, b"21.5")
    assert _version(outgoing) == LINKED
    assert len(outgoing.envelope) <= 160 - 15  # an MQTT header and a topic alias come on top
    ben.receive(outgoing.envelope)
    assert b"21.5" in ben.inbox()


def test_a_message_of_another_group_goes_whole(ann: Talker, ben: Talker, group_id: GroupId) -> None:
    other = found(ann, ben)
    carry(ann, ben)
    sent = ann.speaks(other, b"of another group")
    assert [_version(each) for each in sent] == [LINKED]
    assert len(sent[0].envelope) > 200
    ben.receive(sent[0].envelope)
    assert not _codes(ben)
    assert b"of another group" in ben.inbox()


@pytest.mark.parametrize("size", [0, 1, 66, 67, 68, 69])
def test_what_only_begins_like_a_short_message_is_refused(size: int) -> None:
    raw = (b"\x86\x58\x40" + bytes(64) + b"\x18\x18")[:size]
    with pytest.raises(RemoteError):
        read_message(restore(raw, Implied.from_bytes(bytes(104))))


class _Measurer:
    """A device that measures, and a collector that lands at once: what goes is returned as it was written."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.hub = (Talker(name, folder, terms=_TERMS) for name in ("ann", "hub"))
        self.hub.nodes.collects = True
        self.hub.restart()
        self.group_id = found(self.ann, self.hub)

    def measures(self, *names: str, boot_id: bytes = bytes(8)) -> tuple[bytes, bytes]:
        """Send a batch; return (plaintext of its envelope, message that the collector has)."""
        ann, hub = self.ann, self.hub
        builder = BatchBuilder()
        for name in names:
            builder.add(name, "Cel", 0, 21.5)
        clock = ClockReading(boot_id, ann.now.monotonic_us, ann.now.wall_us, ClockKind.SYNCHRONISED)
        ann.batch(self.group_id, builder.body(clock))
        sent = [each for each in ann.sends() if each.entry is not None]
        plain = next(_plain(each.envelope, hub) for each in sent if _is_telemetry(each))
        for each in sent:
            hub.receive(each.envelope)
        landed = b""
        for waiting in hub.store.landing.until(1_000):
            landed = waiting.message
            hub.node.landing.landed(ann.key, waiting.incarnation, {waiting.link_seq}, hub.now)
        for device in (ann, hub):
            device.wait(1)
        carry(ann, hub)
        return plain, landed


def _is_telemetry(outgoing: Outgoing) -> bool:
    return outgoing.entry is not None and read_message(outgoing.entry.message).type is MessageType.TELEMETRY


def _plain(envelope: bytes, recipient: Device) -> bytes:
    """Return what is in an envelope, short if it is."""
    parsed = read_envelope(envelope)
    if isinstance(parsed, LinkEnvelope):
        kept = recipient.store.link_keys.find(parsed.tag)
        assert kept is not None
        return parsed.open(kept.key(recipient.identity.noise)[0])
    return parsed.open(recipient.identity.noise.current.secret.reveal())


def test_names_stay_at_home_once_a_link_key_implies_them(tmp_path: Path) -> None:
    world = _Measurer(tmp_path)
    for _ in range(6):
        plain, landed = world.measures("shed/north/temperature", "shed/south/temperature")
        assert b"shed/north/temperature" in landed, "a vault has all that it needs"
    assert is_short(plain)
    assert b"temperature" not in plain
    plain, landed = world.measures("shed/south/temperature")
    assert b"temperature" not in plain
    assert b"shed/south/temperature" in landed
    assert b"shed/north/temperature" not in landed


def test_a_series_that_a_link_key_does_not_imply_is_spelled_until_the_next_key(tmp_path: Path) -> None:
    world = _Measurer(tmp_path)
    for _ in range(6):
        world.measures("indoors")
    plain, landed = world.measures("indoors", "outdoors")
    assert b"outdoors" in plain
    assert b"indoors" not in plain
    assert b"outdoors" in landed
    world.ann.wait(LINK_KEY_US / 1e6 / 8)
    for _ in range(4):
        plain, _ = world.measures("indoors", "outdoors")
    assert b"outdoors" not in plain


def test_a_batch_of_another_boot_goes_with_its_names(tmp_path: Path) -> None:
    world = _Measurer(tmp_path)
    for _ in range(6):
        world.measures("indoors")
    plain, landed = world.measures("indoors", boot_id=b"rebooted")
    assert b"indoors" in plain
    assert b"rebooted" in landed
