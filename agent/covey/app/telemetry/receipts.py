"""Write a receipt of one stored reading, and verify one (docs/protocol/vault.md, "Receipts").

1. Every reader of a vault can write a receipt; the device need not be reachable, nor be a member any more.
2. A reading is found by its device, its series and its time, as `covey vault readings` prints them.
3. A receipt holds the newest manifest that this device has and that lists the author, if both fit in 2 KiB.
4. Verifying needs the device's key only: no state folder, no agent, no vault.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from covey.core.ids import DeviceKey, key_from_text, key_text, printable
from covey.core.telemetry.batch import rows_of
from covey.core.telemetry.names import shown
from covey.core.vault.receipts import verify_receipt, write_receipt
from covey.errors import LimitError, LocalError, MalformedError, RemoteError, SignatureError, UsageError
from covey.limits.telemetry import MAXIMUM_RECEIPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.telemetry.batch import Batch
    from covey.core.vault.reading import VaultReader
    from covey.core.vault.receipts import ProvenReading
    from covey.core.wire.message import Message

_AHEAD_US = 86_400_000_000
"""How far a device's clock may be ahead of its collector's: a reading is landed no earlier than so long before it."""
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,6}))?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII | re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_KEY_HINT = "give a signing key as 'covey key show' prints it (covey-sign-…), or as 64 hexadecimal digits"


@dataclass(frozen=True, slots=True)
class ReadingProof:
    """What a receipt proves, as `--json` prints it.

    Of `value`, `flag`, `text` and `data` (hex) one is there. `time_quality` says what the device's clock was worth.
    The last four are of the manifest in the receipt, and null where it has none; `issuer` is the key that signed it.
    """

    author: str
    key: str
    name: str
    unit: str
    time: str
    value: float | None
    flag: bool | None
    text: str | None
    data: str | None
    time_quality: str
    boot: str
    index: int
    readings: int
    bytes: int
    group: str | None = None
    version: int | None = None
    label: str | None = None
    issuer: str | None = None


class _Span(NamedTuple):
    """Times in microseconds since 1970: from the first on, before the last."""

    begin_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class _Found:
    """A stored reading that may be the one that is meant."""

    time_us: int
    message: Message
    batch: Batch
    index: int


def prove(
    device: Device,
    location: str | None,
    who: str,
    series: str,
    when: str,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[bytes, ReadingProof]:
    """Return the receipt of a stored reading, and what it proves.

    Args:
        device: reads the vault.
        location: the vault; None for the configured one.
        who: the device: a label, or the start of its key.
        series: the series, as sent or as people read it.
        when: the time by the device's clock, RFC 3339; the zone is UTC if it names none.
        progress: called with the bytes read so far.

    Raises:
        LocalError: there is no such reading, there are several, or its device did not sign it for receipts.
        ConfigurationError: there is no such vault.
        StorageError: the vault cannot be read.
    """
    from covey.adapters.objects.location import open_existing_store
    from covey.app.telemetry.vault import known_nodes, vault_nodes, vault_reader

    span, author = _read_span(when), _author(device, who)
    if location is not None:
        open_existing_store(location)  # what is mistyped is not made
    reader = vault_reader(device, location)
    nodes = vault_nodes(device, known_nodes(device, location))
    matching = _matching(reader, nodes, author, series, span, progress)
    found = {(each.message.incarnation, each.message.seq, each.index): each for each in matching}
    if not found:
        raise LocalError(
            "no stored reading matches",
            hint="'covey vault readings --json' prints name and time of each; thinned readings have no receipts",
        )
    times = sorted({each.time_us for each in found.values()})
    if len(times) > 1:
        raise LocalError(
            f"{len(times)} readings match, the first two at {_text(times[0])} and {_text(times[1])}",
            hint="give the time to the microsecond",
        )
    receipt = _receipt(device, found[min(found)])
    return receipt, verify(receipt, author)


def verify(receipt: bytes, author: DeviceKey) -> ReadingProof:
    """Return what a receipt proves.

    Raises:
        LocalError: the device with this key did not sign it.
    """
    try:
        proven = verify_receipt(receipt, author)
    except RemoteError as error:
        raise LocalError(
            f"the receipt is not valid: {error}",
            hint="compare the key with the device's ('covey key show' there), and get the receipt again",
        ) from error
    return _proof(proven, len(receipt))


def save_receipt(path: Path, receipt: bytes) -> None:
    """Write a receipt to a file, durably.

    Raises:
        StorageError: the disk refused.
    """
    from covey.adapters.files import replace_durably

    replace_durably(path, receipt, mode=0o666)


def read_receipt(path: Path) -> bytes:
    """Return the content of a file, of which one byte more than a receipt may have is read. Raises OSError."""
    with path.open("rb") as file:
        return file.read(MAXIMUM_RECEIPT_BYTES + 1)


def read_device_key(text: str) -> DeviceKey:
    """Return a signing key as people write it, or as tables have it.

    Raises:
        UsageError: it is none.
    """
    if _HEX_KEY.fullmatch(text):
        return DeviceKey(bytes.fromhex(text))
    try:
        return DeviceKey(key_from_text("sign", text))
    except MalformedError as error:
        raise UsageError(f"{printable(text)}: {error}", hint=_KEY_HINT) from error


def _proof(proven: ProvenReading, size: int) -> ReadingProof:
    value, manifest = proven.value, proven.manifest
    member = None if manifest is None else manifest.member(proven.author)
    return ReadingProof(
        author=proven.author.hex(),
        key=key_text("sign", proven.author),
        name=proven.name,
        unit=proven.unit,
        time=_text(proven.time_us),
        value=value if isinstance(value, int | float) and not isinstance(value, bool) else None,
        flag=value if isinstance(value, bool) else None,
        text=value if isinstance(value, str) else None,
        data=value.hex() if isinstance(value, bytes) else None,
        time_quality=proven.clock.kind.name.lower(),
        boot=proven.clock.boot_id.hex(),
        index=proven.index,
        readings=proven.readings,
        bytes=size,
        group=None if manifest is None else manifest.group_id.hex(),
        version=None if manifest is None else manifest.version,
        label=None if member is None else member.label,
        issuer=None if manifest is None else manifest.issuer.hex(),
    )


def _text(time_us: int) -> str:
    """Return a time for machines and people; one beyond the calendar as microseconds since 1970."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds")
    except OverflowError:
        return f"{time_us} us"


