"""What today's build makes of newer ones' structures: extension maps, unknown types, kinds and rules (growth.json)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from covey.core.ephemeral.state import Ephemeral
from covey.core.group.manifest import read_manifest
from covey.core.group.messages import Bundle, pull_from_wire
from covey.core.group.policy import read_vote
from covey.core.group.revocation import read_revoke
from covey.core.group.trust import GroupTrust
from covey.core.history.bodies import Note, Opaque, read_body
from covey.core.history.messages import HistoryPull, OperationBundle
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import SettingOrder
from covey.core.ids import DeviceKey
from covey.core.link.link_keys import LinkKey
from covey.core.pairing.invite import JoinRequest
from covey.core.presence.status import Presence
from covey.core.routing.forwarding import Forward
from covey.core.wire.heads import HeadsReport
from covey.core.wire.message import Acknowledgement, Loss, LossReason, Message, Resumption, read_message
from covey.errors import RemoteError, UnsupportedError
from tests.vectors import load, vectors


def _message(raw: bytes) -> Message:
    """Return a message that this build knows; a sequenced one that it does not is set aside by its number."""
    message = read_message(raw)
    if message.newer:
        raise UnsupportedError(message.newer)
    return message


READERS: dict[str, Callable[[bytes], Any]] = {
    "message": _message,
    "operation": read_operation,
    "group manifest": read_manifest,
    "vote": read_vote,
    "revoke": read_revoke,
    "ACK": Acknowledgement.from_wire,
    "LINK": lambda body: LinkKey.from_wire(DeviceKey(bytes(32)), body),
    "LOSS": Loss.from_wire,
    "RESUME": Resumption.from_wire,
    "JOIN": JoinRequest.from_wire,
    "GROUP_PULL": pull_from_wire,
    "GROUP_MANIFEST": Bundle.from_wire,
    "PRESENCE": Presence.from_wire,
    "HEADS": HeadsReport.from_wire,
    "OPERATIONS": OperationBundle.from_wire,
    "HISTORY_PULL": HistoryPull.from_wire,
    "EPHEMERAL": Ephemeral.from_wire,
    "FORWARD": Forward.from_wire,
    "note": Note.from_wire,
    "setting": SettingOrder.from_wire,
}


def _judge(code: str | None, read: Callable[[], Any]) -> None:
    if code is None:
        read()
        return
    with pytest.raises(RemoteError) as caught:
        read()
    assert caught.value.code == code


@pytest.mark.parametrize("vector", vectors("growth"))
def test_extension_maps(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["bytes"])
    _judge(vector["code"], lambda: READERS[vector["structure"]](raw))


@pytest.mark.parametrize("vector", vectors("growth", "acknowledgements"))
def test_acknowledgements_list_unsupported_types(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    _judge(vector["code"], lambda: Acknowledgement.from_wire(body))
    if vector["code"] is None:
        read = Acknowledgement.from_wire(body)
        assert list(read.unsupported) == vector["unsupported"]
        assert read.to_wire() == body


@pytest.mark.parametrize("vector", vectors("growth", "trust"))
def test_announcements_and_later_rules(vector: dict[str, Any]) -> None:
    held = read_manifest(bytes.fromhex(vector["held"]))
    trust = GroupTrust(held.group_id, held)
    _judge(vector["code"], lambda: trust.update(bytes.fromhex(vector["bytes"])))


def test_the_next_manifest_keeps_what_a_newer_member_announces() -> None:
    """What this build does not know of a member's record goes on with it, whoever issues the next manifest."""
    entry = next(each for each in load("growth")["trust"] if each["name"] == "announces what a newer build supports")
    manifest = read_manifest(bytes.fromhex(entry["bytes"]))
    said = [member.extensions for member in manifest.members]
    assert [member.extensions for member in manifest.draft().members] == said
    assert any(b"more" in each for each in said)


def test_an_unknown_reason_of_a_loss_is_kept_as_its_number() -> None:
    loss = Loss.from_wire(Loss(LossReason(200), ((5, 9),)).to_wire())
    assert (int(loss.reason), loss.reason.name) == (200, "REASON_200")


def test_operations_of_later_kinds_are_opaque(first_operation: Operation) -> None:
    for kind in (15, 255):
        body = read_body(replace(first_operation, kind=kind, body=b"\xff"))
        assert isinstance(body, Opaque)
        assert body.shown()["bytes"] == 1


@pytest.fixture
def first_operation() -> Operation:
    return read_operation(bytes.fromhex(load("history")["operations"][0]["bytes"]))
