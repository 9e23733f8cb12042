"""What tests of a history have devices do: write, read, meet, and send what no honest member would."""

from __future__ import annotations

from dataclasses import replace

from covey.app.groups.groups import removal
from covey.core.crypto import Identity
from covey.core.group.manifest import Member
from covey.core.history.bodies import Note, read_body
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.ids import GroupId, Incarnation, Place
from covey.core.link.queued import Lane
from covey.core.wire.message import MessageType
from covey.limits.history import (
    ANNOUNCE_US,
)
from tests.fleet import Device, carry


def write_note(device: Device, group_id: GroupId, text: str) -> Operation:
    with device.store.transaction():
        return device.node.history.write(group_id, Note("text/plain", text.encode()), device.now)


def read_notes(device: Device, group_id: GroupId) -> list[str]:
    """Return what the notes of a group say, in the order that holds everywhere."""
    bodies = [read_body(read_operation(stored.raw)) for stored in device.store.operations.in_order(group_id)]
    return [body.content.decode() for body in bodies if isinstance(body, Note)]


def send_as_it_is(author: Device, recipient: Device, group_id: GroupId, kind: MessageType, body: bytes) -> None:
    """Send what no honest node would."""
    with author.store.transaction():
        author.node._queue.queue(recipient.key, kind, group_id, body, author.now)
    carry(author, recipient)


def remove(remover: Device, removed: Device | Identity, group_id: GroupId) -> None:
    key = removed.key if isinstance(removed, Device) else removed.signing_public
    with remover.store.transaction():
        remover.node.actions.change(group_id, removal(key), remover.now)


def relabel(changer: Device, member: Device, label: str, group_id: GroupId) -> None:
    present = changer.node.groups.group(group_id).member(member.key)
    assert present is not None
    with changer.store.transaction():
        changer.node.actions.change(
            group_id, lambda draft, _: draft.changing(replace(present, label=label)), changer.now
        )


def maintain(*devices: Device) -> None:
    for device in devices:
        device.wait(ANNOUNCE_US / 1_000_000)
        device.maintain()
    carry(*devices)


def forge(device: Device, group_id: GroupId, number: int, text: str, *parents: Operation, **other: int) -> Operation:
    """Return an operation that a device signs as it likes."""
    height = other.get("height", 1 + max((each.height for each in parents), default=0))
    log = Log(device.key, Incarnation(bytes([other.get("life", 9)] * 8)))
    named = device.node.groups.group(group_id).hash
    ids = tuple(sorted(each.id for each in parents))
    previous = next((each.id for each in parents if (each.log, each.number + 1) == (log, number)), None)
    body = Note("text/plain", text.encode()).to_wire()
    kind = other.get("kind", 1)
    return sign_operation(
        Operation(group_id, log, number, previous, ids, height, named, 0, kind, body), device.identity
    )


def let_in(sponsor: Device, guest: Identity, group_id: GroupId) -> None:
    """Have a device list a guest as a member, whatever the guest does."""
    with sponsor.store.transaction():
        sponsor.node.actions.change(group_id, lambda draft, _: draft.adding(Member(guest.keys)), sponsor.now)


def forge_as(guest: Identity, teller: Device, group_id: GroupId, text: str, *parents: Operation) -> Operation:
    """Return the first operation of a guest, under the manifest that a device holds."""
    ids, height = tuple(sorted(each.id for each in parents)), 1 + max((each.height for each in parents), default=0)
    log, named = Log(guest.signing_public, Incarnation(bytes(8))), teller.node.groups.group(group_id).hash
    body = Note("text/plain", text.encode()).to_wire()
    return sign_operation(Operation(group_id, log, 1, None, ids, height, named, 0, 1, body), guest)


def bundle_of(*operations: Operation) -> bytes:
    return OperationBundle(tuple(each.raw for each in operations)).to_wire()


def meet(*devices: Device, seconds: int = 60) -> None:
    """Let devices hear each other for a while, and do what is due."""
    for _ in range(seconds):
        for device in devices:
            device.wait(1)
            device.maintain()
        carry(*devices)


def history_waiting(device: Device, member: Device) -> list[tuple[Place, bytes]]:
    return device.store.outbox.queued(member.key, Place(0), 100, 2**40, lane=Lane.HISTORY)
