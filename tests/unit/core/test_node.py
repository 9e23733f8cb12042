"""`covey.core.node`: what a device does with what arrives, and what it sends."""

from __future__ import annotations

import pytest

from covey.core.crypto import NoiseKey
from covey.core.events import BlobArrived, EnvelopeDropped
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.link.sealer import Outgoing
from covey.core.telemetry.batch import split_number
from covey.core.wire.envelope import seal
from covey.core.wire.message import (
    NO_GROUP,
    Acknowledgement,
    Loss,
    LossReason,
    MessageType,
    read_message,
    write_message,
)
from covey.core.wire.sequences import SequenceSet
from covey.errors import LocalError, OutboxFullError, UnknownGroupError
from covey.limits.link import ACKNOWLEDGE_DELAY_US, RETRY_US_INITIAL, RETRY_US_MAX
from covey.limits.message import MAXIMUM_BLOB_BYTES
from tests.fleet import Device, Make, admit, carry, found, identity


def _forge(
    author: Device, to: Device, kind: MessageType, group_id: GroupId, number: LinkSeq, body: bytes, **other: bytes
) -> bytes:
    message = write_message(
        author.identity,
        kind,
        DeviceKey(other.get("recipient", to.key)),
        group_id,
        Incarnation(b"incarnat"),
        number,
        number,
        1,
        body,
    )
    return seal(message, to.identity.noise_public, author.rng(32), author.rng(24))


def _codes(device: Device) -> list[str]:
    return [event.code for event in device.events() if isinstance(event, EnvelopeDropped)]


def _acknowledges_by_itself(device: Device) -> list[Outgoing]:
    """Return what a device says some time after it has been connected, though nothing came."""
    if device.node.has_work(device.now):
        with device.store.transaction():
            device.node.maintain(device.now)
    device.wait(ACKNOWLEDGE_DELAY_US / 1e6)
    return device.sends()


def test_a_blob_comes_once_and_is_forgotten_when_its_recipient_has_it(make: Make) -> None:  # accepts: 001.13
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"hello")
    [outgoing] = ann.sends()
    ben.receive(outgoing.envelope)
    ben.receive(outgoing.envelope)
    assert ben.inbox() == [b"hello"]
    assert BlobArrived(ann.key, 5) in ben.events()
    assert ben.store.counters.values()["duplicates"] == 1
    assert ann.store.outbox.totals()[0] == 1
    carry(ann, ben)
    assert ann.store.outbox.totals() == (0, 0)


def test_a_restart_changes_nothing(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"one")
    [lost] = ann.sends()
    ann.restart()
    ann.blob(group_id, b"two")
    assert len(carry(ann, ben) * [0]) >= 2
    ben.restart()
    ben.receive(lost.envelope)
    assert ben.inbox() == [b"one", b"two"]
    assert ann.store.outbox.totals()[0] == 0


def test_an_acknowledgement_that_was_lost_is_given_again(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"hello")
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.wait(1)
    assert len(ben.sends()) == 1  # and nobody hears it
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, ben)
    assert ben.inbox() == [b"hello"]
    assert ann.store.outbox.totals()[0] == 0


def test_an_acknowledgement_that_was_lost_with_its_process_is_given_by_the_next_one(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"hello")
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.restart()  # after its commit, before its acknowledgement
    [repeated] = _acknowledges_by_itself(ben)
    ann.receive(repeated.envelope)
    assert ann.store.outbox.totals()[0] == 0
    ben.node.connection_lost()
    ben.node.connected(ben.now)
    assert _acknowledges_by_itself(ben) == []  # once for each process


def test_a_restarted_device_acknowledges_again_only_to_recent_senders(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"hello")
    carry(ann, ben)
    ben.wait(RETRY_US_MAX / 1e6 + 61)
    ben.restart()
    assert _acknowledges_by_itself(ben) == []


def test_an_acknowledgement_stays_due_while_the_relay_is_full(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"hello")
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.wait(1)
    refused = next(ben.node.envelopes_to_send(ben.now))
    assert refused.recipient == ann.key
    assert len(ben.sends()) == 1
    assert ben.sends() == []


