"""Landed messages of a vault from a position on, a batch at a time.

1. A batch is bounded in messages and readings, and in the segments that it is gathered from.
2. One segment is open at a time, and kept only while there is more of it to send.
3. Anything but telemetry and its summaries is skipped; an unreadable message, too, with a record.
4. An unreadable part of the vault is reported, after everything before it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from covey.core.ids import NodeId
from covey.core.telemetry.batch import Kind
from covey.core.telemetry.decoding import KnownLayouts, read_telemetry
from covey.core.telemetry.doors import DoorGap, DoorMessage, DoorReading, DoorWindow, LandedPosition, Plan
from covey.core.telemetry.summaries import Summary, read_summary
from covey.core.vault.documents import SegmentEntry, SegmentRecord, VaultManifest, open_segment
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.reading import Floor, Trouble, VaultReader
from covey.core.wire.message import MessageType, read_message
from covey.errors import RemoteError
from covey.limits.doors import DOOR_BATCH_MESSAGES, DOOR_BATCH_READINGS, DOOR_BATCH_SEGMENTS


@dataclass(frozen=True, slots=True)
class Batch:
    """What a plan holds, where each message ends, and what was passed over."""

    plan: Plan
    messages: tuple[DoorMessage, ...]
    ends: tuple[LandedPosition, ...]
    passed: tuple[DoorGap, ...]


class LandedBatches:
    """Reads a vault for one door."""

    def __init__(self, reader: VaultReader) -> None:
        self._reader = reader
        self._known = KnownLayouts()
        self._open: tuple[str, bytes, tuple[SegmentRecord, ...]] = ("", b"", ())
        """The segment that was read last: its node, its hash, its messages."""

    def last(self, node: str) -> int:
        """Return the position of the newest segment that a node's manifest lists, or 0.

        What does not follow the last good manifest changes nothing.
        """
        found = self._manifest(node)
        return 0 if found is None else found.last_number

    def last_known(self, node: str) -> int:
        """Return that of the manifest that was read last; the store is not asked."""
        found = self._reader.held(node)
        return 0 if found is None else found.last_number

    def forget(self) -> None:
        """Release the open segment."""
        self._open = ("", b"", ())

    def next(self, node: str, place: LandedPosition) -> Batch | DoorGap | None:
        """Return the batch there, or a gap that begins there; None if nothing has landed yet.

        Raises:
            StorageError: the store cannot be read.
        """
        return self._gather(node, place, None)

    def planned(self, plan: Plan) -> Batch | DoorGap | None:
        """Return what a plan holds, as `next` found it once; None where its manifest is not there.

        Raises:
            StorageError: the store cannot be read.
        """
        return self._gather(plan.node, plan.first, plan.end)

    def _gather(self, node: str, place: LandedPosition, end: LandedPosition | None) -> Batch | DoorGap | None:
        manifest = self._manifest(node)
        last = 0 if manifest is None else manifest.last_number
        if manifest is None or place.number > last:
            return None
        gathered = _Gathering(node, place, end, self._known)
        until = min(last, place.number + DOOR_BATCH_SEGMENTS - 1)
        if end is not None:
            until = end.number if end.within else end.number - 1
        for records in self._records(manifest, node, gathered, until):
            if isinstance(records, DoorGap):
                return records if gathered.place == place else gathered.batch()
            if not gathered.take(records):
                break
        return gathered.batch()

    def _manifest(self, node: str) -> VaultManifest | None:
        found = self._reader.manifest(node, Floor())
        return self._reader.held(node) if isinstance(found, Trouble) else found

    def _records(
        self, manifest: VaultManifest, node: str, gathered: _Gathering, until: int
    ) -> Iterator[tuple[SegmentRecord, ...] | DoorGap]:
        for planned in self._entries(manifest, node, gathered.place.number, until):
            place = gathered.place.number
            if isinstance(planned, DoorGap) or planned.first > place:
                yield planned if isinstance(planned, DoorGap) else DoorGap(node, place, planned.first - 1, "not listed")
                return
            if planned.number < place:
                continue
            for entry, content in self._reader.contents(node, planned):
                try:
                    found = "missing" if content is None else self._opened(node, entry, content)
                except RemoteError as error:
                    found = error.code
                if isinstance(found, str):
                    yield DoorGap(node, max(entry.first, gathered.place.number), entry.number, found)
                    return
                yield found
                gathered.pass_to(entry.number + 1)

    def _entries(self, manifest: VaultManifest, node: str, first: int, until: int) -> Iterator[SegmentEntry | DoorGap]:
        while first <= until:
            ranged = next((each for each in manifest.ranges if each.last >= first), None)
            upto = until if ranged is None else min(until, ranged.last)
            entries = self._reader.entries(node, manifest, first, upto)
            if isinstance(entries, Trouble) or not entries:
                code = entries.code if isinstance(entries, Trouble) else "not listed"
                yield DoorGap(node, first, upto if ranged is None else ranged.last, code)
                return
            yield from entries
            first = upto + 1

    def _opened(self, node: str, entry: SegmentEntry, content: bytes) -> tuple[SegmentRecord, ...]:
        known_node, known_hash, records = self._open
        if (known_node, known_hash) != (node, entry.hash):
            records = open_segment(self._reader.key_for(node, content), NodeId(bytes.fromhex(node)), entry, content)
            self._open = node, entry.hash, records
        return records


class _Gathering:
    """A batch that grows."""

    def __init__(self, node: str, place: LandedPosition, end: LandedPosition | None, known: KnownLayouts) -> None:
        self.place = place
        """Where the first message stands that was not looked at."""
        self._first, self._end, self._node, self._known = place, end, node, known
        self._messages: list[DoorMessage] = []
        self._ends: list[LandedPosition] = []
        self._passed: list[DoorGap] = []
        self._readings = 0

    def take(self, records: tuple[SegmentRecord, ...]) -> bool:
        """Take messages as far as there is room; return whether there is room for more."""
        for record in records:
            at = LandedPosition(record.number, record.index)
            if at < self.place:
                continue
            if self._end is not None and at >= self._end:
                return False
            try:
                message = read_landed(record, self._known)
            except RemoteError as error:
                message = None
                self._passed.append(DoorGap(self._node, record.number, record.number, f"a message: {error.code}"))
            if message is not None and not self._has_room_for(message):
                return False
            if message is not None:
                self._messages.append(message)
                self._ends.append(LandedPosition(record.number, record.index + 1))
                self._readings += len(message.readings)
            self.place = LandedPosition(record.number, record.index + 1)
        return True

    def _has_room_for(self, message: DoorMessage) -> bool:
        if self._end is not None or not self._messages:
            return True
        within = self._readings + len(message.readings) <= DOOR_BATCH_READINGS
        return within and len(self._messages) < DOOR_BATCH_MESSAGES

    def pass_to(self, number: int) -> None:
        """Note that all positions before this one were looked at."""
        self.place = max(self.place, LandedPosition(number))

    def batch(self) -> Batch:
        """Return what was gathered."""
        end = self._end or self.place
        return Batch(Plan(self._node, self._first, end), tuple(self._messages), tuple(self._ends), tuple(self._passed))


def read_landed(record: SegmentRecord, known: KnownLayouts) -> DoorMessage | None:
    """Return a landed message of telemetry or a summary; None for one of another kind.

    Raises:
        RemoteError: no message, not its author's, or of a shape that nobody reads.
    """
    if record_kind(record.message) is not RecordKind.MESSAGE:
        return None
    message = read_message(record.message, verify=False)
    if message.type not in {MessageType.TELEMETRY, MessageType.SUMMARY}:
        return None
    message = read_message(record.message)
    message_id = f"{message.author.hex()}-{message.incarnation.hex()}-{message.seq}"
    about = message_id, message.author, message.group_id.hex(), record.received_at_us
    if message.type is MessageType.SUMMARY:
        _, summary = read_summary(message.body)
        return DoorMessage(*about, summary.clock.kind, (), windows=tuple(_windows(summary)))
    _, batch = read_telemetry(message.body, known)
    return DoorMessage(*about, batch.clock.kind, tuple([DoorReading(*each) for each in batch.readings()]), batch.alarm)


def _windows(summary: Summary) -> Iterator[DoorWindow]:
    """Yield the windows of numbers; values of texts and data are gone, and booleans have no mean."""
    for series in summary.series:
        if series.kind not in {Kind.DECIMAL, Kind.FLOAT}:
            continue
        power = 10**series.scale
        for window in series.windows:
            yield DoorWindow(
                series.name,
                series.unit,
                summary.wall_us(window.first_us),
                summary.wall_us(window.last_us),
                window.readings,
                window.total / power,
                window.minimum / power,
                window.maximum / power,
            )
