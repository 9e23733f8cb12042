"""`covey message`: send blobs to members, receive them, and manage the messages that wait."""

from __future__ import annotations

import argparse
import base64
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.app.api.operations import MOST_SHOWN
from covey.app.documents import to_json
from covey.app.wording import count
from covey.cli.device_options import device_api, open_device
from covey.cli.grammar import Parser, group_option, json_option, key_option, seconds_option
from covey.cli.output.handing_over import WAIT_S, hand_over, report_handed_over
from covey.cli.output.terminal import TIME_UP, confirm, explained_interruption, print_json, print_table
from covey.cli.quantities import read_us
from covey.core.ids import labelled_name, printable
from covey.errors import UsageError
from covey.limits.message import MAXIMUM_BLOB_BYTES

if TYPE_CHECKING:
    from covey.app.relays.export_files import Imported
    from covey.client import Blob

_SHOWN = 20
_LONGEST_US = 3_650 * 86_400_000_000


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    _send_options(actions.add("send", _send, "send a blob to the members of a group", examples=_SEND_EXAMPLES))
    receive = actions.add("receive", _receive, "print a blob that has arrived, and delete it here")
    seconds_option(receive, "--wait", f"wait for a blob if there is none (exit code {TIME_UP} if none comes)", 0.0)
    receive.add_argument("--all", action="store_true", help="print all blobs that have arrived")
    receive.add_argument(
        "--in-order", action="store_true", help="keep each sender's order: a blob waits for those sent before it"
    )
    json_option(receive, "print one JSON line per blob: author, times, body as base64")
    listing = actions.add("list", _list, "list messages that wait for their recipients", also=["ls"])
    listing.add_argument(
        "--limit", type=int, default=_SHOWN, metavar="N", help=f"show N messages per recipient (default: {_SHOWN})"
    )
    export = actions.add("export", _export, "write waiting messages into a folder, e.g. on a USB stick")
    export.add_argument("folder", metavar="DIR", help="folder to write into")
    export.add_argument("--to", metavar="DEVICE", help="only for this recipient: start of its name or key")
    import_ = actions.add("import", _import, "read messages that another device exported")
    import_.add_argument("files", nargs="+", metavar="FILE", help="files, or folders of files")
    quarantine = actions.add(
        "quarantine",
        _quarantine,
        "list messages that could not be processed; retry or delete one",
        examples=("covey message quarantine", "covey message quarantine 3 --retry"),
    )
    quarantine.add_argument("number", nargs="?", metavar="NUMBER", help="number of one message in the list")
    choice = quarantine.add_mutually_exclusive_group()
    choice.add_argument("--retry", action="store_true", help="send it, or process it, again")
    choice.add_argument("--delete", action="store_true", help="delete it permanently")
    quarantine.add_argument("--yes", action="store_true", help="do not ask before deleting")
    for action in (listing, export, import_, quarantine):
        json_option(action)


_SEND_EXAMPLES = ("covey message send report.pdf", "covey message send --text '{\"interval\": 60}' --to shed")


def _send_options(send: Parser) -> None:
    send.add_argument("file", nargs="?", default="-", metavar="FILE", help="file to send (default: stdin)")
    send.add_argument("--text", help="send this text instead of a file")
    group_option(send)
    send.add_argument("--to", metavar="MEMBER", help="send to one member or board: its label, or start of its key")
    send.add_argument(
        "--expires", metavar="TIME", help="delete it if undelivered after this running time of the agent: 36h"
    )
    send.add_argument("--ephemeral", action="store_true", help="send to online devices only; not stored, may be lost")
    key_option(send)
    send.add_argument(
        "--hand-over", action="store_true", help="wait until a mailbox holds all waiting messages; then power off"
    )
    seconds_option(send, "--wait", f"wait until all have acknowledged; exit code {TIME_UP} if not in time")
    json_option(send)


