"""One device's story for people: a line per event, and where its readings are now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from covey.app.wording import count
from covey.core.group.device_labels import DeviceLabels
from covey.core.history.operation import read_operation
from covey.core.ids import DeviceKey, OperationId, printable
from covey.core.link.queued import MessageClass
from covey.limits.storage import EVENTS_KEPT

if TYPE_CHECKING:
    from covey.adapters.sqlite.events import KeptEvent
    from covey.app.device.device import Device
    from covey.app.telemetry.newest_readings import NewestOfDevice
    from covey.core.group.manifest import GroupManifest
    from covey.core.wire.sequences import Range

_LINES = 50
_OF_A_LOG = 10
"""Operations of one life of the device: more of them are for `covey history log --author`."""
_LOGS = 16
_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One thing that happened, in microseconds since 1970: of a collector's clock, or for what it wrote, of its own."""

    at_us: int
    what: str


@dataclass(frozen=True, slots=True)
class Custody:
    """Where the readings of a device are that have left it: what it still keeps, it alone knows.

    `missing`: numbers of its links below the highest that came, which have not come; `landing`: messages that are here
    and not yet in the vault, of so many bytes, the oldest since `landing_since_us`.
    """

    missing: int
    landing: int
    landing_bytes: int
    landing_since_us: int | None


def custody(device: Device, key: DeviceKey) -> Custody:
    """Return where the readings of a device are."""
    missing = sum(_missing(received.spans()) for _, received in device.store.received.links(key))
    return Custody(missing, *device.store.landing.of_author(key))


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that waits here for a device's acknowledgement, of so many bytes."""

    kind: str
    size: int
    queued_at_us: int


def waiting_for(device: Device, key: DeviceKey, limit: int) -> list[HeldMessage]:
    """Return the oldest messages that wait here for a device."""
    found = device.store.outbox.waiting(key, limit)
    return [HeldMessage(MessageClass(kind).name.lower(), size, at_us) for _, kind, size, at_us in found]


def _missing(spans: list[Range]) -> int:
    return spans[-1][1] - sum(last - first + 1 for first, last in spans) if spans else 0


def story(device: Device, key: DeviceKey, said: NewestOfDevice) -> list[StoryLine]:
    """Return what is known of a device, the newest first: bounded, since a page has an end.

    Args:
        device: this one.
        key: the device that is meant.
        said: what the newest part of the vault says of it.
    """
    groups = {group.group_id: group for group in device.node.groups.joined()}
    found = [StoryLine(at_us, "restarted") for at_us in sorted(said.boots.values())[1:]]
    found += (
        StoryLine(
            each.received_at_us, f"lost {count(each.messages, 'message')}: {each.reason.name.lower().replace('_', ' ')}"
        )
        for each in said.losses.values()
    )
    for event in device.store.events.between(0, device.store.events.last_number(), EVENTS_KEPT):
        group = groups.get(event.group_id)
        if group is not None:
            found += (StoryLine(event.at_us, what) for what in _of_event(device, group, event, key))
    for group in groups.values():
        found += _written(device, group, key)
    found.sort(key=lambda each: each.at_us, reverse=True)
    return found[:_LINES]


def _of_event(device: Device, group: GroupManifest, event: KeptEvent, key: DeviceKey) -> Iterator[str]:
    about, subject = event.about, key.hex()
    if event.kind in {"group_changed", "group_joined"}:
        by = f"{_title(device, group)} by {DeviceLabels((group,)).named(DeviceKey(bytes.fromhex(about['by'])))}"
        if _names(about.get("added", ()), subject):
            yield f"added to {by}"
        if _names(about.get("removed", ()), subject):
            yield f"removed from {by}"
    elif event.kind == "vote" and about["target"] == subject:
        voter = DeviceLabels((group,)).named(DeviceKey(bytes.fromhex(about["voter"])))
        yield f"{voter} voted to {about['action'].replace('_', ' ')} it ({about['votes']} of {about['needed']})"
    elif event.kind == "order_result" and about["device"] == subject:
        yield from _result(device, group, OperationId(bytes.fromhex(about["order"])), key)


def _names(members: list[dict[str, Any]], subject: str) -> bool:
    return any(each["device"] == subject for each in members)


def _title(device: Device, group: GroupManifest) -> str:
    return printable(device.node.history.profile(group.group_id).title, 64) or group.group_id.hex()[:8]


def _result(device: Device, group: GroupManifest, order: OperationId, key: DeviceKey) -> Iterator[str]:
    kept, raw = device.store.order_results.of_device(group.group_id, order, key), None
    if kept is not None:
        raw = device.store.operations.raw(group.group_id, order)
    if kept is None or raw is None:
        return
    from covey.app.history.history import as_entry

    text = printable(as_entry(device, group, read_operation(raw, verify=False), 0).text or "", _CHARACTERS)
    result = kept.result
    ended = "" if result.exit is None else f" with {result.exit}"
    why = f": {printable(result.why, _CHARACTERS)}" if result.why else ""
    yield f"ordered to {text}: {result.state.name.lower()}{ended}{why}"


def _written(device: Device, group: GroupManifest, key: DeviceKey) -> Iterator[StoryLine]:
    from covey.app.history.history import as_entry

    records = device.store.operations
    logs = (each for each in records.logs(group.group_id) if each[0].author == key)
    for log, number in islice(logs, _LOGS):
        for _, _, raw in islice(records.after(group.group_id, log, max(0, number - _OF_A_LOG)), _OF_A_LOG):
            entry = as_entry(device, group, read_operation(raw, verify=False), 0)
            if entry.kind not in {"merge", "checkpoint"}:
                text = printable(entry.text or entry.title or entry.mime or entry.uri or "", _CHARACTERS)
                yield StoryLine(entry.made_at_us, _in_words(entry.kind, text))


def _in_words(kind: str, text: str) -> str:
    if kind == "obeying":  # a device's word on itself
        return text
    return f"wrote {'an' if kind[0] in 'aeiou' else 'a'} {kind}{f': {text}' if text else ''}"
