"""`covey.core.link.named_keys`: keys that reports name, and what is sealed for signing keys."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import replace

import pytest

from covey.core.crypto import NoiseKey, sealing_key
from covey.core.ids import DeviceKey
from covey.core.link.link_keys import open_envelope
from covey.core.link.named_keys import NamedKeys
from covey.core.wire.envelope import SealedEnvelope, read_envelope, seal
from covey.core.wire.heads import HeadsReport
from covey.core.wire.message import MessageType, read_message, type_of
from covey.errors import DecryptionError
from covey.limits.heads import NAMED_KEY_US, NAMED_KEYS
from tests.fleet import Device, Make, carry, found
from tests.stolen import say

LISTED, NAMED = (NoiseKey.of(bytes(31) + bytes([number])).public for number in (1, 2))


def _device(number: int) -> DeviceKey:
    return DeviceKey(number.to_bytes(32))


def test_a_named_key_is_used_for_a_while_unless_it_is_listed() -> None:
    keys = NamedKeys()
    keys.note(_device(1), NAMED, LISTED, 0)
    assert keys.of(_device(1), LISTED, NAMED_KEY_US - 1) == NAMED
    assert keys.of(_device(1), LISTED, NAMED_KEY_US) is None
    assert keys.of(_device(1), NAMED, 1) is None, "a manifest lists it now"
    assert keys.of(_device(2), LISTED, 1) is None


@pytest.mark.parametrize("named", [None, LISTED])
def test_a_report_that_names_no_other_key_ends_the_use_of_an_earlier_one(named: bytes | None) -> None:
    keys = NamedKeys()
    keys.note(_device(1), NAMED, LISTED, 0)
    keys.note(_device(1), None if named is None else LISTED, LISTED, 1)
    assert keys.of(_device(1), LISTED, 2) is None


def test_only_the_newest_keys_are_remembered() -> None:
    keys = NamedKeys()
    for number in range(NAMED_KEYS + 1):
        keys.note(_device(number), NAMED, LISTED, 0)
    held = [number for number in range(NAMED_KEYS + 1) if keys.of(_device(number), LISTED, 1) is not None]
    assert held == [*range(1, NAMED_KEYS + 1)]


def _opened_by(secret: bytes, ben: Device) -> set[MessageType | None]:
    """Return the types of what ben sends that a noise key opens, in half an hour in which nobody answers."""
    found: set[MessageType | None] = set()
    for _ in range(30):
        ben.wait(60)
        for outgoing in ben.sends():
            envelope = read_envelope(outgoing.envelope)
            with suppress(DecryptionError):
                if isinstance(envelope, SealedEnvelope):
                    found.add(type_of(envelope.open(secret)))
    return found


def test_only_control_messages_and_reports_go_under_a_named_key(make: Make) -> None:
    """A relay may repeat a report with a key that somebody has got hold of since."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    stolen = bytes(31) + b"\7"
    say(ann, ben, MessageType.HEADS, HeadsReport(True, (), opens=NoiseKey.of(stolen).public).to_wire(), group_id)
    ben.blob(group_id, b"secret")
    own = ben.node.groups.group(group_id).member(ben.key)
    assert own is not None
    with ben.store.transaction():
        ben.node.actions.change(group_id, lambda draft, _: draft.changing(replace(own, label="other")), ben.now)
    opened = _opened_by(stolen, ben)
    assert MessageType.HEADS in opened
    assert opened <= {MessageType.HEADS, MessageType.GROUP_MANIFEST, MessageType.GROUP_PULL}


def test_only_reports_are_taken_under_a_signing_key(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    ben.blob(group_id, b"hello")
    sent = [open_envelope(each.envelope, ann.identity, ann.store.link_keys.find).message for each in ben.sends()]
    blob = next(raw for raw in sent if read_message(raw).type is MessageType.BLOB)
    ann.receive(seal(blob, sealing_key(ann.key), secrets.token_bytes(32), secrets.token_bytes(24)))
    assert ann.inbox() == []
    assert dict(ann.store.counters.values())["dropped_malformed"] == 1