def _send(options: argparse.Namespace) -> int:
    """Queue a message durably; with --wait, wait for its delivery."""
    lifetime_us = None if options.expires is None else read_us("--expires", options.expires, _LONGEST_US, 1_000_000)
    expires_s = None if lifetime_us is None else lifetime_us // 1_000_000
    content = options.text.encode() if options.text is not None else _read(options.file)
    if options.ephemeral:
        return _send_ephemeral(content, options)
    with device_api(options) as device:
        recipients = device.send(content, options.group, options.to or None, expires_s, options.key)
        if options.json and not options.hand_over:
            print_json({"bytes": len(content), "recipients": recipients})
        elif not options.json:
            print(f"queued {count(len(content), 'byte')} for {count(recipients, 'member')}", flush=True)
        if options.hand_over:
            found = hand_over(device, options.to or None, WAIT_S if options.wait is None else options.wait)
            sent = {"bytes": len(content), "recipients": recipients}
            return report_handed_over(device, found, as_json=options.json, sent=sent)
        waiting = 0 if options.wait is None else device.waiting_after(options.wait)
    if waiting:
        print(f"error: not acknowledged yet: {count(waiting, 'message')}", file=sys.stderr)
        print("hint: they stay queued; 'covey run' delivers them, 'covey status' shows the recipients", file=sys.stderr)
        return TIME_UP
    if options.wait is not None:
        print("acknowledged by every member", file=sys.stderr)
    return 0


def _send_ephemeral(content: bytes, options: argparse.Namespace) -> int:
    if options.to or options.expires or options.key or options.hand_over or options.wait is not None:
        raise UsageError(
            "--ephemeral sends once to all devices that are online",
            hint="leave out --to, --expires, --key, --hand-over and --wait",
        )
    with device_api(options) as device:
        recipients = device.send_ephemeral(content, options.group)
    if options.json:
        print_json({"bytes": len(content), "recipients": recipients})
    else:
        print(f"sent {count(len(content), 'byte')} to {count(recipients, 'member')}; offline members miss it")
    return 0


def _read(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAXIMUM_BLOB_BYTES + 1)
        with Path(name).open("rb") as source:
            return source.read(MAXIMUM_BLOB_BYTES + 1)
    except OSError as error:
        hint = "to send words: --text 'WORDS'" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{printable(name)} cannot be read: {error.strerror}", hint=hint) from error


def _receive(options: argparse.Namespace) -> int:
    """Print the oldest message, or all; each is deleted once it is printed."""
    taken = 0
    with device_api(options) as device:
        for blob in device.receive(options.wait, in_order=options.in_order):
            _print_blob(blob, as_json=options.json)
            device.delete(blob.id)
            taken += 1
            if not options.all:
                break
    if not taken:
        print("no messages", file=sys.stderr)
    return 0 if taken or options.all else TIME_UP if options.wait else 1


def _print_blob(blob: Blob, *, as_json: bool) -> None:
    if as_json:
        shown = {**asdict(blob), "body": base64.b64encode(blob.body).decode()}
        del shown["id"]
        print_json(shown)
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(blob.body)
        sys.stdout.buffer.flush()


def _list(options: argparse.Namespace) -> int:
    """List queued messages; one is deleted when its recipient has it."""
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


# -- export and import ------------------------------------------------------------------------------------------------


def _export(options: argparse.Namespace) -> int:
    from covey.app.relays import export_files

    folder = Path(options.folder)
    rows: list[dict[str, Any]] = []
    stays = f"the files in {folder} are complete; all messages stay queued here and can be exported again"
    with open_device(options) as device, explained_interruption(lambda: stays):
        for each in export_files.export_files(device, folder, options.to):
            rows.append({"recipient": each.recipient, "messages": each.messages, "files": each.files})
            _progress(options, f"{each.recipient}: {each.messages} messages")
    if options.json:
        print_json({"folder": str(folder), "recipients": rows})
    elif rows:
        shown = [(each["recipient"], each["messages"], " ".join(each["files"])) for each in rows]
        print_table(["recipient", "messages", "files"], shown)
        print(
            "the messages stay queued here until an acknowledgement arrives, by relay or in an export of the recipient"
        )
    else:
        print("no other device to export for")
    return 0


def _import(options: argparse.Namespace) -> int:
    """Return 1 if nothing was for this device, or something was damaged."""
    from covey.app.relays import export_files

    total: Counter[str] = Counter()
    found = []
    stays = "the messages read so far are imported; import the same files again to continue"
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


def _print_imported(imported: Imported) -> None:
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
    from covey.app.device import quarantine

    with open_device(options) as device:
        if options.number is None:
            if options.retry or options.delete:
                raise UsageError("no message is given", hint="'covey message quarantine' lists their numbers")
            _show(options, [quarantine.about(device, each) for each in device.store.quarantine.entries()])
            return 0
        held = quarantine.pick_held(device, options.number)
        if options.retry:
            quarantine.retry(device, held)
            done = "queued again"
        elif options.delete:
            confirm(f"delete message {held.id} permanently?", options.yes)
            quarantine.delete(device, held)
            done = "deleted"
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
        print_table(["field", "value"], list(rows[0].items()))
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        print("no messages in quarantine")
