"""`covey vault`: verify, mirror, share, thin and erase a vault, and manage its keys."""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.telemetry import erasing, vault
from covey.app.telemetry.landed_readings import Unread, landed_readings
from covey.app.wording import count, reading_name
from covey.cli.device_options import on_device, open_device
from covey.cli.grammar import Actions, Parser, json_option
from covey.cli.output.deletion_notes import add_note_options, note_intent, note_result
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.terminal import explained_interruption, print_json, print_table
from covey.cli.quantities import read_bytes, read_us
from covey.config.tables_options import read_days, read_one_author
from covey.core.ids import labelled_name, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covey.app.device.device import Device
    from covey.app.telemetry.landed_readings import LandedReading
    from covey.app.telemetry.vault_survey import Progress, VaultFinding
    from covey.core.vault.erasing import ErasureDue


def add_erasing(actions: Actions) -> tuple[Parser, Parser]:
    """Add the two actions that erase."""
    delete = actions.add(
        "delete",
        _delete,
        "permanently delete all readings of a device that are stored here",
        examples=("covey vault delete --author 5f1c2a --dry-run",),
    )
    delete.add_argument(
        "--author",
        type=read_one_author,
        required=True,
        metavar="HEX",
        help="device: start of its key, unique among members",
    )
    retain = actions.add(
        "retain",
        _retain,
        "delete stored readings older than some days",
        examples=("covey vault retain --days 400 --group 3f2a",),
    )
    retain.add_argument("--days", type=read_days, required=True, metavar="N", help="number of days to keep")
    for action in (delete, retain):
        action.add_argument("--dry-run", action="store_true", help="show how many would be deleted, and change nothing")
        add_note_options(action)
    return delete, retain


