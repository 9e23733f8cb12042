"""What devices and mailboxes say to each other: bodies that are taken and refused, ids, and everybody's order."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import Number, fits_relay, read_mailbox_message
from covey.core.mailbox.pushing import blob_id_of, ranked
from covey.errors import RemoteError
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES, MAXIMUM_MESSAGE_BYTES
from tests.vectors import vectors


@pytest.mark.parametrize("entry", vectors("mailbox", "bodies"))
# accepts: 002.03, 002.04, 002.05, 002.06, 002.07, 002.08, 002.09, 002.11, 002.12, 002.13, 002.14, 002.15, 002.16
# accepts: 002.19
def test_bodies_are_taken_and_refused_as_the_vectors_say(
    entry: dict[str, Any],
) -> None:
    """Each by the number that 002 has for it."""
    body = bytes.fromhex(entry["bytes"])
    if entry["code"] is None:
        said = read_mailbox_message(body)
        assert said.to_wire() == body
        assert entry["name"].startswith(said.number.name)
        return
    with pytest.raises(RemoteError) as refused:
        read_mailbox_message(body)
    assert refused.value.code == entry["code"]


def test_the_numbers_are_those_of_002() -> None:
    assert {each.name: int(each) for each in Number} == {
        "HELLO": 0x01,
        "WELCOME": 0x02,
        "PUSH": 0x10,
        "PUSH_ACK": 0x11,
        "PULL": 0x20,
        "PULL_RESPONSE": 0x21,
        "NOTIFY": 0x31,
        "DELETE": 0x40,
        "REVOKE_DEVICE": 0x50,
        "DEVICE_REVOKED": 0x51,
        "REGISTER_PUSH": 0x60,
        "UNREGISTER_PUSH": 0x61,
        "ERROR": 0xFF,
    }


@pytest.mark.parametrize("entry", vectors("mailbox", "blob_ids"))
def test_the_id_of_a_blob_follows_from_its_message(entry: dict[str, Any]) -> None:
    assert blob_id_of(bytes.fromhex(entry["bytes"])).hex() == entry["blob_id"]


@pytest.mark.parametrize("entry", vectors("mailbox", "orders"))
def test_everybody_prefers_the_same_mailboxes(entry: dict[str, Any]) -> None:
    mailboxes = [DeviceKey(bytes.fromhex(each)) for each in entry["mailboxes"]]
    order = ranked(DeviceKey(bytes.fromhex(entry["recipient"])), reversed(mailboxes))
    assert [each.hex() for each in order] == entry["in_order"]


def test_the_client_knows_what_no_relay_carries() -> None:
    assert fits_relay(900_000, MAXIMUM_ENVELOPE_BYTES)
    assert not fits_relay(MAXIMUM_MESSAGE_BYTES, MAXIMUM_ENVELOPE_BYTES)
    assert not fits_relay(60_000, 60_000)
