"""The newest segments of a vault, read for each device's last values and losses.

1. Segments are read from the newest backwards: the cost depends on what is read, not on the size of the vault.
2. A second look reads what has arrived since the first.
3. After `MAXIMUM_LOOK_MESSAGES` a look continues only for losses and for the newest message of each device not met yet:
   an hour of a large fleet would take a minute.
4. This device verified its own segments before landing them: messages in segments that its signed manifest names by
   hash are not verified again. Those of all others are.
5. What was read before something was erased from a vault is forgotten, and the next look reads again what is left.
6. Each device's stored values are bounded, and so is what is read at all; they are text in a `FleetTable`, with a
   summary for looks at the whole fleet.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from covey.adapters.sqlite.fleet_table import FleetTable, SaidSummary
from covey.core import crypto
from covey.core.ids import DeviceKey, NodeId, printable
from covey.core.telemetry.batch import Alarm, Batch, ClockKind
from covey.core.telemetry.decoding import KnownLayouts, read_telemetry
from covey.core.vault.documents import Erasure, SegmentEntry, SegmentRecord, open_segment
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.reading import Floor, Trouble, VaultReader
from covey.core.wire.message import Loss, LossReason, Message, MessageType, read_message
from covey.errors import RemoteError
from covey.limits.vault import (
    MAXIMUM_LOOK_BYTES,
    MAXIMUM_LOOK_MESSAGES,
    MAXIMUM_SHOWN_BOOTS,
    MAXIMUM_SHOWN_CHARACTERS,
    MAXIMUM_SHOWN_LOSSES,
    MAXIMUM_SHOWN_SERIES,
    MAXIMUM_UNREADABLE_DEVICES,
)


@dataclass(frozen=True, slots=True)
class LastValue:
    """The reading of a series with the latest time: microseconds since 1970, by the clock that `clock` tells of.

    `alarm` is what the newest alarm of the series says, at `alarm_at_us`.
    """

    name: str
    unit: str
    value: float | bool | str
    at_us: int
    clock: ClockKind
    alarm: Alarm | None = None
    alarm_at_us: int = 0


class NotedLoss(NamedTuple):
    """A record of loss, and when a collector took it."""

    reason: LossReason
    messages: int
    received_at_us: int


_OF_BOARD = re.compile(r"board/([0-9a-f]{64})/firmware").fullmatch
_FIRMWARE = ("firmware", "")
_ALARMS_NAMED = 3
"""Series in alarm that a look at the whole fleet names for each device."""
_CHARACTERS = 120
"""Of what a device says that it runs."""
_AT_ONCE = 1_000
"""Messages of a segment, until what they say is written."""


@dataclass(slots=True)
class NewestOfDevice:
    """What was found of one device, in what was read."""

    received_at_us: int = 0
    """When a collector took its newest message, by the collector's clock."""
    values: dict[tuple[str, str], LastValue] = field(default_factory=dict)
    left_out: int = 0
    """Readings of series beyond those that are kept."""
    losses: dict[bytes, NotedLoss] = field(default_factory=dict)
    """What it has admitted to be lost, by the digest of the record: two collectors may have it."""
    lost_at_us: int = 0
    """When a collector took its newest record of loss, by the collector's clock."""
    boots: dict[bytes, int] = field(default_factory=dict)
    """When the first message of each of its last boots was taken, in what was read, by the collector's clock."""

    def lost(self) -> dict[str, int]:
        """Return the messages that it has admitted to be lost, by the reason."""
        found: dict[str, int] = {}
        for each in self.losses.values():
            found[each.reason.name.lower()] = found.get(each.reason.name.lower(), 0) + each.messages
        return found

    def by_name(self) -> list[LastValue]:
        """Return the last values in the order of their names."""
        return sorted(self.values.values(), key=lambda each: (each.name, each.unit))

    def summary(self) -> SaidSummary:
        """Return what a look at the whole fleet needs of this."""
        last, lost = max(self.values.values(), key=lambda each: each.at_us, default=None), self.lost()
        alarms = sorted(each.name for each in self.values.values() if each.alarm is Alarm.RAISED)
        return SaidSummary(
            0 if last is None else last.at_us,
            "" if last is None else last.clock.name.lower(),
            self.received_at_us,
            sum(lost.values()),
            json.dumps(lost) if lost else "",
            self.lost_at_us,
            len(self.values),
            self.left_out,
            _version(self.values.get(_FIRMWARE)),
            len(alarms),
            json.dumps(alarms[:_ALARMS_NAMED]) if alarms else "",
        )

    def to_text(self) -> str:
        """Return it as JSON."""
        values = [
            [each.name, each.unit, each.value, each.at_us, int(each.clock), each.alarm or 0, each.alarm_at_us]
            for each in self.values.values()
        ]
        losses = {digest.hex(): [int(reason), *others] for digest, (reason, *others) in self.losses.items()}
        boots = {boot_id.hex(): at_us for boot_id, at_us in self.boots.items()}
        return json.dumps([self.received_at_us, self.left_out, self.lost_at_us, values, losses, boots])

    @classmethod
    def from_text(cls, text: str) -> NewestOfDevice:
        """Return what was written as JSON."""
        received_at_us, left_out, lost_at_us, values, losses, boots = json.loads(text)
        return cls(
            received_at_us,
            {
                (name, unit): LastValue(
                    name, unit, value, at_us, ClockKind(clock), Alarm(alarm) if alarm else None, alarm_at_us
                )
                for name, unit, value, at_us, clock, alarm, alarm_at_us in values
            },
            left_out,
            {bytes.fromhex(each): NotedLoss(LossReason(noted[0]), *noted[1:]) for each, noted in losses.items()},
            lost_at_us,
            {bytes.fromhex(each): at_us for each, at_us in boots.items()},
        )


