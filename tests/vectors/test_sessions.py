"""Each envelope of the recorded session opens to its message, which its author has signed for its recipient."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.pairing.invite import Invite
from covey.core.wire.envelope import SealedEnvelope, read_envelope
from covey.core.wire.message import MessageType, read_message
from covey.errors import NotForUsError, RemoteError
from tests.vectors import load, vectors

_FILE = load("sessions")


@pytest.mark.parametrize("step", vectors("sessions", "steps"))
def test_an_envelope_opens_to_its_message(step: dict[str, Any]) -> None:
    envelope = read_envelope(bytes.fromhex(step["bytes"]))
    assert isinstance(envelope, SealedEnvelope)
    keys = _FILE["keys"]
    raw = envelope.open(bytes.fromhex(keys[step["to"]]["noise_secret"]))
    message = read_message(raw)
    assert raw.hex() == step["message"]
    assert (message.type, message.link_seq) == (MessageType[step["type"]], step["link_seq"])
    assert (message.author.hex(), message.recipient.hex()) == tuple(
        keys[step[side]]["signing_public"] for side in ("from", "to")
    )
    assert (message.group_id.hex(), message.body.hex()) == (step["group_id"], step["body"])
    assert step["topic"] == f"covey/1/in/{message.recipient[:16].hex()}"


@pytest.mark.parametrize("vector", vectors("sessions", "refused"))
def test_manipulated_envelopes_are_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(RemoteError) as caught:
        _take(bytes.fromhex(vector["bytes"]), _FILE["keys"][vector["to"]])
    assert caught.value.code == vector["code"]


def _take(raw: bytes, keys: dict[str, str]) -> None:
    envelope = read_envelope(raw)
    assert isinstance(envelope, SealedEnvelope)
    if read_message(envelope.open(bytes.fromhex(keys["noise_secret"]))).recipient.hex() != keys["signing_public"]:
        raise NotForUsError("names another recipient")


def test_the_session_has_what_a_device_needs_first() -> None:
    assert {"JOIN", "GROUP_MANIFEST", "ACK", "TELEMETRY", "HEADS", "OPERATIONS", "BLOB"} == set(_FILE["types"])
    assert Invite.from_uri(_FILE["invite"]).group_id.hex() == _FILE["group_id"]
