"""Ephemeral messages, through `Node`: who hears them, once, and that nobody keeps them."""

from __future__ import annotations

import pytest

from covey.core.ephemeral.state import Ephemeral
from covey.core.events import EnvelopeDropped
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.link.sealer import Outgoing
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.errors import LocalError, RelayError, RemoteError, TransientError, UnknownGroupError
from covey.limits.ephemeral import (
    EPHEMERAL_KEPT,
    EPHEMERAL_PER_SECOND,
    EPHEMERAL_SAVED,
    EPHEMERAL_US,
    MAXIMUM_EPHEMERAL_BYTES,
)
from tests.fleet import Device, Make, carry, found
from tests.vectors import vectors

_LIFETIME_S = EPHEMERAL_US // 1_000_000


class Three:
    """Three members who have settled everything else."""

    def __init__(self, make: Make) -> None:
        self.ann, self.ben, self.cat = self.all = make("ann"), make("ben"), make("cat")
        self.group_id = found(self.ann, self.ben, self.cat)
        for device in self.all:
            device.compares_on_contact_only()
        carry(*self.all)
        for device in self.all:
            device.maintain()
            device.events()

    def say(self, content: bytes, author: Device | None = None) -> int:
        """Let ann, or another one, say something; return to how many."""
        author = author or self.ann
        return author.node.ephemeral.say(self.group_id, content, author.now)

    def wait(self, seconds: float) -> None:
        """Let time pass for all."""
        for device in self.all:
            device.wait(seconds)


def _received(device: Device) -> list[bytes]:
    return [each.content for each in device.node.ephemeral.take_received()]


def _codes(device: Device) -> list[str]:
    return [each.code for each in device.events() if isinstance(each, EnvelopeDropped)]


def _forged(author: Device, to: Device, group_id: GroupId, body: bytes) -> None:
    """Let a member that keeps no rule send something to another one."""
    message = write_message(
        author.identity, MessageType.EPHEMERAL, to.key, group_id, Incarnation(b"incarnat"), 0, LinkSeq(0), 0, body
    )
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


def _said(device: Device) -> list[Outgoing]:
    """Return what is ephemeral of what goes now."""
    return [each for each in device.sends() if each.lifetime_s == _LIFETIME_S]


def _to(device: Device, sent: list[Outgoing]) -> bytes:
    [envelope] = [each.envelope for each in sent if each.recipient == device.key]
    return envelope


def test_every_member_hears_it_once_and_nobody_keeps_it(make: Make) -> None:  # accepts: 003.67
    three = Three(make)
    before = [device.store.connection.total_changes for device in three.all]
    assert three.say(b"ann is typing") == 2
    sent = three.ann.sends()
    assert all(each.entry is None and each.lifetime_s == _LIFETIME_S for each in sent)
    for outgoing in sent:
        (three.ben if outgoing.recipient == three.ben.key else three.cat).receive(outgoing.envelope)
    [received] = three.ben.node.ephemeral.take_received()
    assert (received.group_id, received.author, received.content) == (three.group_id, three.ann.key, b"ann is typing")
    assert _received(three.cat) == [b"ann is typing"]
    assert not [each for device in three.all for each in device.sends()], "no acknowledgement, and nothing once more"
    assert [device.store.connection.total_changes for device in three.all] == before


def test_a_repeated_ephemeral_message_is_ignored(make: Make) -> None:
    three = Three(make)
    three.say(b"one")
    first = _to(three.ben, _said(three.ann))
    three.say(b"two")
    second = _to(three.ben, _said(three.ann))
    for envelope in (first, first, second, first):
        three.ben.receive(envelope)
    assert _received(three.ben) == [b"one", b"two"]
    assert _codes(three.ben) == ["rollback", "rollback"]


def test_a_restarted_device_ignores_messages_from_before(make: Make) -> None:
    three = Three(make)
    three.say(b"one")
    envelope = _to(three.ben, _said(three.ann))
    three.ben.receive(envelope)
    assert _received(three.ben) == [b"one"]
    three.ben.restart()
    three.wait(_LIFETIME_S + 1)
    three.ben.receive(envelope)
    assert (_received(three.ben), _codes(three.ben)) == ([], ["rollback"])


def test_a_node_that_takes_anothers_place_knows_what_was_received(make: Make) -> None:
    three = Three(make)
    three.say(b"one")
    envelope = _to(three.ben, _said(three.ann))
    three.ben.receive(envelope)
    three.ben.on_a_full_disk(lambda: None)
    three.ben.receive(envelope)
    assert _received(three.ben) == [b"one"]


def test_a_removed_member_neither_sends_nor_receives(make: Make) -> None:
    three = Three(make)
    three.say(b"cat hears this no more")
    with three.ann.store.transaction():
        three.ann.node.actions.change(
            three.group_id, lambda draft, epoch: draft.removing(three.cat.key, epoch), three.ann.now
        )
    assert three.cat.key not in {each.recipient for each in three.ann.sends() if each.entry is None}
    three.say(b"as a member still", three.cat)
    three.ann.receive(_to(three.ann, _said(three.cat)))
    assert (_received(three.ann), _codes(three.ann)) == ([], ["not_a_member"])