def test_a_full_disk_at_the_sender_neither_loses_nor_floods(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(20):
        ann.blob(group_id, b"%d" % number)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.wait(1)
    [acknowledgement] = ben.sends()
    for _ in range(5):
        ann.on_a_full_disk(lambda: ann.node.receive_envelope(acknowledgement.envelope, ann.now))
        assert ann.sends() == []
    ann.wait(RETRY_US_INITIAL / 1e6)
    assert len(ann.sends()) == 1
    ann.receive(acknowledgement.envelope)
    ann.wait(RETRY_US_MAX / 1e6)
    assert ann.sends() == []
    assert ann.store.outbox.totals()[0] == 0


def test_a_full_disk_at_the_recipient_takes_nothing_in(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"hello")
    [outgoing] = ann.sends()
    ben.on_a_full_disk(lambda: ben.node.receive_envelope(outgoing.envelope, ben.now))
    ben.wait(10)
    assert ben.sends() == []
    assert ben.events() == []
    ben.receive(outgoing.envelope)
    assert ben.inbox() == [b"hello"]


def test_a_group_that_was_not_committed_is_forgotten(make: Make) -> None:
    ann = make("ann")
    ann.on_a_full_disk(lambda: ann.node.membership.create("ann", (), ann.now.wall_us))
    assert ann.node.groups.joined() == []
    assert ann.events() == []


def test_a_full_inbox_is_not_acknowledged(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    monkeypatch.setattr("covey.adapters.sqlite.link.inbox.INBOX_BYTES", 10)
    ann.blob(group_id, b"12345678")
    ann.blob(group_id, b"87654321")
    carry(ann, ben)
    assert ben.inbox() == [b"12345678"]
    assert ann.store.outbox.totals()[0] == 1
    with ben.store.transaction():
        ben.store.inbox.consume(ben.store.inbox.arrived(1)[0][0])
    ann.wait(RETRY_US_MAX / 1e6)
    carry(ann, ben)
    assert ben.inbox() == [b"87654321"]
    assert ann.store.outbox.totals()[0] == 0


def test_strangers_and_forgers_are_dropped_and_counted(make: Make) -> None:  # accepts: 000.24
    ann, ben, mallory = make("ann"), make("ben"), make("mallory")
    group_id = found(ann, ben)
    ben.events()
    loss = Loss(LossReason.EXPIRED, ((1, 5),)).to_wire()
    for envelope in (
        _forge(mallory, ben, MessageType.BLOB, group_id, LinkSeq(1), b"hi"),
        _forge(mallory, ben, MessageType.BLOB, GroupId(b"g" * 32), LinkSeq(1), b"hi"),
        _forge(mallory, ben, MessageType.LOSS, NO_GROUP, LinkSeq(9), loss),
        _forge(ann, ben, MessageType.BLOB, group_id, LinkSeq(50), b"hi", recipient=mallory.key),
        _forge(ann, ben, MessageType.BLOB, group_id, LinkSeq(20_000), b"hi"),
        b"",
        bytes(100),
    ):
        ben.receive(envelope)
    expected = ["not_a_member", "unknown_group", "not_a_member", "not_for_us", "limit", "malformed", "malformed"]
    assert _codes(ben) == expected
    assert ben.inbox() == []
    assert carry(ben) == 1  # only the member that is far ahead hears where its link stands
    assert ben.store.counters.values()["dropped_not_a_member"] == 2


def test_an_acknowledgement_of_another_incarnation_frees_nothing(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"hello")
    body = _ack(Incarnation(b"another!"), SequenceSet(1_000))
    ann.receive(_forge(ben, ann, MessageType.ACK, NO_GROUP, LinkSeq(0), body))
    assert ann.store.outbox.totals()[0] == 1
    everything = SequenceSet(ann.store.incarnations.spans(ben.key)[-1].last)
    ann.receive(
        _forge(ben, ann, MessageType.ACK, NO_GROUP, LinkSeq(0), _ack(ann.store.incarnations.present(), everything))
    )
    assert ann.store.outbox.totals()[0] == 0


def _ack(incarnation: Incarnation, received: SequenceSet) -> bytes:
    return Acknowledgement(incarnation, received).to_wire()


def test_a_loss_record_closes_the_gap_that_it_speaks_of(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"first")
    carry(ann, ben)
    incarnation = Incarnation(b"incarnat")
    ben.receive(_forge(ann, ben, MessageType.LOSS, NO_GROUP, LinkSeq(4), Loss(LossReason.EXPIRED, ((1, 3),)).to_wire()))
    assert ben.store.received.of(ann.key, incarnation) == SequenceSet(4)
    ben.receive(_forge(ann, ben, MessageType.BLOB, group_id, LinkSeq(2), b"too late"))
    assert ben.inbox() == [b"first"]
    ben.events()
    ben.receive(_forge(ann, ben, MessageType.LOSS, NO_GROUP, LinkSeq(6), Loss(LossReason.EXPIRED, ((5, 6),)).to_wire()))
    assert _codes(ben) == ["limit"]
    assert ben.store.received.of(ann.key, incarnation) == SequenceSet(4, ((6, 6),))


def test_telemetry_waits_for_its_landing(make: Make) -> None:
    ann, collector = make("ann"), make("collector", collects=True)
    group_id = found(ann, collector)
    ann.batch(group_id, b"batch")
    carry(ann, collector)
    assert ann.store.outbox.totals()[0] == 1
    [waiting] = collector.store.landing.until(1_000)
    collector.node.landing.landed(ann.key, waiting.incarnation, {waiting.link_seq}, collector.now)
    ann.wait(RETRY_US_INITIAL / 1e6)
    carry(ann, collector)
    assert ann.store.outbox.totals()[0] == 0


def test_a_member_that_lands_nothing_leaves_telemetry_with_its_sender(make: Make) -> None:
    ann, collector = make("ann"), make("collector", collects=True)
    group_id = found(ann, collector)
    collector.nodes.collects = False
    collector.restart()
    ann.batch(group_id, b"batch")
    carry(ann, collector)
    assert ann.store.outbox.totals()[0] == 1
    assert collector.store.landing.size() == 0


def test_messages_beyond_the_outbox_are_refused(make: Make) -> None:
    ann, ben = make("ann", outbox_bytes=3_000), make("ben")
    group_id = found(ann, ben)
    with pytest.raises(UnknownGroupError):
        ann.blob(GroupId(bytes(32)), b"")
    with pytest.raises(LocalError, match="collector"):
        ann.batch(group_id, b"batch")
    with pytest.raises(LocalError, match="at most"):
        ann.blob(group_id, bytes(MAXIMUM_BLOB_BYTES + 1))
    ann.blob(group_id, bytes(2_000))
    with pytest.raises(OutboxFullError):
        ann.blob(group_id, bytes(2_000))
    assert ann.store.outbox.totals()[0] == 1
    cat = make("cat")
    admit(ann, cat, group_id, ben)  # control still goes
    assert len(cat.node.groups.joined()) == 1
    carry(ann, ben, cat)
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_a_full_outbox_drops_the_oldest_telemetry_and_says_so(make: Make) -> None:
    ann, collector = make("ann", outbox_bytes=100_000), make("collector", collects=True)
    group_id = found(ann, collector)
    for number in range(300):
        ann.batch(group_id, b"%03d" % number + bytes(700))
    messages, size = ann.store.outbox.totals()
    assert messages < 200
    assert size <= 100_000
    ann.sends()  # and the relay loses it all
    ann.node.connection_lost()
    ann.node.connected(ann.now)
    for _ in range(3):  # a second record waits until the first has come
        carry(ann, collector)
        rows = collector.store.landing.until(1_000)
        for row in rows:
            collector.node.landing.landed(row.author, row.incarnation, {row.link_seq}, collector.now)
    assert ann.store.outbox.totals() == (0, 0)
    landed = [read_message(row.message) for row in rows]
    losses = [Loss.from_wire(message.body) for message in landed if message.type is MessageType.LOSS]
    assert {loss.reason for loss in losses} == {LossReason.OUTBOX_FULL}
    assert len(losses) == 2
    lost = {number for loss in losses for first, last in loss.places for number in range(first, last + 1)}
    here = {message.link_seq for message in landed}
    assert lost.isdisjoint(here)
    telemetry = [split_number(message.body) for message in landed if message.type is MessageType.TELEMETRY]
    assert telemetry[-1][1].startswith(b"299")
    assert all(batch.startswith(b"%03d" % (number - 1)) for number, batch in telemetry)
    came = {number for number, _ in telemetry}
    reported_numbers = {number for loss in losses for first, last in loss.numbers for number in range(first, last + 1)}
    assert came.isdisjoint(reported_numbers)
    assert came | reported_numbers == set(range(1, 301)), "every batch came or is told"
    reported = lost | here
    assert max(reported) - min(reported) + 1 == len(reported)  # no gap without a reason


def test_telemetry_is_refused_where_others_fill_the_outbox(make: Make) -> None:
    ann, collector = make("ann", outbox_bytes=5_000), make("collector", collects=True)
    group_id = found(ann, collector)
    ann.batch(group_id, bytes(100))
    ann.blob(group_id, bytes(4_000))
    with pytest.raises(OutboxFullError):
        ann.batch(group_id, bytes(2_000))
    assert ann.store.outbox.totals()[0] == 2


def test_a_message_that_is_set_aside_is_reported_to_its_recipient(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"huge")
    [refused] = ann.sends()
    assert refused.entry is not None
    with ann.store.transaction():
        ann.node.withdraw(ben.key, refused.entry.place, ann.now)
        ann.node.withdraw(ben.key, refused.entry.place, ann.now)
    assert ann.store.counters.values()["quarantined_too_large"] == 1
    ann.blob(group_id, b"small")
    carry(ann, ben)
    assert ben.inbox() == [b"small"]
    assert ben.store.counters.values()["lost_messages"] == 1
    assert ann.store.outbox.totals() == (0, 0)
    assert ann.store.connection.execute("SELECT code FROM quarantine").fetchall() == [("too_large",)]


def test_nobody_is_kept_waiting_for_an_answer_that_has_no_address(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        invite = ann.node.joining.invite(group_id, (), "mqtt://fleet", ann.now.wall_us)
    twin = Device("twin", ann.path.parent)
    twin.identity.noise.take((NoiseKey.of(ben.identity.noise_secret),))
    twin.restart()
    with twin.store.transaction():
        twin.node.actions.request_join(invite, "twin", twin.now)
    for outgoing in twin.sends():
        ann.receive(outgoing.envelope)
    ann.compares_on_contact_only()
    ann.wait(1)
    assert ann.sends() == []
    assert ann.node.next_deadline() == ann.node.state.heads.round_at_us, "nothing else is due"


def test_another_process_may_queue(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    assert not ann.store.changed_elsewhere()
    command = Device("ann", ann.path.parent)
    command.blob(group_id, b"from the shell")
    command.store.close()
    assert ann.store.changed_elsewhere()
    assert ann.sends() == []
    ann.node.refresh()
    carry(ann, ben)
    assert ben.inbox() == [b"from the shell"]


def test_a_message_another_process_withdrew_is_not_sent(make: Make) -> None:
    ann, collector = make("ann"), make("collector", collects=True)
    group_id = found(ann, collector)
    for number in range(3):
        ann.batch(group_id, bytes([number]))
    assert len(ann.sends()) == 3, "which the relay loses"
    command = Device("ann", ann.path.parent)
    first, second, third = (place for _, place, _ in command.node.telemetry.queued())
    with command.store.transaction():
        for place in (first, second):
            command.node.telemetry.pushed(collector.key, place)
    command.store.close()
    ann.node.refresh()
    sent = set()
    for _ in range(10):
        ann.wait(400)
        sent |= {outgoing.entry.place for outgoing in ann.sends() if outgoing.entry is not None}
    assert sent == {third}


def test_the_secrets_of_an_identity_are_not_shown() -> None:
    one = identity("ann")
    assert one.signing_secret.hex() not in repr(one)
    assert repr(one.noise_secret) not in repr(one)