def reports_version(series: str) -> bool:
    """Say whether a series tells what a device or a board runs: at a start and each hour, not as often as others."""
    return series == _FIRMWARE[0] or _OF_BOARD(series) is not None


def _version(said: LastValue | None) -> str:
    return printable(said.value, _CHARACTERS) if said is not None and isinstance(said.value, str) else ""


class SaidByDevices(Mapping[DeviceKey, NewestOfDevice]):
    """What was read of each device, from where it is kept."""

    def __init__(self, table: FleetTable) -> None:
        self._table = table

    def __getitem__(self, device: DeviceKey) -> NewestOfDevice:
        return NewestOfDevice.from_text(self._table.said([device])[device])

    def of(self, devices: Sequence[DeviceKey]) -> dict[DeviceKey, NewestOfDevice]:
        """Return what was read of some devices, of which something was: asked for together."""
        return {device: NewestOfDevice.from_text(text) for device, text in self._table.said(devices).items()}

    def __iter__(self) -> Iterator[DeviceKey]:
        return iter(self._table.said_of())

    def __len__(self) -> int:
        return len(self._table.said_of())


class NewestReadings:
    """What a vault's newest segments say, by device; kept over many looks."""

    def __init__(self, table: FleetTable | None = None) -> None:
        """Begin with nothing; what is read is kept in the table."""
        self._table = table or FleetTable()
        self.devices = SaidByDevices(self._table)
        self.unreadable = 0
        """Segments and messages that could not be read."""
        self.unreadable_of: dict[DeviceKey, int] = {}
        """Messages whose author is known, and whose readings could not be read: those of the first such authors."""
        self.not_followed: dict[str, str] = {}
        """Why the manifest of a node was not followed at the last look."""
        self.is_empty = True
        """Whether no look has found anything at all."""
        self._upto: dict[str, int] = {}
        self._erased: dict[str, tuple[Erasure, ...]] = {}
        """What was erased from each node's part, as of the last look."""
        self._known = KnownLayouts()
        self._met: set[DeviceKey] = set()
        self._opened = 0
        """Whose telemetry the look under way has opened, and how much of it."""
        self._only: DeviceKey | None = None
        """The device that the look under way is about; None for all."""

    def look(
        self,
        reader: VaultReader,
        nodes: Sequence[str],
        since_us: int,
        enough: Callable[[int], bool],
        own_node: str = "",
        only: DeviceKey | None = None,
    ) -> Iterator[None]:
        """Read new segments of some nodes; pause after each, once its content is in the table.

        Args:
            reader: the vault.
            nodes: hex ids.
            since_us: segments that were closed earlier are not read.
            enough: asked with a segment's time; whether those of that time and earlier are unnecessary.
            own_node: this device's, if it is one of them (rule 4).
            only: the only device whose messages are opened; None for all.

        Raises:
            StorageError: the vault cannot be read.
        """
        read, before = 0, dict(self._upto)
        self.not_followed.clear()
        self._met, self._opened, self._only = set(), 0, only
        for node, entry in _backwards(reader, nodes, before, self.not_followed):
            self.is_empty = False
            read += entry.size
            if entry.created_at_us < since_us or read > MAXIMUM_LOOK_BYTES or enough(entry.created_at_us):
                break
            self._upto[node] = max(entry.number, self._upto.get(node, 0))
            self._take_segment(reader, node, entry, verify=node != own_node)
            yield
        self._met.clear()
        self._forget_erased(reader, nodes)

    def _forget_erased(self, reader: VaultReader, nodes: Iterable[str]) -> None:
        held = {node: manifest.erasures for node in nodes if (manifest := reader.held(node)) is not None}
        if any(self._erased.get(node, found) != found for node, found in held.items()):
            self._table.forget_said()
            self._upto.clear()
        self._erased |= held

    def _take_segment(self, reader: VaultReader, node: str, entry: SegmentEntry, *, verify: bool) -> None:
        content = reader.segment(node, entry)
        if content is None:
            self.unreadable += 1
            return
        try:
            records = open_segment(reader.key_for(node, content), NodeId(bytes.fromhex(node)), entry, content)
        except RemoteError:
            self.unreadable += 1
            return
        newest_first = records[::-1]
        for first in range(0, len(newest_first), _AT_ONCE):
            self._take_some(newest_first[first : first + _AT_ONCE], verify=verify)

    def _take_some(self, records: Sequence[SegmentRecord], *, verify: bool) -> None:
        messages = [found for record in records if (found := self._message(record)) is not None]
        known = self._table.said(list({message.author for message, _ in messages if self._is_wanted(message)}))
        said: dict[DeviceKey, NewestOfDevice] = {}
        for message, received_at_us in messages:
            if not self._is_wanted(message):
                continue
            self._opened += message.type is MessageType.TELEMETRY
            try:
                opened = read_message(message.raw) if verify else message
                if message.author not in said:
                    text = known.get(message.author)
                    said[message.author] = NewestOfDevice() if text is None else NewestOfDevice.from_text(text)
                self._take_message(said[message.author], opened, received_at_us)
            except RemoteError:
                self.unreadable += 1
        self._write(said)

    def _write(self, said: Mapping[DeviceKey, NewestOfDevice]) -> None:
        self._table.keep_said((key, device.summary(), device.to_text()) for key, device in said.items())
        for device in said.values():
            for name, unit in device.values:
                board = _OF_BOARD(name) if name.startswith("board/") else None
                if board is not None:
                    self._table.keep_board(DeviceKey(bytes.fromhex(board[1])), _version(device.values[name, unit]))

    def _message(self, record: SegmentRecord) -> tuple[Message, int] | None:
        """Return a segment record's message and when it was received; None for other records."""
        if record_kind(record.message) is not RecordKind.MESSAGE:
            return None
        try:
            message = read_message(record.message, verify=False)
        except RemoteError:
            self.unreadable += 1
            return None
        return (message, record.received_at_us) if message.type in {MessageType.LOSS, MessageType.TELEMETRY} else None

    def _is_wanted(self, message: Message) -> bool:
        """Return whether to open a message (rule 3)."""
        if self._only is not None and message.author != self._only:
            return False
        is_beyond = self._opened >= MAXIMUM_LOOK_MESSAGES
        return message.type is MessageType.LOSS or not (is_beyond and message.author in self._met)

    def _take_message(self, device: NewestOfDevice, message: Message, received_at_us: int) -> None:
        if message.type is MessageType.LOSS:
            self._take_loss(device, message, received_at_us)
            device.lost_at_us = max(device.lost_at_us, received_at_us)
            return
        device.received_at_us = max(device.received_at_us, received_at_us)
        try:
            _, batch = read_telemetry(message.body, self._known)
        except RemoteError:
            self._note_unreadable(message.author)
            return
        self._met.add(message.author)
        self._take_boot(device, batch.clock.boot_id, received_at_us)
        self._take_batch(device, batch)

    def _note_unreadable(self, author: DeviceKey) -> None:
        if author in self.unreadable_of or len(self.unreadable_of) < MAXIMUM_UNREADABLE_DEVICES:
            self.unreadable_of[author] = self.unreadable_of.get(author, 0) + 1

    def _take_boot(self, device: NewestOfDevice, boot_id: bytes, received_at_us: int) -> None:
        device.boots[boot_id] = min(received_at_us, device.boots.get(boot_id, received_at_us))
        if len(device.boots) > MAXIMUM_SHOWN_BOOTS:
            del device.boots[min(device.boots, key=device.boots.__getitem__)]

    def _take_loss(self, device: NewestOfDevice, message: Message, received_at_us: int) -> None:
        loss = Loss.from_wire(message.body)
        count = sum(last - first + 1 for first, last in loss.places)
        if len(device.losses) < MAXIMUM_SHOWN_LOSSES:
            noted = NotedLoss(loss.reason, count, received_at_us)
            device.losses.setdefault(crypto.digest(b"covey/1 loss", message.raw), noted)

    def _take_batch(self, device: NewestOfDevice, batch: Batch) -> None:
        for name, unit, at_us, value in batch.readings():
            known = device.values.get((name, unit))
            if known is None and len(device.values) >= MAXIMUM_SHOWN_SERIES:
                device.left_out += 1
                continue
            alarm = (None, 0) if known is None else (known.alarm, known.alarm_at_us)
            if batch.alarm is not None and (alarm[0] is None or at_us > alarm[1]):
                alarm = batch.alarm, at_us
            if known is None or at_us > known.at_us:
                device.values[name, unit] = LastValue(name, unit, _shown(value), at_us, batch.clock.kind, *alarm)
            elif alarm[1] != known.alarm_at_us:
                device.values[name, unit] = replace(known, alarm=alarm[0], alarm_at_us=alarm[1])