@pytest.mark.slow
def test_one_author_pushes_out_only_its_own_messages(make: Make) -> None:
    three = Three(make)
    cats = Ephemeral(three.ann.now.wall_us, b"help").to_wire()
    _forged(three.cat, three.ann, three.group_id, cats)
    said = 0
    for _ in range(EPHEMERAL_KEPT // EPHEMERAL_SAVED + 1):
        for number in range(EPHEMERAL_SAVED):
            body = Ephemeral(three.ann.now.wall_us + number, b"noise").to_wire()
            _forged(three.ben, three.ann, three.group_id, body)
            said += 1
        three.wait(EPHEMERAL_SAVED / EPHEMERAL_PER_SECOND)
    assert said > EPHEMERAL_KEPT
    received = three.ann.node.ephemeral.take_received()
    assert [each.content for each in received if each.author == three.cat.key] == [b"help"]
    assert len(received) == EPHEMERAL_KEPT


def test_of_two_shared_groups_only_one_hears(make: Make) -> None:
    three = Three(make)
    both = found(three.ben, three.cat)
    carry(*three.all)
    three.ann.events()
    _forged(three.ben, three.ann, both, Ephemeral(three.ann.now.wall_us, b"of a group that ann is not in").to_wire())
    assert (_received(three.ann), _codes(three.ann)) == ([], ["unknown_group"])


def test_a_sender_may_send_a_limited_number_of_ephemeral_messages(make: Make) -> None:
    three = Three(make)
    for number in range(EPHEMERAL_SAVED):
        three.say(b"%d" % number)
    with pytest.raises(TransientError):
        three.say(b"too many")
    for outgoing in three.ann.sends():
        (three.ben if outgoing.recipient == three.ben.key else three.cat).receive(outgoing.envelope)
    assert (len(_received(three.ben)), _codes(three.ben)) == (EPHEMERAL_SAVED, [])
    three.wait(1)
    assert [three.say(b"again") for _ in range(EPHEMERAL_PER_SECOND)] == [2] * EPHEMERAL_PER_SECOND


def test_a_delayed_ephemeral_message_is_received_in_time(make: Make) -> None:
    three = Three(make)
    held = []
    for _ in range(EPHEMERAL_SAVED + 20):
        three.wait(1 / EPHEMERAL_PER_SECOND)
        three.say(b"slowly")
        held.append(_to(three.ben, _said(three.ann)))
    for envelope in held:
        three.ben.receive(envelope)
    assert (len(_received(three.ben)), _codes(three.ben)) == (len(held), [])


@pytest.mark.slow
def test_a_member_that_breaks_the_rules_is_received_within_its_limit(make: Make) -> None:
    three = Three(make)
    now_us = three.ben.now.wall_us
    window_s = 2 * _LIFETIME_S
    for number in range(1_000):  # it claims all the times that it may
        body = Ephemeral(now_us - EPHEMERAL_US + number * window_s * 1_000, b"spam").to_wire()
        _forged(three.cat, three.ben, three.group_id, body)
    assert len(_received(three.ben)) <= EPHEMERAL_SAVED + window_s * EPHEMERAL_PER_SECOND
    assert set(_codes(three.ben)) == {"rate"}
    three.say(b"ann is heard")
    three.ben.receive(_to(three.ben, _said(three.ann)))
    assert _received(three.ben) == [b"ann is heard"]


@pytest.mark.parametrize("apart_us", [-EPHEMERAL_US - 1, EPHEMERAL_US + 1])
def test_an_ephemeral_message_of_another_time_is_refused(make: Make, apart_us: int) -> None:
    three = Three(make)
    body = Ephemeral(three.ben.now.wall_us + apart_us, b"old, or of the future").to_wire()
    _forged(three.ann, three.ben, three.group_id, body)
    assert (_received(three.ben), _codes(three.ben)) == ([], ["rollback"])


def test_a_clock_that_was_set_back_keeps_nobody_silent(make: Make) -> None:
    three = Three(make)
    three.wait(10 * _LIFETIME_S)  # all were in the future
    three.say(b"one")
    three.ben.receive(_to(three.ben, _said(three.ann)))
    three.wait(-10 * _LIFETIME_S)
    three.say(b"two")
    three.ben.receive(_to(three.ben, _said(three.ann)))
    assert _received(three.ben) == [b"one", b"two"]


def test_an_expired_ephemeral_message_is_not_sent(make: Make) -> None:
    three = Three(make)
    three.say(b"now or never")
    three.wait(_LIFETIME_S)
    assert _said(three.ann) == []


def test_an_untaken_ephemeral_message_is_offered_again(make: Make) -> None:
    three = Three(make)
    three.say(b"one")
    refused = next(iter(three.ann.node.envelopes_to_send(three.ann.now)))
    assert refused.recipient in {each.recipient for each in three.ann.sends()}


def test_a_wrong_ephemeral_message_is_refused_at_once(make: Make) -> None:
    three = Three(make)
    with pytest.raises(LocalError, match="1024 bytes"):
        three.say(bytes(MAXIMUM_EPHEMERAL_BYTES + 1))
    assert three.say(bytes(MAXIMUM_EPHEMERAL_BYTES)) == 2
    with pytest.raises(UnknownGroupError):
        three.ann.node.ephemeral.say(GroupId(bytes(32)), b"", three.ann.now)
    three.ann.node.connection_lost()
    with pytest.raises(RelayError):
        three.say(b"no relay")


@pytest.mark.parametrize("vector", vectors("messages", "ephemerals"), ids=lambda each: each["name"])
def test_bodies(vector: dict[str, str]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        said = Ephemeral.from_wire(body)
        assert said == Ephemeral(int(vector["said_at_us"]), bytes.fromhex(vector["content"]))
        assert said.to_wire() == body
        return
    with pytest.raises(RemoteError) as refused:
        Ephemeral.from_wire(body)
    assert refused.value.code == vector["code"]