def _delete(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        due = erasing.due_of_author(device, options.author)
        assert due.author is not None
        return _erase(device, options, due, f"all readings of {due.author.hex()}")


def _retain(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        due = erasing.due_before(device, options.days)
        return _erase(device, options, due, f"readings older than {options.days} days")


def _erase(device: Device, options: argparse.Namespace, due: ErasureDue, what: str) -> int:
    """Record it, erase it, and record the result (`deletion_notes`)."""
    intent = None
    if not (options.dry_run or options.no_note):
        intent = note_intent(device, options.group, f"{what} from the vault")
    gone = "deleted readings stay deleted; run the command again for the rest"
    with explained_interruption(lambda: "nothing was changed" if options.dry_run else gone), ProgressLine() as line:
        outcome = erasing.erase_from_vault(
            device,
            options.vault,
            due,
            intent.id if intent else None,
            lambda node, done, of: line.show(f"{node[:8]}: {done} of {of} checked", last=done == of),
            dry_run=options.dry_run,
        )
    went = f"{what} from the vault: {count(outcome.messages, 'message')}"
    if intent is not None and outcome.is_whole:
        note_result(device, options.group, intent, went)
    if options.json:
        said = {"deleted": not options.dry_run, "what": what, "noted": intent is not None}
        print_json(said | asdict(outcome))
    else:
        print(f"{'would delete' if options.dry_run else 'deleted'} {went}")
    for number in outcome.unreadable:
        print(f"segment {number} is damaged or missing: its content is unknown", file=sys.stderr)
    if outcome.waiting and not options.dry_run:
        waiting = count(outcome.waiting, "message")
        print(f"error: {waiting} of it arrived earlier and must still be stored in the vault", file=sys.stderr)
        print("hint: run the command again when the collector has stored them: covey vault status", file=sys.stderr)
    return 0 if outcome.is_whole or options.dry_run else 1


_LONGEST_US = 3_650 * 86_400_000_000
_GOES_ON = "the part already {} is kept; run the command again for the rest"


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    init = actions.add("init", on_device(_init), "create a vault: its id and keys")
    status = actions.add("status", on_device(_status), "show what each collector stored, and its state")
    verify = actions.add("verify", on_device(_verify), "decrypt everything and verify every signature")
    pull = actions.add("pull", on_device(_pull), "copy the vault to a folder or another store; can be resumed")
    pull.add_argument("destination", metavar="WHERE", help="folder or s3://BUCKET/PREFIX")
    readings = actions.add(
        "readings", on_device(_readings), "print all stored readings; --json suits DuckDB and other tools"
    )
    readings.add_argument("--since", metavar="TIME", help="only readings of the last 7d, 12h or 30m")
    readings.add_argument("--device", metavar="DEVICE", help="only readings of this device: label, or start of key")
    readings.add_argument("--series", metavar="NAME", help="only readings of this series")
    compact = actions.add("compact", _compact, "merge this collector's small segments; delete replaced ones")
    _add_compaction(compact)
    push = actions.add("push", on_device(_push), "store readings that wait for a collector in the vault directly")
    export = actions.add("export-key", on_device(_export_key), "write a copy of the keys for 'covey tables', mode 0600")
    export.add_argument("file", metavar="FILE", help="file to write")
    rotate = actions.add("rotate-key", on_device(_rotate_key), "use a new key for readings stored from now on")
    add_reader, remove_reader = _add_readers(actions)
    erasing = add_erasing(actions)
    for action in (init, status, verify, pull, readings, compact, push, rotate, add_reader, remove_reader, *erasing):
        action.add_argument("--vault", metavar="WHERE", help="folder or s3://BUCKET/PREFIX (default: vault.location)")
    for action in parser.actions.values():
        if action is not readings:
            json_option(action)
    json_option(readings, "print one JSON object per line")


def _add_readers(actions: Actions) -> tuple[Parser, Parser]:
    actions.add("readers", on_device(_readers), "list the readers that get this device's future keys")
    new = actions.add("new-reader", _new_reader, "turn a copy of the keys into a reader that gets future keys")
    new.add_argument("file", metavar="FILE", help="copy of the keys, on the machine that uses it")
    added = actions.add("add-reader", on_device(_add_reader), "give a reader the current and future keys")
    removed = actions.add(
        "remove-reader", on_device(_remove_reader), "give a reader no further keys, and renew the key"
    )
    for action in (added, removed):
        action.add_argument("reader", metavar="KEY", help="key that 'covey vault new-reader' printed")
    return added, removed


def _add_compaction(action: Parser) -> None:
    action.add_argument("--target-size", metavar="SIZE", default="4MiB", help="merge up to this size (default: 4MiB)")
    action.add_argument(
        "--older-than", metavar="TIME", default="1h", help="merge segments older than this (default: 1h)"
    )
    action.add_argument(
        "--grace", metavar="TIME", default="7d", help="delete segments that were replaced before this (default: 7d)"
    )
    action.add_argument("--dry-run", action="store_true", help="show what would be done, and change nothing")


def _init(device: Device, options: argparse.Namespace) -> None:
    prepared = vault.prepare_vault(device, options.vault)
    if options.json:
        print_json(to_json(prepared))
        return
    print(f"vault {prepared.vault_id} at {prepared.location}{'' if prepared.new else ' (it existed already)'}")
    print(f"  keys  {prepared.key_file}, opened by this device's key; 'covey vault export-key' copies them for readers")


def _status(device: Device, options: argparse.Namespace) -> int:
    status = vault.status_of_vault(device, options.vault)
    if options.json:
        print_json(to_json(status))
        return 1 if status.troubled else 0
    if status.nodes:
        print_table(
            ["node", "device", "manifest", "position", "bytes", "newest", "tombstones", "key", "since", "trouble"],
            [(each.node, labelled_name(each.device, each.label) or "-", *_measures(each)) for each in status.nodes],
        )
    print(f"arrived, waiting for this device to store them: {count(status.waiting_bytes, 'byte')}")
    return 1 if status.troubled else 0


def _measures(node: vault.VaultNodeStatus) -> list[object]:
    return [value for name, value in to_json(node).items() if name not in {"node", "device", "label"}]


def _verify(device: Device, options: argparse.Namespace) -> int:
    with _progress("verified", "nothing was changed") as progress:
        findings = vault.verify_vault(device, options.vault, progress)
    writers = vault.vault_writers(device)
    well = "all listed objects decrypt, and all signatures are valid"
    outcome = _print_findings(findings, writers, options.json, well)
    for each in () if options.json else vault.status_of_vault(device, options.vault).nodes:
        if each.key:
            named, since = labelled_name(each.device, each.label), each.key_since and f", since {each.key_since}"
            print(f"node {each.node}{named and f' ({named})'}: key {each.key}{since}")
    return outcome


def _pull(device: Device, options: argparse.Namespace) -> int:
    with _progress("fetched") as progress:
        findings = vault.mirror_vault(device, options.vault, options.destination, progress)
    return _print_findings(
        findings, vault.vault_writers(device), options.json, f"{options.destination} is a complete copy of the vault"
    )


def _readings(device: Device, options: argparse.Namespace) -> int:
    unread = matching = 0
    since = ""
    if options.since:
        since_us = max(0, device.clock.wall_us() - read_us("--since", options.since, _LONGEST_US))
        since = datetime.fromtimestamp(since_us / 1e6, UTC).isoformat(timespec="microseconds")
    whose = options.device or ""

    def is_wanted(reading: LandedReading) -> bool:
        by = not whose or reading.label == whose or reading.author.startswith(whose.lower())
        return by and reading.time >= since and (options.series is None or reading.is_of(options.series))

    for found in landed_readings(device, options.vault):
        if isinstance(found, Unread):
            unread += 1
            print(f"error: {found.what} cannot be read: {found.why}", file=sys.stderr)
        elif not is_wanted(found):
            continue
        elif (matching := matching + 1) and options.json:
            print_json({name: value for name, value in asdict(found).items() if value is not None})
        else:
            print(f"{found.time}  {labelled_name(found.author[:8], found.label)}  {_said(found)}")
    if not matching and (whose or since or options.series is not None):
        print(
            "no stored reading matches; 'covey fleet' lists devices, 'covey fleet DEVICE' its series", file=sys.stderr
        )
    if unread:
        print("hint: 'covey vault verify' shows more", file=sys.stderr)
    return 1 if unread else 0


def _said(reading: LandedReading) -> str:
    values = (reading.value, reading.flag, reading.text, reading.data)
    value = next(str(each) for each in values if each is not None)
    return f"{reading_name(reading.name)}  {printable(value)} {printable(reading.unit)}".rstrip()


def _print_findings(
    findings: list[VaultFinding], writers: dict[str, vault.VaultWriter], as_json: bool, well: str
) -> int:
    if as_json:
        print_json({"findings": [to_json(each) for each in findings]})
    elif findings:
        rows = [
            (
                each.node,
                labelled_name(*writers[each.node]) if each.node in writers else "-",
                *[*to_json(each).values()][1:],
            )
            for each in findings
        ]
        print_table(["node", "device", "segment", "code", "reason"], rows)
    else:
        print(well)
    return 1 if findings else 0


def _compact(options: argparse.Namespace) -> int:
    terms = vault.CompactionTerms(
        read_bytes("--target-size", options.target_size, vault.LEAST_TARGET_BYTES, vault.MOST_TARGET_BYTES),
        read_us("--older-than", options.older_than, _LONGEST_US),
        read_us("--grace", options.grace, _LONGEST_US),
    )
    with open_device(options) as device, _progress("merged") as progress:
        outcome = vault.compact_vault(device, options.vault, terms, progress, dry_run=options.dry_run)
    if options.json:
        print_json({"dry_run": options.dry_run} | asdict(outcome))
    else:
        would = "would be " if options.dry_run else ""
        print(f"{count(outcome.segments, 'segment')} {would}merged into {outcome.merged}")
        print(f"{count(outcome.deleted, 'replaced object')} {would}deleted")
        print(f"{count(outcome.waiting, 'replaced object')} kept until the grace time ends")
        for number in outcome.unreadable:
            print(f"segment {number} is damaged or missing: its neighbours were not merged", file=sys.stderr)
    return 1 if outcome.unreadable else 0


def _push(device: Device, options: argparse.Namespace) -> None:
    with _progress("pushed") as progress:
        landed = vault.land_own(device, options.vault, progress)
    if options.json:
        print_json(to_json(landed))
    else:
        print(f"{count(landed.messages, 'message')} stored as node {landed.node}")


def _export_key(device: Device, options: argparse.Namespace) -> None:
    target = Path(options.file).absolute()
    written = vault.export_vault_keys(device, target)
    if options.json:
        print_json({"file": str(target), "vault_id": written.vault_id, "keys": written.keys})
    else:
        print(f"wrote {count(written.keys, 'key')} of vault {written.vault_id} to {target}")


def _rotate_key(device: Device, options: argparse.Namespace) -> None:
    now = vault.rotate_vault_key(device, options.vault)
    if options.json:
        print_json(to_json(now))
    else:
        print(f"new segments use key {now.key_id}; older keys kept: {now.keys - 1}")
        print(
            "hint: 'covey vault readers' lists who receives it; others need a new 'covey vault export-key'",
            file=sys.stderr,
        )


def _readers(device: Device, options: argparse.Namespace) -> None:
    readers = vault.vault_readers(device)
    if options.json:
        print_json({"readers": [to_json(each) for each in readers]})
    elif readers:
        print_table(["reader", "device"], [list(to_json(each).values()) for each in readers])
    else:
        print("no readers")


def _new_reader(options: argparse.Namespace) -> None:
    reader = vault.new_reader(Path(options.file).absolute())
    if options.json:
        print_json(to_json(reader))
    else:
        print(reader.public)
        print(f"hint: on each collector: covey vault add-reader {reader.public}", file=sys.stderr)


def _add_reader(device: Device, options: argparse.Namespace) -> None:
    now = vault.change_readers(device, options.vault, options.reader, add=True)
    if options.json:
        print_json(to_json(now))
    else:
        print(f"the reader gets {count(now.keys, 'key')} of vault {now.vault_id} and all future keys")


def _remove_reader(device: Device, options: argparse.Namespace) -> None:
    now = vault.change_readers(device, options.vault, options.reader, add=False)
    if options.json:
        print_json(to_json(now))
    else:
        print(f"new segments use key {now.key_id}, which that reader does not get")


@contextmanager
def _progress(verb: str, what_stays: str = _GOES_ON) -> Iterator[Progress]:
    """Show progress on a terminal; on Ctrl-C, print what remains."""
    with explained_interruption(lambda: what_stays.format(verb)), ProgressLine() as line:
        yield lambda node, done, of: line.show(f"{node[:8]}: {done} of {of} {verb}", last=done == of)