def _shown(value: float | bool | str | bytes) -> float | bool | str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value[:MAXIMUM_SHOWN_CHARACTERS] if isinstance(value, str) else value


def segments_backwards(reader: VaultReader, nodes: Iterable[str]) -> Iterator[tuple[str, SegmentEntry]]:
    """Yield the segments of several nodes with their nodes, the newest first.

    Raises:
        StorageError: the vault cannot be read.
    """
    return _backwards(reader, nodes, {}, {})


def messages_of(
    reader: VaultReader, node: str, entry: SegmentEntry, author: DeviceKey, types: Collection[MessageType]
) -> Iterator[Message]:
    """Yield the messages of some types by one author in a segment, verified; what cannot be read is left out.

    Raises:
        StorageError: the vault cannot be read.
    """
    content = reader.segment(node, entry)
    if content is None:
        return
    with suppress(RemoteError):
        for record in open_segment(reader.key_for(node, content), NodeId(bytes.fromhex(node)), entry, content):
            with suppress(RemoteError):
                message = read_message(record.message, verify=False)
                if message.author == author and message.type in types:
                    yield read_message(record.message)


def _backwards(
    reader: VaultReader, nodes: Iterable[str], upto: dict[str, int], not_followed: dict[str, str]
) -> Iterator[tuple[str, SegmentEntry]]:
    return heapq.merge(
        *(_of_node(reader, node, upto.get(node, 0), not_followed) for node in nodes),
        key=lambda each: -each[1].created_at_us,
    )


def _of_node(
    reader: VaultReader, node: str, upto: int, not_followed: dict[str, str]
) -> Iterator[tuple[str, SegmentEntry]]:
    found, manifest = reader.manifest(node, Floor()), reader.held(node)
    if isinstance(found, Trouble) and (manifest is not None or found.code != "missing"):
        not_followed[node] = found.code
    if manifest is None:
        return
    for entry in reversed(manifest.segments):
        if entry.number <= upto:
            return
        yield node, entry
    for named in reversed(manifest.ranges):
        entries = reader.range_entries(node, named)
        if isinstance(entries, Trouble):
            not_followed[node] = entries.code
            continue
        for entry in reversed(entries):
            if entry.number <= upto:
                return
            yield node, entry
