"""`covey.core.wire.message`: signed messages, acknowledgements and losses."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.crypto import Identity
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.wire.message import (
    Acknowledgement,
    Loss,
    LossReason,
    Message,
    MessageType,
    group_of,
    read_message,
    type_of,
    write_message,
)
from covey.core.wire.sequences import SequenceSet
from covey.errors import LimitError, RemoteError, SignatureError, UnsupportedError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES
from tests.vectors import load, vectors

_KEYS = load("messages")["keys"]


def _identity(name: str) -> Identity:
    keys = _KEYS[name]
    return Identity.from_seeds(bytes.fromhex(keys["signing_seed"]), bytes.fromhex(keys["noise_secret"]))


def _refused(vector: dict[str, Any], read: Any) -> bool:
    """Say whether the vector is to be refused, and see that it is."""
    if vector["code"] is None:
        return False
    with pytest.raises(RemoteError) as caught:
        read()
    assert caught.value.code == vector["code"]
    return True


def _understood(raw: bytes) -> Message:
    """Return a message that this build knows; a sequenced one that it does not is set aside by its number."""
    message = read_message(raw)
    if message.newer:
        raise UnsupportedError(message.newer)
    return message


@pytest.mark.parametrize("size", [0, 20, 250, 70_000])
@pytest.mark.parametrize("kind", list(MessageType))
def test_type_and_group_are_found_without_reading_the_rest(kind: MessageType, size: int) -> None:
    author, recipient = _identity("alice"), _identity("bob").signing_public
    group_id, incarnation = GroupId(bytes(range(32))), Incarnation(b"incarnat")
    raw = write_message(author, kind, recipient, group_id, incarnation, 7, LinkSeq(9), 10**15, bytes(size))
    assert (type_of(raw), group_of(raw)) == (kind, group_id)


@pytest.mark.parametrize("vector", vectors("messages"))
def test_vectors(vector: dict[str, Any]) -> None:  # accepts: 000.07, 000.09, 001.13, 002.01
    raw = bytes.fromhex(vector["bytes"])
    if _refused(vector, lambda: _understood(raw)):
        return
    author, recipient = _identity(vector["author"]), _identity(vector["recipient"])
    group_id, incarnation = bytes.fromhex(vector["group_id"]), bytes.fromhex(vector["incarnation"])
    body = bytes.fromhex(vector["body"])
    numbers = vector["seq"], vector["link_seq"], vector["sent_at_us"]
    kind = MessageType(vector["type"])
    assert (
        write_message(
            author, kind, recipient.signing_public, GroupId(group_id), Incarnation(incarnation), *numbers, body
        )
        == raw
    )
    message = read_message(raw)
    assert message.raw == raw
    assert (message.type, message.author, message.recipient) == (kind, author.signing_public, recipient.signing_public)
    assert (message.group_id, message.incarnation, message.body) == (group_id, incarnation, body)
    assert (message.seq, message.link_seq, message.sent_at_us) == numbers


def test_the_types_keep_the_numbers_of_the_source_documents() -> None:  # accepts: 000.09
    assert int(MessageType.GROUP_MANIFEST) == 0x04


def test_an_unverified_read_is_for_bytes_verified_before() -> None:
    forged = next(entry for entry in load("messages")["vectors"] if entry["name"] == "signature of zeros")
    raw = bytes.fromhex(forged["bytes"])
    assert read_message(raw, verify=False).body == b"hello"
    with pytest.raises(SignatureError):
        read_message(raw)


def test_the_size_is_bounded_before_parsing() -> None:  # accepts: 002.37
    with pytest.raises(LimitError):
        read_message(b"\xff" * (MAXIMUM_MESSAGE_BYTES + 1))


@pytest.mark.parametrize("vector", vectors("messages", "acknowledgements"))
def test_acknowledgements(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if _refused(vector, lambda: Acknowledgement.from_wire(body)):
        return
    upto, ranges = vector["received"]
    expected = SequenceSet(upto, tuple((first, last) for first, last in ranges))
    acknowledgement = Acknowledgement.from_wire(body)
    assert acknowledgement == Acknowledgement(Incarnation(bytes.fromhex(vector["incarnation"])), expected)
    assert acknowledgement.to_wire() == body


@pytest.mark.parametrize("vector", vectors("messages", "imprints"))
def test_imprints(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if _refused(vector, lambda: Acknowledgement.from_wire(body)):
        return
    acknowledgement = Acknowledgement.from_wire(body)
    runs = [(first, bytes.fromhex(run)) for first, run in vector["imprints"]]
    expected = {first + at // 4: run[at : at + 4] for first, run in runs for at in range(0, len(run), 4)}
    assert acknowledgement.imprints == expected
    assert acknowledgement.to_wire() == body


def test_an_acknowledgement_tells_the_oldest_ranges_first() -> None:
    received = SequenceSet(0, tuple((10 * n, 10 * n + 1) for n in range(1, 200)))
    reported = Acknowledgement.from_wire(Acknowledgement(Incarnation(bytes(8)), received).to_wire())
    assert reported.received.ranges == received.ranges[:64]


@pytest.mark.parametrize("vector", vectors("messages", "losses"))
def test_losses(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if _refused(vector, lambda: Loss.from_wire(body)):
        return
    reason, places, numbers, *earlier = vector["loss"]
    spans: Any = [tuple((first, last) for first, last in each) for each in (places, numbers)]
    loss = Loss(LossReason(reason), *spans, *map(bytes.fromhex, earlier))
    assert Loss.from_wire(body) == loss
    assert loss.to_wire() == body
