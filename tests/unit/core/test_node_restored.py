"""A disk that was written back bit for bit: no start can see it, and nothing is lost or comes twice all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from covey.core.events import RollbackDetected
from covey.core.ids import GroupId, Incarnation, LinkSeq, Place
from covey.core.link.link_keys import open_envelope
from covey.core.vault.landing import LandingPlan
from covey.core.wire.envelope import seal
from covey.core.wire.imprints import NOTHING, UNKNOWN
from covey.core.wire.message import (
    NO_GROUP,
    Acknowledgement,
    Loss,
    LossReason,
    Message,
    MessageType,
    Resumption,
    read_message,
    write_message,
)
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import IMPRINTS_KEPT, RETRY_US_INITIAL, RETRY_US_MAX
from tests.durable import DurableDevice
from tests.fleet import carry, found

Make = Callable[..., DurableDevice]
_DAY_S = 86_400


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    devices: list[DurableDevice] = []

    def made(name: str, *, collects: bool = False) -> DurableDevice:
        devices.append(DurableDevice(name, tmp_path, collects=collects))
        return devices[-1]

    yield made
    for device in devices:
        device.stop()


def _image(device: DurableDevice) -> dict[str, bytes]:
    device.stop()
    files = device.files()
    device.restart()
    return files


def _write_back(device: DurableDevice, files: dict[str, bytes]) -> None:
    device.stop()
    device.put_files(files, in_place=True)
    before = device.store
    device.restart()
    assert device.store is not before


def _settle(*devices: DurableDevice) -> None:
    """Let everything come that comes, with the longest retries."""
    for _ in range(6):
        carry(*devices)
        for device in devices:
            device.wait(RETRY_US_MAX / 1e6)
            device.maintain()
    carry(*devices)


def _came(device: DurableDevice, prefix: bytes) -> Counter[bytes]:
    bodies = (row[-1] for row in device.store.inbox.arrived(10_000))
    return Counter(body for body in bodies if body.startswith(prefix))


def _each(prefix: bytes, count: int) -> Counter[bytes]:
    return Counter(b"%s %d" % (prefix, number) for number in range(count))


def _blobs(device: DurableDevice, group_id: GroupId, prefix: bytes, count: int) -> None:
    for body in _each(prefix, count):
        device.blob(group_id, body)


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "queued"), [(1, 1), (9, 5), (9, 9), (9, 40), (1, 40)])
def test_messages_with_reused_numbers_arrive(make: Make, lost: int, queued: int) -> None:
    """A card that was written back lost what the lost life had numbered: 38 readings, 9 blobs."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    image = _image(ann)
    _blobs(ann, group_id, b"lost", lost)
    carry(ann, ben)
    _write_back(ann, image)
    first = ann.store.incarnations.present()
    _blobs(ann, group_id, b"new", queued)
    _settle(ann, ben)
    assert _came(ben, b"lost") == _each(b"lost", lost)
    assert _came(ben, b"new") == _each(b"new", queued)
    assert ann.store.incarnations.present() != first
    assert ann.store.outbox.totals()[0] == 0
    assert [event for event in ann.events() if isinstance(event, RollbackDetected)] == [RollbackDetected(ben.key)]
    ann.blob(group_id, b"later")
    _settle(ann, ben)
    assert ben.inbox()[-1] == b"later"


