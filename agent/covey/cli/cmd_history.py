"""`covey history`: what a group's members have said, in the order that holds everywhere, and the proof of it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from covey.app.device.device import Device
from covey.app.device.known_labels import namer
from covey.app.documents import to_json
from covey.app.history import history
from covey.app.history.checkpoints import entries, in_words, propose
from covey.app.history.documents import HistoryEntry
from covey.app.history.files import export_history, import_history
from covey.app.history.forgetting import forget, keep_us
from covey.app.history.pages import HistoryQuery
from covey.app.history.proof import verify_history
from covey.app.wording import count
from covey.cli.device_options import device_api, on_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.quantities import date_text, read_us
from covey.cli.terminal import print_fields, print_json
from covey.core.ids import labelled_name, printable
from covey.errors import UsageError

_LONGEST_US = 36_500 * 86_400_000_000


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="log")
    log = actions.add("log", _log, "print what was said, the oldest first", examples=_LOG_EXAMPLES)
    log.add_argument("--type", choices=history.KINDS, help="only this kind")
    log.add_argument("--author", metavar="DEVICE", help="only this member's: its label, or the beginning of its key")
    log.add_argument("--since", metavar="TIME", help="only the last 7d, 12h or 30m, by its author's clock")
    log.add_argument("--last", type=int, default=0, metavar="N", help="only the last N")
    log.add_argument("--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    show = actions.add("show", on_device(_show), "show one operation, whole")
    show.add_argument("id", metavar="ID", help="the beginning of its id")
    show.add_argument("--raw", action="store_true", help="write what a note holds to stdout, byte for byte")
    actions.add("verify", on_device(_verify), "judge all of it anew, from the first version of the group on")
    checkpoint = actions.add(
        "checkpoint", on_device(_checkpoint), "propose what all of it comes to, for the admins to sign"
    )
    checkpoint.add_argument("--list", action="store_true", help="show what was proposed, and what each is worth")
    forgetting = actions.add("forget", on_device(_forget), "let go here of what a checkpoint that counts covers")
    forgetting.add_argument("--keep", metavar="TIME", help="keep what came in the last 30d (history.keep_days)")
    export = actions.add("export", on_device(_export), "write all of it into a file, to be carried on a stick")
    export.add_argument("file", metavar="FILE", help="the file to write; only members can read it")
    export.add_argument(
        "--for", dest="members", nargs="+", default=[], metavar="DEVICE", help="only these members (default: all)"
    )
    import_ = actions.add("import", on_device(_import), "take what a file holds, as if members had sent it")
    import_.add_argument("file", metavar="FILE", help="what 'covey history export' has written")
    for action in dict.fromkeys(parser.actions.values()):
        json_option(action)
        if action is not import_:  # a file says which group it is of
            group_option(action)


_LOG_EXAMPLES = ("covey history log --last 20 --follow", "covey history --author greenhouse --since 7d --json")


def _log(options: argparse.Namespace) -> None:
    since_us = 0
    if options.since:
        since_us = max(0, time.time_ns() // 1_000 - read_us("--since", options.since, _LONGEST_US))
    if options.last < 0:
        raise UsageError(f"--last: {options.last} is less than nothing", hint="--last 20 shows the last twenty")
    query = HistoryQuery(options.group, options.type or "", options.author or "", since_us, options.last)
    with device_api(options) as device:
        for each in device.history(query, follow=options.follow):
            if options.json:
                print_json(to_json(each))
            else:
                print(_line(each))
            if options.follow:
                sys.stdout.flush()


def _line(entry: HistoryEntry) -> str:
    who = labelled_name(entry.author[:8], entry.label)
    remarks = "(void) " * entry.void + "(fork) " * entry.fork
    return f"{entry.id[:8]}  {date_text(entry.made_at_us)}  {who}  {remarks}{_said(entry)}"


def _said(entry: HistoryEntry) -> str:
    if entry.title is not None:
        return f"the group is called '{printable(entry.title)}'"
    if entry.uri is not None:
        what = "session begins" if entry.ended_at_us is None else f"session {(entry.about or '')[:8]} is over"
        return f"{what}: {printable(entry.uri)}"
    about = f"(about {entry.about[:8]}) " if entry.about else ""
    instead = f"(instead of {entry.replaces[:8]}) " if entry.replaces else ""
    if entry.mime is None:
        return f"{about}{entry.kind}" + (f": {printable(entry.text)}" if entry.text else "")
    if entry.text is None:
        return f"{about}{instead}{count(entry.bytes, 'byte')} of {printable(entry.mime)}"
    return f"{about}{instead}{printable(entry.text.rstrip())}"


def _show(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    if options.raw:
        sys.stdout.buffer.write(history.content(device, manifest, options.id))
        return
    entry = history.entry(device, manifest, options.id)
    if options.json:
        print_json(to_json(entry))
        return
    fields = {
        "id": entry.id,
        "kind": entry.kind,
        "author": labelled_name(entry.author, entry.label),
        "number": entry.number,
        "height": entry.height,
        "made at": date_text(entry.made_at_us),
        "came at": date_text(entry.stored_at_us),
        "follows": " ".join(each[:8] for each in entry.parents),
        "manifest": entry.manifest,
        "void": "its author was removed before anybody knew of it" if entry.void else None,
        "fork": "its author has written two under one number" if entry.fork else None,
        "type": printable(entry.mime or ""),
        "title": printable(entry.title or ""),
        "where": printable(entry.uri or ""),
        "ended at": None if entry.ended_at_us is None else date_text(entry.ended_at_us),
        "about": entry.about,
        "instead of": entry.replaces,
    }
    print_fields({name: value for name, value in fields.items() if value})
    if entry.text is not None:
        print()
        for line in entry.text.splitlines():
            print(printable(line, 1_000))


def _verify(device: Device, options: argparse.Namespace) -> int:
    found = verify_history(device, device.pick_group(options.group))
    if options.json:
        print_json(to_json(found))
    else:
        for complaint in found.complaints:
            print(f"error: {complaint}", file=sys.stderr)
        holds = "do not all hold" if found.complaints else "all hold"
        by = ", ".join(namer(device)(each[:8]) for each in found.forked)
        remarks = f"; {count(found.forks, 'fork')} by {by}, both branches kept" if found.forks else ""
        if found.void:
            remarks += f"; {count(found.void, 'operation')} of removed members void"
        print(
            f"{count(found.operations, 'operation')} by {count(found.authors, 'author')}, and "
            f"{count(found.versions, 'version')} of the group from version {found.first_version} on: {holds}{remarks}"
        )
        if found.checkpoint is not None:
            kept = f"; {found.forgotten:,} earlier operations are not kept here" if found.forgotten else ""
            print(in_words(found.checkpoint) + kept)
    return 1 if found.complaints else 0


def _checkpoint(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    found = entries(device, manifest) if options.list else [propose(device, manifest)]
    if options.json:
        print_json([to_json(each) for each in found] if options.list else to_json(found[0]))
        return
    for each in found:
        what = f"{count(each.settings, 'key')}, {count(each.operators, 'operator')}, {each.state_bytes:,} bytes"
        print(f"{in_words(each)} ({what})")


def _forget(device: Device, options: argparse.Namespace) -> None:
    days = device.config.history.keep_days
    if options.keep is None and not days:
        raise UsageError("how much is to be kept?", hint="--keep 30d, or covey config set history.keep_days 30")
    kept_us = keep_us(days) if options.keep is None else read_us("--keep", options.keep, _LONGEST_US)
    found = forget(device, device.pick_group(options.group), kept_us)
    if options.json:
        print_json(to_json(found))
        return
    gone = f"{count(found.forgotten, 'operation')} forgotten, {found.in_all:,} in all"
    print(f"{gone}; checkpoint {found.checkpoint[:8]} covers them")


def _export(device: Device, options: argparse.Namespace) -> None:
    written = export_history(device, device.pick_group(options.group), Path(options.file), options.members)
    if options.json:
        print_json(to_json(written))
    else:
        what = f"{count(written.operations, 'operation')} and {count(written.versions, 'version')} of the group"
        print(f"{what} in {options.file}, which {count(written.members, 'member')} can read")


def _import(device: Device, options: argparse.Namespace) -> int:
    found = import_history(device, Path(options.file))
    if options.json:
        print_json(to_json(found))
    elif found.group_id:  # of a file that is damaged from its beginning there is nothing to tell
        print(
            f"group {found.group_id[:8]}: {count(found.taken, 'new operation')}, {found.known} known, "
            f"{found.refused} refused, {found.waiting} resting on what is not here"
        )
        if found.waiting:
            print("hint: import a later file: what rests on something is taken together with that", file=sys.stderr)
        for author in found.forked:
            two = f"{namer(device)(author[:8])} wrote two operations under one number; both are kept"
            print(f"warning: {two}: its key may be in two hands", file=sys.stderr)
        for each in found.refusals:
            print(f"error: {count(each.count, each.what)} refused: {each.code}: {printable(each.why)}", file=sys.stderr)
    if found.complaint:
        print(f"error: {found.complaint}", file=sys.stderr)
        print("hint: copy it once more from where 'covey history export' has written it", file=sys.stderr)
    return 1 if found.complaint or found.refusals else 0
