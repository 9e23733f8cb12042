"""Messages that only a newer build knows are set aside, acknowledged as unsupported, and never sent again."""

from __future__ import annotations

from unittest.mock import patch

import cbor2

from covey.core.crypto import sign
from covey.core.events import EnvelopeDropped, NotUnderstood
from covey.core.ids import DeviceKey, GroupId
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, UNKNOWN_TYPE, MessageType, read_message
from tests.fleet import Device, Make, carry, found

_NEWER = 0x40


def _send(author: Device, recipient: Device, group_id: GroupId, kind: int = _NEWER, **extensions: object) -> None:
    """Queue what a newer build would: a type that this one does not know, or a field of its own."""

    def write(identity: object, _type: object, *fields: object) -> bytes:
        grown = [{int(key[1:]): value for key, value in extensions.items()}] if extensions else []
        signed = cbor2.dumps([1, kind, author.key, *fields, *grown], canonical=True)
        return cbor2.dumps([sign(b"covey/1 message", signed, author.identity), signed], canonical=True)

    with patch("covey.core.link.send_queue.write_message", write), author.store.transaction():
        author.node._queue.queue(recipient.key, MessageType.BLOB, group_id, b"news", author.now)


def _waiting(author: Device, recipient: DeviceKey) -> int:
    return sum(each.queued for each in author.store.outbox.queues() if each.recipient == recipient)


def test_a_message_of_an_unknown_type_is_acknowledged_as_unsupported(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    for of in (group_id, NO_GROUP):
        _send(ann, ben, of)
    ann.blob(group_id, b"what this build knows")
    carry(ann, ben)
    assert [(each.code, read_message(each.message).type) for each in ben.store.quarantine.entries()] == [
        ("unsupported", UNKNOWN_TYPE)
    ] * 2
    assert ben.inbox() == [b"what this build knows"], "nothing waits for it"
    assert NotUnderstood(ben.key, 2) in ann.events()
    assert _waiting(ann, ben.key) == 0, "it is not sent again"
    assert ann.store.counters.values()["not_understood"] == 2


def test_a_known_type_with_a_field_that_must_be_understood_is_set_aside(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    _send(ann, ben, group_id, MessageType.BLOB, _1000="must be understood")
    _send(ann, ben, group_id, MessageType.BLOB, _1001="may be ignored")
    carry(ann, ben)
    assert [each.code for each in ben.store.quarantine.entries()] == ["unsupported"]
    assert ben.inbox() == [b"news"]
    assert NotUnderstood(ben.key, 1) in ann.events()


def test_a_lost_acknowledgement_is_given_again_as_unsupported(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    _send(ann, ben, group_id)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    ben.node.make_acknowledgements_due(ben.now)
    list(ben.sends())  # lost
    ann.wait(600)
    carry(ann, ben)
    assert NotUnderstood(ben.key, 1) in ann.events()
    assert len(ben.store.quarantine.entries()) == 1


def test_a_stranger_has_nothing_set_aside(make: Make) -> None:
    ann, ben, eve = make("ann"), make("ben"), make("eve")
    group_id = found(ann, ben)
    carry(ann, ben)
    found(eve)
    for of in (group_id, NO_GROUP):
        _send(eve, ben, of)
    carry(eve, ben)
    assert ben.store.quarantine.entries() == []


def test_an_unknown_unsequenced_message_is_dropped(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    signed = cbor2.dumps([1, _NEWER, ann.key, ben.key, group_id, bytes(8), 0, 0, 5, b""], canonical=True)
    message = cbor2.dumps([sign(b"covey/1 message", signed, ann.identity), signed], canonical=True)
    ben.receive(seal(message, ben.identity.noise_public, bytes(range(32)), bytes(24)))
    assert [each.code for each in ben.events() if isinstance(each, EnvelopeDropped)] == ["unsupported"]
    assert ben.store.quarantine.entries() == []
