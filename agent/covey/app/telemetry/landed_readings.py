"""Yield each reading that has landed in a vault once, for users who do not fill tables.

Parquet would need pyarrow, which has no wheel for 32 bits; CSV has one column for values of four types.

1. They come node by node of the vault, in the order of landing; users sort as they like.
2. A message that is in the vault twice, since two collectors landed it or it was imported again, is yielded once.
3. Unreadable messages are skipped and reported, and the rest follows.
4. One batch is in memory at a time, and one bit for each message, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from covey.app.telemetry.landed_batches import LandedBatches
from covey.app.telemetry.vault import known_nodes, vault_nodes, vault_reader
from covey.core.group.device_labels import DeviceLabels
from covey.core.telemetry.doors import DoorGap, DoorMessage, LandedPosition
from covey.core.telemetry.names import shown
from covey.core.vault.reading import Floor, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covey.app.device.device import Device
    from covey.core.vault.reading import VaultReader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Of the calendar: years 1 to 9999."""
_PAGE_BITS = 1024


@dataclass(frozen=True, slots=True)
class LandedReading:
    """One reading, with the columns of the ingest's table `readings`, as far as a vault has them.

    `label` and `name`, `unit` and `text` are the device's own words. Of `value`, `flag`, `text` and `data` (hex) one is
    there. `alarm` is "raised", "ended", "changed" or null. `incarnation`, `seq` and `index` tell a reading from every
    other one of its author. Times are RFC 3339 in UTC.
    """

    author: str
    label: str
    name: str
    unit: str
    time: str
    value: float | None
    flag: bool | None
    text: str | None
    data: str | None
    alarm: str | None
    time_quality: str
    incarnation: str
    seq: int
    index: int
    received_at: str

    def is_of(self, series: str) -> bool:
        """Say whether it is of a series, named as sent or as people read it."""
        return series in {self.name, shown(self.name)}


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a vault that cannot be read, and why."""

    what: str
    why: str


def landed_readings(device: Device, location: str | None) -> Iterator[LandedReading | Unread]:
    """Yield all that has landed in a vault, and what of it cannot be read.

    Raises:
        ConfigurationError: there is no such vault.
        LocalError: this device has no vault's keys.
        StorageError: the store cannot be read.
    """
    from covey.adapters.objects.location import open_existing_store

    if location is not None:
        open_existing_store(location)  # what is mistyped is not made
    reader = vault_reader(device, location)
    labels = DeviceLabels(device.node.groups.joined())
    for found in each_message(reader, vault_nodes(device, known_nodes(device, location))):
        if isinstance(found, Unread):
            yield found
        else:
            yield from _readings(found, labels.label(found.author))


def each_message(reader: VaultReader, nodes: Iterable[str]) -> Iterator[DoorMessage | Unread]:
    """Yield every message of telemetry that some nodes have landed, once, and what cannot be read.

    Raises:
        StorageError: the store cannot be read.
    """
    landed, seen = LandedBatches(reader), _SeenMessages()
    for node in nodes:
        manifest = reader.manifest(node, Floor())
        if isinstance(manifest, Trouble) and (manifest.code != "missing" or reader.held(node)):
            yield Unread(f"the manifest of node {node}", manifest.code)
        place, gap = LandedPosition(1), None
        while (found := landed.next(node, place)) is not None:
            if isinstance(found, DoorGap):
                if gap is not None and gap.reason == found.reason:
                    found = replace(found, first=gap.first)
                elif gap is not None:
                    yield _unread(gap)
                place, gap = LandedPosition(found.last + 1), found
                continue
            if gap is not None:
                yield _unread(gap)
            yield from (each for each in found.messages if seen.is_new(each))
            yield from map(_unread, found.passed)
            place, gap = found.plan.end, None
        if gap is not None:
            yield _unread(gap)


def _unread(gap: DoorGap) -> Unread:
    upto = "" if gap.last == gap.first else f" to {gap.last}"
    return Unread(f"segment {gap.first}{upto} of node {gap.node}", gap.reason)


def _readings(message: DoorMessage, label: str) -> Iterator[LandedReading]:
    _, incarnation, seq = message.id.split("-")
    received_at, quality = _time(message.received_at_us), message.clock.name.lower()
    for index, reading in enumerate(message.readings):
        value = reading.value
        yield LandedReading(
            author=message.author.hex(),
            label=label,
            name=reading.name,
            unit=reading.unit,
            time=_time(reading.at_us),
            value=value if isinstance(value, int | float) and not isinstance(value, bool) else None,
            flag=value if isinstance(value, bool) else None,
            text=value if isinstance(value, str) else None,
            data=value.hex() if isinstance(value, bytes) else None,
            alarm=None if message.alarm is None else message.alarm.name.lower(),
            time_quality=quality,
            incarnation=incarnation,
            seq=int(seq),
            index=index,
            received_at=received_at,
        )


def _time(at_us: int) -> str:
    """Return a time for machines; one beyond the calendar becomes its end."""
    within = min(max(at_us, _FIRST_US), _LAST_US)
    return (_EPOCH + timedelta(microseconds=within)).isoformat(timespec="microseconds")


@dataclass(slots=True)
class _SeenMessages:
    """Which messages came: of each author and incarnation pages of bits, one for each `seq`."""

    _pages: dict[tuple[str, int], int] = field(default_factory=dict)

    def is_new(self, message: DoorMessage) -> bool:
        """Say whether it comes for the first time, and note it."""
        incarnation, _, seq = message.id.rpartition("-")
        page, bit = divmod(int(seq), _PAGE_BITS)
        before = self._pages.get((incarnation, page), 0)
        after = before | 1 << bit
        self._pages[incarnation, page] = after
        return after != before
