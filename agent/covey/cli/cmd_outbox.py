"""`covey outbox list|verify|export|import|quarantine`: what waits, and what people do with it by hand."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from covey.app.api.operations import MOST_SHOWN
from covey.app.device import quarantine
from covey.app.device.verifying import Verified, verify_state
from covey.app.documents import to_json
from covey.app.relays import export_files
from covey.app.wording import count
from covey.cli.device_options import device_api, open_device, state_folder
from covey.cli.grammar import Parser, every_action, json_option
from covey.cli.interruption import explained_interruption
from covey.cli.progress_line import ProgressLine
from covey.cli.terminal import confirm, print_json, print_table
from covey.core.ids import labelled_name
from covey.errors import UsageError

_SHOWN = 20


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    listing = actions.add("list", _list, "show what waits, for whom, and for how long", also=["ls"])
    listing.add_argument(
        "--limit", type=int, default=_SHOWN, metavar="N", help=f"messages of each recipient (default: {_SHOWN})"
    )
    verify = actions.add("verify", _verify, "look through the state database for damage")
    verify.add_argument("--repair", action="store_true", help="save what can be read, if something is wrong")
    export = actions.add("export", _export, "write what waits into a folder, to be carried on a stick")
    export.add_argument("folder", metavar="DIR", help="the folder to write into")
    export.add_argument("--to", metavar="DEVICE", help="one recipient alone: beginning of its name or key")
    import_ = actions.add("import", _import, "take in what another device has exported")
    import_.add_argument("files", nargs="+", metavar="FILE", help="files, or folders of them")
    quarantine = actions.add(
        "quarantine",
        _quarantine,
        "list the messages that could not be dealt with; show, release or drop one",
        examples=("covey outbox quarantine", "covey outbox quarantine 3 --release"),
    )
    quarantine.add_argument("number", nargs="?", metavar="NUMBER", help="one message, by its number in the list")
    choice = quarantine.add_mutually_exclusive_group()
    choice.add_argument("--release", action="store_true", help="send it, or deal with it, once more")
    choice.add_argument("--drop", action="store_true", help="forget it for good")
    quarantine.add_argument("--yes", action="store_true", help="do not ask before dropping")
    every_action(parser, json_option)


def _list(options: argparse.Namespace) -> int:
    """Show what waits; what stands there is forgotten when its recipient has it."""
    if not 0 <= options.limit <= MOST_SHOWN:
        raise UsageError(f"--limit must be between 0 and {MOST_SHOWN}")
    with device_api(options) as device:
        outbox = device.outbox(options.limit)
    if options.json:
        print_json(to_json(outbox))
        return 0
    rows = [
        (labelled_name(each.recipient, each.label), each.place, each.class_, each.bytes, each.seconds)
        for each in outbox.shown
    ]
    if rows:
        print_table(["recipient", "number", "class", "bytes", "seconds"], rows)
    print(
        f"{count(outbox.messages, 'message')}, {count(outbox.bytes, 'byte')}"
        + (f"; {len(rows)} shown" if len(rows) < outbox.messages else "")
    )
    return 0


# -- verify -----------------------------------------------------------------------------------------------------------


def _verify(options: argparse.Namespace) -> int:
    """Look through the file; 1 where something is wrong and was not repaired."""
    with ProgressLine() as line:
        folder, repair = state_folder(options), options.repair
        found = verify_state(folder, lambda looked_at: line.show(count(looked_at, "message")), repair=repair)
    if options.json:
        shown = {"sound": found.sound, "complaints": found.complaints, "repaired": found.repaired}
        print_json({**shown, "salvages": found.salvages})
    else:
        _print_verified(found)
    return 0 if found.sound or found.repaired else 1


def _print_verified(found: Verified) -> None:
    for line in found.complaints:
        print(f"error: {line}", file=sys.stderr)
    for line in found.saved():
        print(line)
    if found.sound:
        print("sound")
    elif found.repaired:
        print("repaired: what could be read is in a new file")
    else:
        print("hint: covey outbox verify --repair saves what can be read", file=sys.stderr)


# -- export and import ------------------------------------------------------------------------------------------------


def _export(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    rows: list[dict[str, Any]] = []
    stays = f"files that are in {folder} are whole; everything stays queued here, and may be exported again"
    with open_device(options) as device, explained_interruption(lambda: stays):
        for each in export_files.export_files(device, folder, options.to):
            rows.append({"recipient": each.recipient, "messages": each.messages, "files": each.files})
            _progress(options, f"{each.recipient}: {each.messages} messages")
    if options.json:
        print_json({"folder": str(folder), "recipients": rows})
    elif rows:
        shown = [(each["recipient"], each["messages"], " ".join(each["files"])) for each in rows]
        print_table(["recipient", "messages", "files"], shown)
        print("they stay queued here until an acknowledgement comes: by a relay, or in an export of their recipient")
    else:
        print("there is nobody to write to")
    return 0


def _import(options: argparse.Namespace) -> int:
    """Return 1 where none was for this device, or some were damaged."""
    total: Counter[str] = Counter()
    found = []
    stays = "what was read so far is taken; the same files may be imported again"
    with open_device(options) as device, explained_interruption(lambda: stays):
        for each in export_files.import_files(device, options.files):
            total.update(each.counts)
            found.append(each)
            if each.complaint:
                print(each.complaint, file=sys.stderr)
            _progress(options, f"{each.file}: {sum(each.counts.values())} envelopes")
    if options.json:
        rows = [{"file": each.file, **each.counts, "for": each.others} for each in found]
        print_json({"files": rows, "total": dict(total)})
    else:
        for each in found:
            _print_imported(each)
    useful = total["taken"] + total["duplicates"]
    return 0 if useful and not total["damaged"] and not total["refused"] else 1


def _print_imported(imported: export_files.Imported) -> None:
    parts = [f"{count} {name.replace('_', ' ')}" for name, count in imported.counts.items() if count]
    line = f"{imported.file}: {', '.join(parts) or 'empty'}"
    if imported.others:
        line += f"; not for this device but for {', '.join(imported.others)}"
    print(line)


def _progress(options: argparse.Namespace, line: str) -> None:
    if not options.json and sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


# -- quarantine -------------------------------------------------------------------------------------------------------


def _quarantine(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        if options.number is None:
            if options.release or options.drop:
                raise UsageError("which message?", hint="covey outbox quarantine lists their numbers")
            _show(options, [quarantine.about(device, each) for each in device.store.quarantine.entries()])
            return 0
        held = quarantine.pick_held(device, options.number)
        if options.release:
            quarantine.release(device, held)
            done = "released"
        elif options.drop:
            confirm(f"forget message {held.id} for good?", options.yes)
            quarantine.drop(device, held)
            done = "dropped"
        else:
            _show(options, [{**quarantine.about(device, held), "message": held.message.hex()}], whole=True)
            return 0
    if options.json:
        print_json({"number": held.id, "done": done})
    else:
        print(done)
    return 0


def _show(options: argparse.Namespace, rows: list[dict[str, Any]], *, whole: bool = False) -> None:
    if options.json:
        print_json(rows[0] if whole else rows)
    elif whole:
        print_table(["what", "is"], list(rows[0].items()))
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        print("nothing is in quarantine")
