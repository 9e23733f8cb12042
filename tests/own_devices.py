"""A person's devices in one process: what they hold of their groups, and what each does about it."""

from __future__ import annotations

from covey.core.group.manifest import Mode
from covey.core.history.bodies import Note, read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.ids import GroupId
from covey.core.own.own_devices import OwnDevices
from covey.core.own.state import PersonalState
from tests.fleet import Device, admit, carry


def own(device: Device) -> OwnDevices:
    node = device.node
    return OwnDevices(node.identity, node.groups, node.history, node.actions, device.store)


def state(device: Device) -> PersonalState:
    personal = own(device).group()
    assert personal is not None
    return own(device).state(personal)


def create(device: Device, mode: Mode = Mode.INVITES_ONLY) -> GroupId:
    with device.store.transaction():
        return device.node.membership.create(device.name, (), device.now.wall_us, mode).group_id


def linked(*devices: Device) -> GroupId:
    """Make these one person's."""
    group_id = create(devices[0], Mode.PERSONAL)
    for each in devices:
        with each.store.transaction():
            each.store.personal.pin(group_id)
        if each is not devices[0]:
            admit(devices[0], each, group_id)
    settle(*devices)
    return group_id


def settle(*devices: Device) -> None:
    """Let everybody do what is due, and hear of each other, until nothing changes any more."""
    for _ in range(4):
        for each in devices:
            with each.store.transaction():
                list(own(each).turn(each.name, each.now))
        carry(*devices)
        for each in devices:
            each.wait(2)
            each.maintain()


def leave(device: Device, group_id: GroupId) -> None:
    with device.store.transaction():
        own(device).leave(group_id, device.now)


def write(device: Device, group_id: GroupId, text: bytes) -> None:
    with device.store.transaction():
        device.node.history.write(group_id, Note("text/plain", text), device.now)


def notes(device: Device, group_id: GroupId) -> list[bytes]:
    operations = device.store.operations.of_kind(group_id, OperationKind.NOTE)
    bodies = [read_body(read_operation(stored.raw)) for stored in operations]
    return [body.content for body in bodies if isinstance(body, Note)]


def members(device: Device, group_id: GroupId) -> set[bytes]:
    return {member.keys.signing_public for member in device.node.groups.group(group_id).members}


def joined(device: Device) -> set[GroupId]:
    return {group.group_id for group in device.node.groups.joined()}


def has_nothing_of(device: Device, group_id: GroupId) -> bool:
    """Say whether neither a secret of a group nor its history is in the store."""
    [[secrets]] = device.store.database.run("SELECT count(*) FROM epoch_secret WHERE group_id = ?", (group_id,))
    return not secrets and not device.store.operations.heads(group_id)