def _read_span(when: str) -> _Span:
    """Return the times that a person means: those that begin with the digits given.

    Raises:
        UsageError: it is no time.
    """
    found = _TIME.fullmatch(when.strip())
    day, minute, second, fraction, zone = found.groups() if found else ("", "", "", "", "")
    try:
        read = datetime.fromisoformat(f"{day}T{minute}{second or ''}{(zone or 'Z').upper()}")
    except ValueError:
        raise UsageError(
            f"{printable(when)} is not a time", hint="write it like 2026-11-30T08:15:00.123456, in UTC without a zone"
        ) from None
    begin_us = (read - _EPOCH) // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0"))
    width_us = 10 ** (6 - len(fraction)) if fraction else 1_000_000 if second else 60_000_000
    return _Span(begin_us, begin_us + width_us)


def _author(device: Device, who: str) -> DeviceKey:
    """Return the device that a person means, a removed one as well.

    Raises:
        LocalError: none, or more than one.
    """
    from covey.app.groups.groups import pick_device

    if _HEX_KEY.fullmatch(who) or who.startswith("covey-sign-"):
        return read_device_key(who)
    groups = device.node.groups.joined()
    try:
        return pick_device(groups, who).keys.signing_public
    except LocalError:
        past = [old for group in groups for old in _manifests(device, group)]
        try:
            return pick_device(past, who).keys.signing_public
        except LocalError as error:
            raise LocalError(str(error), hint="give the device's whole key: column 'author' of readings") from error


def _manifests(device: Device, group: GroupManifest) -> Iterator[GroupManifest]:
    """Yield the versions of a group that this device has kept, the oldest first."""
    from covey.core.group.manifest import read_manifest

    for raw in device.store.groups.manifests_from(group.group_id, 1):
        yield read_manifest(raw, verify=False)


def _matching(
    reader: VaultReader, nodes: list[str], author: DeviceKey, series: str, span: _Span, progress: Callable[[int], None]
) -> Iterator[_Found]:
    """Yield what matches, from the newest segment back to where the reading can have been landed at the earliest."""
    from covey.app.telemetry.newest_readings import messages_of, segments_backwards
    from covey.core.telemetry.decoding import KnownLayouts, read_telemetry
    from covey.core.wire.message import MessageType

    known, read = KnownLayouts(), 0
    for node, entry in segments_backwards(reader, nodes):
        if entry.created_at_us < span.begin_us - _AHEAD_US:
            return
        for message in messages_of(reader, node, entry, author, {MessageType.TELEMETRY}):
            with suppress(RemoteError):
                _, batch = read_telemetry(message.body, known)
                for index, (name, _, time_us, _) in enumerate(batch.readings()):
                    if span.begin_us <= time_us < span.end_us and series in {name, shown(name)}:
                        yield _Found(time_us, message, batch, index)
        read += entry.size
        progress(read)


def _receipt(device: Device, found: _Found) -> bytes:
    """Return the receipt of a reading, with a manifest where one fits.

    Raises:
        LocalError: the device did not sign its readings, or the reading is too long.
    """
    author, rows = found.message.author, rows_of(found.message.body)
    if not rows:
        raise LocalError(
            "the device did not sign this reading for receipts",
            hint="'covey config set telemetry.receipts true' on the device signs later ones; boards cannot",
        )
    try:
        manifest = _newest_manifest(device, found.message)
        if manifest is not None:
            with suppress(LimitError):
                return write_receipt(author, found.batch, rows, found.index, manifest)
        return write_receipt(author, found.batch, rows, found.index)
    except LimitError as error:
        raise LocalError(
            f"the reading is too long for a receipt: {error}", hint="text and data of up to 1,000 bytes fit"
        ) from error
    except (SignatureError, MalformedError) as error:
        raise LocalError(
            f"the device signed its readings wrongly: {error}", hint="its software has a defect: report it"
        ) from error


def _newest_manifest(device: Device, message: Message) -> bytes | None:
    """Return the newest manifest here of the message's group, or of any, that lists the author."""
    groups = sorted(device.node.groups.joined(), key=lambda each: each.group_id != message.group_id)
    for group in groups:
        if group.raw and group.member(message.author) is not None:
            return group.raw
        past = [each for each in _manifests(device, group) if each.member(message.author) is not None]
        if past:
            return max(past, key=lambda each: each.version).raw
    return None
