"""Envelopes in files, between devices that never share a network: written for each recipient, read by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from covey.adapters.files import replace_durably
from covey.app.device.device import Device
from covey.core.ids import DeviceKey, Place, device_name
from covey.core.wire.export import ExportEntry, read_export, write_export
from covey.errors import LocalError, RemoteError, UsageError
from covey.limits.link import LINK_WINDOW_BYTES
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES

_SUFFIX = ".covey"
_FILE_BYTES = 2 * LINK_WINDOW_BYTES + 2 * MAXIMUM_ENVELOPE_BYTES
"""What an export's file has at most: a window of messages, padded, and the answers."""

_ENTRIES_OF_A_COMMIT = 128

OUTCOMES = ("taken", "duplicates", "not_for_us", "damaged", "refused")
"""The results for an entry of a file."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written for one recipient: how many messages, in which files."""

    recipient: str
    messages: int
    files: list[str]


@dataclass(frozen=True, slots=True)
class Imported:
    """The results of one file's entries, by `OUTCOMES`; other devices that entries are for; why a file is invalid."""

    file: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    others: list[str] = field(default_factory=list)
    complaint: str = ""


def export_files(device: Device, folder: Path, to: str | None) -> Iterator[Exported]:
    """Write, for each recipient, a file of answers and files of what waits; each is whole or not there.

    `to` names one recipient, by the beginning of its key.

    Raises:
        UsageError: the folder cannot be written.
        LocalError: it is not clear who is meant.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    for recipient in _recipients(device, to):
        messages, files = _export_to(device, recipient, folder)
        yield Exported(device_name(recipient), messages, files)


def _recipients(device: Device, wanted: str | None) -> list[DeviceKey]:
    own = device.node.identity.signing_public
    members = {
        member.keys.signing_public
        for group in device.node.groups.joined()
        for member in group.members
        if not member.is_board
    }
    known = sorted((members | set(device.store.outbox.recipients())) - {own})
    found = [each for each in known if each.hex().startswith(wanted or "")]
    if wanted and len(found) != 1:
        names = ", ".join(device_name(each) for each in known)
        raise LocalError(f"{len(found)} devices match '{wanted}'", hint=f"give --to with one of: {names}")
    return found


def _export_to(device: Device, recipient: DeviceKey, folder: Path) -> tuple[int, list[str]]:
    own = device.node.identity.signing_public
    stem = f"{device_name(own)}-to-{device_name(recipient)}"
    answers = [ExportEntry(recipient, each) for each in device.node.export.answers_for(recipient, device.now())]
    files = []
    if answers:
        files.append(_write(device, folder / f"{stem}-answers{_SUFFIX}", answers))
    after, messages = Place(0), 0
    incarnation = device.store.incarnations.present().hex()[:8]
    while entries := device.node.export.waiting(recipient, after):
        first, after = entries[0][0], entries[-1][0]
        messages += len(entries)
        path = folder / f"{stem}-{incarnation}-{first}-{after}{_SUFFIX}"
        if path.exists():  # of an export that was interrupted, or an earlier one
            files.append(path.name)
        else:
            files.append(_write(device, path, [ExportEntry(recipient, envelope) for _, envelope in entries]))
    return messages, files


def _write(device: Device, path: Path, entries: list[ExportEntry]) -> str:
    content = write_export(device.node.identity.signing_public, device.clock.wall_us(), entries)
    replace_durably(path, content, 0o600)
    return path.name


# -- import -----------------------------------------------------------------------------------------------------------


def import_files(device: Device, names: list[str]) -> Iterator[Imported]:
    """Deal with every entry of files, or of folders of them, as if a relay had brought it.

    Raises:
        UsageError: a file cannot be read, or is longer than an export's can be.
    """
    for path in _files(names):
        yield _import_file(device, path)


def _files(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name)
        yield from sorted(path.glob(f"*{_SUFFIX}")) if path.is_dir() else [path]


def _import_file(device: Device, path: Path) -> Imported:
    found = Imported(path.name)
    try:
        with path.open("rb") as source:
            raw = source.read(_FILE_BYTES + 1)
        if len(raw) > _FILE_BYTES:
            raise UsageError(f"{path} is too long to be an export file")
        file = read_export(raw)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except RemoteError as error:
        found.counts["damaged"] = 1
        return Imported(path.name, found.counts, complaint=f"{path}: {error}")
    own = device.node.identity.signing_public
    ours = [entry.envelope for entry in file.entries if entry.to == own]
    found.counts.update(damaged=file.damaged, not_for_us=len(file.entries) - len(ours))
    for start in range(0, len(ours), _ENTRIES_OF_A_COMMIT):
        _take(device, ours[start : start + _ENTRIES_OF_A_COMMIT], found.counts)
    found.others.extend(sorted({device_name(entry.to) for entry in file.entries if entry.to != own}))
    return found


def _take(device: Device, envelopes: list[bytes], counts: dict[str, int]) -> None:
    """Process envelopes in one commit, and report the results from the counters."""
    before = device.store.counters.values()
    with device.store.transaction():
        for envelope in envelopes:
            device.node.receive_envelope(envelope, device.now())
    while device.node.next_event() is not None:
        continue  # counted already
    grown = {name: count - before.get(name, 0) for name, count in device.store.counters.values().items()}
    found = {
        "duplicates": grown.get("duplicates", 0),
        "refused": grown.get("refused_full", 0),
        "damaged": sum(count for name, count in grown.items() if name.startswith("dropped_")),
    }
    for name, count in found.items():
        counts[name] += count
    counts["taken"] += max(0, len(envelopes) - sum(found.values()))
