"""`covey outbox export` and `import`: envelopes in files, between devices that never share a network."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from covey.adapters.files import replace_durably
from covey.app.device import Device
from covey.cli.device_options import open_device
from covey.cli.terminal import print_json, print_table
from covey.core.ids import device_name
from covey.core.wire.export import ExportEntry, ExportFile, read_export, write_export
from covey.errors import LocalError, RemoteError, UsageError
from covey.limits import LINK_WINDOW_BYTES, MAXIMUM_ENVELOPE_BYTES

_SUFFIX = ".covey"
_FILE_BYTES = 2 * LINK_WINDOW_BYTES + 2 * MAXIMUM_ENVELOPE_BYTES
"""What an export's file has at most: a window of messages, padded, and the answers."""

_LETTERS_OF_A_COMMIT = 128


def export_files(options: argparse.Namespace) -> int:
    """Write a file of answers for each recipient, and files of what waits; each is whole or not there."""
    folder = Path(options.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    rows = []
    with open_device(options) as device:
        for recipient in _recipients(device, options.to):
            messages, files = _export_to(device, recipient, folder)
            rows.append({"recipient": device_name(recipient), "messages": messages, "files": files})
            _progress(options, f"{device_name(recipient)}: {messages} messages")
    if options.json:
        print_json({"folder": str(folder), "recipients": rows})
    elif rows:
        print_table(["recipient", "messages", "files"], [list(row.values()) for row in rows])
        print("they stay queued here until an acknowledgement comes: by a relay, or in an export of their recipient")
    else:
        print("there is nobody to write to")
    return 0


def _recipients(device: Device, wanted: str | None) -> list[bytes]:
    """Return the devices that this one writes to: those of its groups, and those that something waits for."""
    own = device.node.identity.signing_public
    members = {
        member.keys.signing_public
        for group in device.node.membership.groups()
        for member in group.members
        if not member.is_board
    }
    known = sorted((members | set(device.store.outbox.recipients())) - {own})
    found = [each for each in known if each.hex().startswith(wanted or "")]
    if wanted and len(found) != 1:
        names = ", ".join(device_name(each) for each in known)
        raise LocalError(f"which device? {len(found)} match '{wanted}'", hint=f"--to with one of: {names}")
    return found


def _export_to(device: Device, recipient: bytes, folder: Path) -> tuple[int, list[str]]:
    """Write what waits for a recipient; return (messages, names of the files)."""
    own = device.node.identity.signing_public
    stem = f"{device_name(own)}-to-{device_name(recipient)}"
    answers = [ExportEntry(recipient, each) for each in device.node.answers_for(recipient, device.now())]
    files = []
    if answers:
        files.append(_write(device, folder / f"{stem}-answers{_SUFFIX}", answers))
    after = messages = 0
    life = device.store.incarnations.present().hex()[:8]
    while letters := device.node.carried(recipient, after):
        first, after = letters[0][0], letters[-1][0]
        messages += len(letters)
        path = folder / f"{stem}-{life}-{first}-{after}{_SUFFIX}"
        if path.exists():  # of an export that was interrupted, or an earlier one
            files.append(path.name)
        else:
            files.append(_write(device, path, [ExportEntry(recipient, envelope) for _, envelope in letters]))
    return messages, files


def _write(device: Device, path: Path, letters: list[ExportEntry]) -> str:
    content = write_export(device.node.identity.signing_public, device.clock.wall_us(), letters)
    replace_durably(path, content, 0o644)
    return path.name


# -- import -----------------------------------------------------------------------------------------------------------


def import_files(options: argparse.Namespace) -> int:
    """Deal with every letter as if a relay had brought it; 1 where none was for this device, or some were damaged."""
    total: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    with open_device(options) as device:
        for path in _files(options.files):
            found, others = _import_file(device, path)
            total.update(found)
            rows.append({"file": path.name, **found, "for": others})
            _progress(options, f"{path.name}: {sum(found.values())} envelopes")
    if options.json:
        print_json({"files": rows, "total": dict(total)})
    else:
        for row in rows:
            _tell(row)
    useful = total["taken"] + total["duplicates"]
    return 0 if useful and not total["damaged"] and not total["refused"] else 1


def _files(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name)
        yield from sorted(path.glob(f"*{_SUFFIX}")) if path.is_dir() else [path]


def _import_file(device: Device, path: Path) -> tuple[dict[str, int], list[str]]:
    """Import one file; return what became of its letters, and whose the others are."""
    try:
        with path.open("rb") as source:
            raw = source.read(_FILE_BYTES + 1)
        if len(raw) > _FILE_BYTES:
            raise UsageError(f"{path} is longer than an export's file can be")
        file: ExportFile = read_export(raw)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except RemoteError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return _counts(damaged=1), []
    own = device.node.identity.signing_public
    ours = [letter.envelope for letter in file.letters if letter.to == own]
    others = {device_name(letter.to) for letter in file.letters if letter.to != own}
    counts = _counts(damaged=file.damaged, not_for_us=len(file.letters) - len(ours))
    for start in range(0, len(ours), _LETTERS_OF_A_COMMIT):
        _take(device, ours[start : start + _LETTERS_OF_A_COMMIT], counts)
    return counts, sorted(others)


def _counts(**known: int) -> dict[str, int]:
    names = ("taken", "duplicates", "not_for_us", "damaged", "refused")
    return {**dict.fromkeys(names, 0), **known}


def _take(device: Device, envelopes: list[bytes], counts: dict[str, int]) -> None:
    """Deal with envelopes in one commit, and tell from the counters what became of them."""
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


def _tell(row: dict[str, Any]) -> None:
    parts = [f"{row[name]} {name.replace('_', ' ')}" for name in _counts() if row[name]]
    line = f"{row['file']}: {', '.join(parts) or 'empty'}"
    if row["for"]:
        line += f"; not for this device but for {', '.join(row['for'])}"
    print(line)


def _progress(options: argparse.Namespace, line: str) -> None:
    if not options.json and sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
