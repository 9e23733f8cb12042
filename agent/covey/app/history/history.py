"""A group's history for people, in the order that is the same on all devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from covey.app.device.device import Device
from covey.app.history.documents import HistoryEntry
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import (
    Note,
    read_body,
)
from covey.core.history.kinds import OperationKind, kind_word
from covey.core.history.operation import ID_BYTES, Operation, StoredOperation, read_operation
from covey.core.ids import GroupId
from covey.errors import LocalError

KINDS = tuple(kind.word for kind in OperationKind)
"""What operations are, as people write it."""

_WINDOW = 256
"""Operations read at a time: at most 16 MiB, and mostly 100 kB."""

_SHORTEST_ID = 4
_BEGINNING = (0, b"")


def pick_operation(device: Device, group_id: GroupId, name: str, shown_by: str = "covey history log") -> Operation:
    """Return the operation that a person means, by the beginning of its id, which a command shows.

    Raises:
        LocalError: none, or more than one; or too few digits.
    """
    digits = name.lower()
    if len(digits) < _SHORTEST_ID or len(digits) > 2 * ID_BYTES or not set(digits) <= set("0123456789abcdef"):
        raise LocalError(
            f"'{name[:70]}' is not the start of an id",
            hint=f"give at least {_SHORTEST_ID} hex digits; '{shown_by}' shows ids",
        )
    first, last = (bytes.fromhex(digits.ljust(2 * ID_BYTES, end)) for end in "0f")
    found = device.store.operations.beginning_with(group_id, first, last)
    forgotten = device.store.operations.forgotten.beginning_with(group_id, first, last)
    if len(forgotten) == 1 and not found:
        raise LocalError(
            f"this device deleted the content of operation {forgotten[0].hex()[:8]}, which a checkpoint covers",
            hint="ask a member that keeps history longer (setting history.keep_days)",
        )
    if len(found) != 1:
        what = "no operation's id begins" if not found else f"{len(found)} operations' ids begin"
        raise LocalError(f"{what} with {digits}", hint=f"'{shown_by}' shows ids")
    raw = device.store.operations.raw(group_id, found[0])
    assert raw is not None, "its id was just read"
    return read_operation(raw, verify=False)


# -- reading ----------------------------------------------------------------------------------------------------------


def entry(device: Device, manifest: GroupManifest, name: str) -> HistoryEntry:
    """Return the operation that a person means.

    Raises:
        LocalError: none, or more than one.
    """
    operation = pick_operation(device, manifest.group_id, name)
    stored_at_us = device.store.operations.stored_at_us(manifest.group_id, operation.id)
    return as_entry(device, manifest, operation, stored_at_us)


def content(device: Device, manifest: GroupManifest, name: str) -> bytes:
    """Return what a note holds.

    Raises:
        LocalError: it is no note, or not clear which is meant.
    """
    operation = pick_operation(device, manifest.group_id, name)
    body = read_body(operation)
    if not isinstance(body, Note):
        raise LocalError(f"{operation.id.hex()[:8]} is not a note")
    return body.content


def as_entry(device: Device, manifest: GroupManifest, operation: Operation, stored_at_us: int) -> HistoryEntry:
    """Return an operation as people read it."""
    group_id = manifest.group_id
    member = manifest.member(operation.author)
    known = HistoryEntry(
        operation.id.hex(),
        group_id.hex(),
        kind_word(operation.kind),
        operation.author.hex(),
        member.label if member else "",
        operation.height,
        operation.number,
        operation.made_at_us,
        stored_at_us,
        tuple(each.hex() for each in operation.parents),
        operation.manifest.hex(),
        operation.id in device.node.history.standing(group_id).void,
        device.store.operations.numbered(group_id, operation.log, operation.number) > 1,
    )
    body = read_body(operation)
    shown, target = body.shown(), body.target()
    if target is not None:
        shown["text"] += f" for {target[0].read_as(DeviceLabels((manifest,)).named)}"
    return replace(known, **shown)


def every_operation(
    device: Device, group_id: GroupId, after: tuple[int, bytes] = _BEGINNING
) -> Iterator[StoredOperation]:
    """Yield the operations of a group behind a (height, id), by height and id."""
    while window := device.store.operations.in_order(group_id, after, _WINDOW):
        yield from window
        after = (window[-1].height, window[-1].id)