@pytest.mark.slow
def test_an_acknowledgement_that_a_relay_kept_frees_nothing_of_the_new_life(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    image = _image(ann)
    _blobs(ann, group_id, b"lost", 9)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.wait(1)
    kept = [outgoing.envelope for outgoing in ben.sends()]
    _write_back(ann, image)
    _blobs(ann, group_id, b"new", 20)
    for envelope in kept:  # before the first of them has gone
        ann.receive(envelope)
    _settle(ann, ben)
    assert _came(ben, b"new") == _each(b"new", 20)
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 5, 9, 12])
def test_a_later_message_that_comes_first_hides_none(make: Make, first: int) -> None:
    """A relay loses what would have shown the copy; what follows has numbers that nobody has used."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    image = _image(ann)
    _blobs(ann, group_id, b"lost", 9)
    carry(ann, ben)
    _write_back(ann, image)
    _blobs(ann, group_id, b"new", 20)
    for outgoing in ann.sends()[first:]:
        ben.receive(outgoing.envelope)
    _settle(ann, ben)
    assert _came(ben, b"new") == _each(b"new", 20)
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_messages_of_the_lost_state_arrive_in_between(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    image = _image(ann)
    _blobs(ann, group_id, b"lost", 9)
    kept = [outgoing.envelope for outgoing in ann.sends()]
    _write_back(ann, image)
    _blobs(ann, group_id, b"new", 20)
    new = [outgoing.envelope for outgoing in ann.sends()]
    for envelope in (*new[:3], *kept[1:6], *new[10:12], *kept, *new[4:]):
        ben.receive(envelope)
    _settle(ann, ben)
    assert _came(ben, b"new") == _each(b"new", 20)
    assert max(_came(ben, b"lost").values()) == 1
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_numbers_of_another_link_show_that_seqs_are_given_again(make: Make) -> None:
    """What would land under a `seq` that is in a table is refused: a table would take it for a repeat."""
    ann, ben, cat = make("ann"), make("ben"), make("cat")
    group_id = found(ann, ben, cat)
    image = _image(ann)
    for number in range(10):
        with ann.store.transaction():
            ann.node.send_blob(group_id, b"lost %d" % number, ann.now, ben.key)
            ann.node.send_blob(group_id, b"lost %d" % number, ann.now, cat.key)
    carry(ann, ben, cat)
    used = ann.store.connection.execute("SELECT next_seq FROM device").fetchone()[0]
    _write_back(ann, image)
    with ann.store.transaction():
        for number in range(15):
            ann.node.send_blob(group_id, b"new %d" % number, ann.now, ben.key)
    seqs = []
    for outgoing in ann.sends()[10:]:  # beyond the numbers of the lost life, and within its seqs
        seqs.append(outgoing.entry.place if outgoing.entry else 0)
        ben.receive(outgoing.envelope)
    assert used > 20
    assert not _came(ben, b"new")
    _settle(ann, ben, cat)
    assert _came(ben, b"new") == _each(b"new", 15)


@pytest.mark.slow
def test_an_answer_by_a_link_that_the_restored_state_lacks_is_sealed_when_it_is_asked_for_again(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    image = _image(ann)
    for number in range(3):
        _blobs(ben, group_id, b"by link %d" % number, 12)
        ben.maintain()
        carry(ann, ben)
    _blobs(ann, group_id, b"lost", 3)
    carry(ann, ben)
    _write_back(ann, image)
    assert ben.node.state.link_keys.tag(ann.key), "ann has held the key, and does not now"
    _blobs(ann, group_id, b"new", 3)
    for _ in range(4):
        carry(ann, ben)
        ann.wait(RETRY_US_INITIAL / 1e6)
    assert _came(ben, b"new") == _each(b"new", 3)
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_a_relay_that_repeats_everything_makes_nobody_doubt(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    first = ann.store.incarnations.present()
    sent: list[bytes] = []
    answered: list[bytes] = []
    for number in range(30):
        ann.blob(group_id, b"blob %d" % number)
        for outgoing in ann.sends():
            sent.append(outgoing.envelope)
            ben.receive(outgoing.envelope)
        ben.wait(1)
        for outgoing in ben.sends():
            answered.append(outgoing.envelope)
            ann.receive(outgoing.envelope)
        for envelope in sent[::7]:
            ben.receive(envelope)
        for envelope in answered[::5]:
            ann.receive(envelope)
    _settle(ann, ben)
    assert ann.store.incarnations.present() == first
    assert "dropped_rollback" not in ben.store.counters.values()
    assert _came(ben, b"blob") == _each(b"blob", 30)


@pytest.mark.slow
def test_a_restored_device_recovers_beyond_the_recipients_imprints(make: Make) -> None:
    """The recipient has had more messages since than it remembers: it holds the number, and cannot say for what."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    image = _image(ann)
    lost = IMPRINTS_KEPT + 200
    with ann.store.transaction():
        for number in range(lost):
            ann.node.send_blob(group_id, b"lost %d" % number, ann.now)
    carry(ann, ben)
    _write_back(ann, image)
    _blobs(ann, group_id, b"new", 9)
    _settle(ann, ben)
    assert _came(ben, b"new") == _each(b"new", 9)
    assert ann.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_messages_waiting_in_the_image_arrive_once(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    _blobs(ann, group_id, b"waited", 5)
    image = _image(ann)
    _blobs(ann, group_id, b"lost", 5)
    carry(ann, ben)
    _write_back(ann, image)
    _blobs(ann, group_id, b"new", 20)
    _settle(ann, ben)
    assert _came(ben, b"waited") == _each(b"waited", 5)
    assert _came(ben, b"new") == _each(b"new", 20)


def _answer(ben: DurableDevice, ann: DurableDevice, imprints: dict[int, bytes], upto: int) -> None:
    """Have ben claim what he likes."""
    incarnation = ann.store.incarnations.present()
    body = Acknowledgement(incarnation, SequenceSet(upto), imprints).to_wire()
    own = Incarnation(bytes(8))
    message = write_message(ben.identity, MessageType.ACK, ann.key, NO_GROUP, own, 0, LinkSeq(0), 1, body)
    ann.receive(ben.node._sealer.seal(ann.key, message).envelope)


@pytest.mark.slow
def test_a_recipient_that_lies_costs_an_incarnation_a_day(make: Make) -> None:
    ann, ben, cat = make("ann"), make("ben"), make("cat")
    group_id = found(ann, ben, cat)
    with ann.store.transaction():
        ann.node.send_blob(group_id, b"for ben", ann.now, ben.key)
        ann.node.send_blob(group_id, b"for cat", ann.now, cat.key)
    incarnations = {ann.store.incarnations.present()}
    for _ in range(50):
        last = ann.store.incarnations.spans(ben.key)[-1]
        number = last.last - last.base
        _answer(ben, ann, dict.fromkeys(range(1, number + 1), b"lies"), number)
        _answer(ben, ann, dict.fromkeys(range(1, number + 1), UNKNOWN), number + 5)
        incarnations.add(ann.store.incarnations.present())
    assert len(incarnations) == 2
    assert ann.store.outbox.totals()[0] == 2
    ann.wait(_DAY_S + 1)
    last = ann.store.incarnations.spans(ben.key)[-1]
    _answer(ben, ann, {1: b"lies"}, last.last - last.base)
    assert ann.store.incarnations.present() not in incarnations
    _settle(ann, cat)
    assert _came(cat, b"for") == Counter([b"for cat"])


@pytest.mark.parametrize("admitted", [False, True])
def test_a_restored_state_resends_what_the_lost_life_had_freed(make: Make, admitted: bool) -> None:
    """Its recipient has closed the number, and nothing came under it: that is no message which it holds.

    `admitted`: the lost life has told of the loss; else it has only gone on behind it.
    """
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _settle(ann, ben)
    ann.blob(group_id, b"waits")
    ((_, waiting),) = ann.store.outbox.queued(ben.key, Place(0), 9, 10_000)
    image, number = _image(ann), read_message(waiting).link_seq
    present = ann.store.incarnations.present()
    kind, body, seq, place = MessageType.RESUME, Resumption(((number, number),)).to_wire(), 0, 0
    if admitted:
        kind, body = MessageType.LOSS, Loss(LossReason.EXPIRED, ((number, number),)).to_wire()
        seq, place = read_message(waiting).seq + 1, number + 1
    said = write_message(ann.identity, kind, ben.key, NO_GROUP, present, seq, LinkSeq(place), 0, body)
    ben.receive(seal(said, ben.identity.noise_public, ann.rng(32), ann.rng(24)))
    ann.stop()
    ann.put_files(image)  # which the start notices
    ann.restart()
    assert ann.store.incarnations.present() != present
    ann.blob(group_id, b"later")
    _settle(ann, ben)
    assert ben.inbox() == [b"later", b"waits"]
    assert ann.store.outbox.totals()[0] == 0


def _land(hub: DurableDevice) -> list[Message]:
    """Land all that waits, as a collector does; return it."""
    landed: list[Message] = []
    while (waiting := hub.store.landing.waiting(1 << 20, 1_000)) is not None:
        last_id, _, _ = waiting
        plan = LandingPlan(1, Incarnation(bytes(8)), last_id, 1, bytes(24))
        messages = hub.store.landing.until(last_id)
        with hub.store.transaction():
            hub.store.landing.begin(plan)
            hub.store.landing.finish(plan, 1)
        for each in messages:
            landed.append(read_message(each.message))
            with hub.store.reading():
                hub.node.landing.landed(each.author, each.incarnation, {each.link_seq}, hub.now)
    return landed


def _batches(landed: list[Message]) -> set[int]:
    return {each.link_seq for each in landed if each.type is MessageType.TELEMETRY}


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
def test_messages_a_restored_collector_lost_are_sent_again(make: Make, restarts: bool) -> None:
    """A hub that was restored from a backup fourteen minutes old once lost thirteen minutes of readings."""
    pi, hub = make("pi"), make("hub", collects=True)
    group_id = found(pi, hub)
    _settle(hub, pi)

    def send(*numbers: int) -> list[Message]:
        for number in numbers:
            pi.batch(group_id, b"batch %d" % number)
        carry(hub, pi)
        landed = _land(hub)
        _settle(hub, pi)
        return landed + _land(hub)

    send(1, 2, 3)
    files = _image(hub)
    lost = [each.body for each in send(4, 5, 6, 7) if each.type is MessageType.TELEMETRY]
    assert pi.store.outbox.totals()[0] == 0, "all of it is acknowledged"
    _write_back(hub, files)
    after = send(8)
    if restarts:
        pi.restart()
    _settle(hub, pi)
    after += _land(hub)
    _settle(hub, pi)
    after += _land(hub)
    assert not [each for each in after if each.type is MessageType.LOSS]
    came = [each.body for each in after if each.type is MessageType.TELEMETRY]
    assert Counter(came) >= Counter(lost), "each under its own batch number"
    assert len(came) == len(lost) + 1
    assert pi.store.counters.values()["resent_to_restored"] == len(lost)
    assert "lost_by_recipients" not in pi.store.counters.values()
    send(9)
    assert pi.store.outbox.totals()[0] == 0


@pytest.mark.slow
def test_a_sender_that_restarts_remembers_what_its_recipient_lacks(make: Make) -> None:
    pi, hub = make("pi"), make("hub", collects=True)
    group_id = found(pi, hub)
    _settle(hub, pi)
    pi.batch(group_id, b"before")
    carry(hub, pi)
    _land(hub)
    _settle(hub, pi)
    files = _image(hub)
    pi.batch(group_id, b"lost")
    carry(hub, pi)
    _land(hub)
    _settle(hub, pi)
    _write_back(hub, files)
    came = list[bytes]()
    for number in range(8):
        pi.batch(group_id, b"after %d" % number)
        for one, other in ((hub, pi), (pi, hub)):
            for outgoing in one.sends():
                other.receive(outgoing.envelope)
        pi.restart()  # after it has resumed the link, before the answer to that
        for device in (pi, hub):
            device.wait(RETRY_US_MAX / 1e6)
            device.maintain()
        came += [each.body for each in _land(hub) if each.type is MessageType.TELEMETRY]
    assert [each for each in came if each.endswith(b"lost")]


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
def test_messages_that_a_restored_collector_acknowledged_and_nobody_has_are_reported_lost(
    make: Make, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.link.outbox.ACKNOWLEDGED_MESSAGES_KEPT", 0)
    pi, hub = make("pi"), make("hub", collects=True)
    group_id = found(pi, hub)
    _settle(hub, pi)

    def send(many: int) -> list[Message]:
        for number in range(many):
            pi.batch(group_id, b"batch %d" % number)
        carry(hub, pi)
        landed = _land(hub)
        _settle(hub, pi)
        return landed + _land(hub)

    before = _batches(send(3))
    files = _image(hub)
    lost = _batches(send(4))
    assert pi.store.outbox.totals()[0] == 0, "all of it is acknowledged"
    _write_back(hub, files)
    if restarts:
        pi.restart()
    after = send(2)
    _settle(hub, pi)
    after += _land(hub)
    losses = [Loss.from_wire(each.body) for each in after if each.type is MessageType.LOSS]
    assert {each.reason for each in losses} == {LossReason.RECIPIENT_LOST}
    admitted_lost = {number for each in losses for first, last in each.places for number in range(first, last + 1)}
    assert admitted_lost == lost
    assert not admitted_lost & (before | _batches(after))
    numbers = [span for each in losses for span in each.numbers]
    assert sum(last - first + 1 for first, last in numbers) == len(lost)
    assert hub.store.counters.values()["lost_messages"] == len(lost)
    later = _batches(send(2))
    assert len(later) == 2
    assert pi.store.counters.values()["lost_by_recipients"] == len(lost), "each is told once"


def test_an_old_acknowledgement_makes_nothing_lost_that_is_here(make: Make) -> None:
    pi, hub = make("pi"), make("hub", collects=True)
    group_id = found(pi, hub)
    _settle(hub, pi)
    pi.batch(group_id, b"one")
    carry(hub, pi)
    first = _land(hub)
    hub.wait(1)
    kept = [each.envelope for each in hub.sends()]
    for envelope in kept:
        pi.receive(envelope)
    for _ in range(3):
        pi.batch(group_id, b"more")
    carry(hub, pi)
    _land(hub)
    _settle(hub, pi)
    for envelope in kept:
        pi.receive(envelope)
    _settle(hub, pi)
    _land(hub)
    assert len(first) >= 1
    assert hub.store.counters.values().get("lost_messages", 0) == 0


def test_an_old_acknowledgement_before_a_gap_sends_nothing_again(make: Make) -> None:
    """What was let go leaves a gap, and an acknowledgement from before it also lacks what came after it."""
    pi, hub = make("pi"), make("hub", collects=True)
    group_id = found(pi, hub)
    _settle(hub, pi)
    pi.batch(group_id, b"one")
    carry(hub, pi)
    landed = _land(hub)
    hub.wait(1)
    kept = [each.envelope for each in hub.sends()]
    for envelope in kept:
        pi.receive(envelope)
    for number in range(4):
        pi.batch(group_id, b"more %d" % number)
    for gone in (0, 2):
        place = pi.store.outbox.queued(hub.key, Place(0), 4, 10_000)[gone // 2][0]
        with pi.store.transaction():
            pi.store.outbox.withdraw(hub.key, place, "too_large", pi.now.wall_us, None)
    for outgoing in pi.sends():
        hub.receive(outgoing.envelope)
    landed += _land(hub)
    hub.wait(1)
    for envelope in [each.envelope for each in hub.sends()] + kept:
        pi.receive(envelope)
    _settle(hub, pi)
    landed += _land(hub)
    bodies = [each.body for each in landed if each.type is MessageType.TELEMETRY]
    assert len(bodies) == len(set(bodies)) == 3
    assert not {"resent_to_restored", "lost_by_recipients"} & pi.store.counters.values().keys()


def test_a_link_that_begins_with_a_gap_is_acknowledged(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    _settle(ann, ben)
    first = Incarnation(b"a newone")
    said = write_message(
        ann.identity, MessageType.RESUME, ben.key, NO_GROUP, first, 0, LinkSeq(0), 0, Resumption(((1, 5),)).to_wire()
    )
    ben.receive(seal(said, ben.identity.noise_public, ann.rng(32), ann.rng(24)))
    ben.wait(1)
    (outgoing,) = ben.sends()
    opened = open_envelope(outgoing.envelope, ann.identity, ann.store.link_keys.find)
    acknowledgement = Acknowledgement.from_wire(read_message(opened.message).body)
    assert acknowledgement.received == SequenceSet(5)
    assert acknowledgement.imprints == {1: NOTHING, 5: NOTHING}
