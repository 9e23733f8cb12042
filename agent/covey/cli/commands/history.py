"""`covey history`: the permanent record of a group: notes, changes and sessions, in the same order everywhere."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from covey.app.device.device import Device
from covey.app.device.known_labels import namer
from covey.app.documents import to_json
from covey.app.history import history
from covey.app.history import sessions as history_sessions
from covey.app.history.checkpoints import entries, in_words, propose
from covey.app.history.documents import HistoryEntry
from covey.app.history.files import export_history, import_history
from covey.app.history.forgetting import delete_covered, keep_us
from covey.app.history.pages import HistoryQuery
from covey.app.history.proof import verify_history
from covey.app.history.writing import write_note
from covey.app.orders.fleet import post_everywhere
from covey.app.wording import count, duration
from covey.cli.device_options import device_api, on_device
from covey.cli.grammar import Parser, group_option, json_option, refuse_idle
from covey.cli.output.terminal import print_fields, print_json, print_table
from covey.cli.quantities import date_text, read_us
from covey.cli.scope import pick_scope, scope_options
from covey.core.ids import labelled_name, printable
from covey.errors import UsageError
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES

_LONGEST_US = 36_500 * 86_400_000_000


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="log")
    log = actions.add("log", _log, "print the group's history, oldest first", examples=_LOG_EXAMPLES)
    log.add_argument("--type", choices=history.KINDS, help="only entries of this kind")
    log.add_argument("--author", metavar="DEVICE", help="only entries of this member: label, or start of key")
    log.add_argument("--since", metavar="TIME", help="only the last 7d, 12h or 30m, by the author's clock")
    log.add_argument("--last", type=int, default=0, metavar="N", help="only the last N entries")
    log.add_argument("--follow", action="store_true", help="keep printing new entries (Ctrl-C to stop)")
    post = actions.add("post", on_device(_post), "post a permanent note to a group", examples=_POST_EXAMPLES)
    post.add_argument("text", nargs="?", default="-", metavar="TEXT", help="text of the note (default: stdin)")
    post.add_argument("--mime", default="text/plain", metavar="TYPE", help="type of stdin (default: text/plain)")
    post.add_argument("--react", metavar="ID", help="comment on an entry: start of its id")
    post.add_argument("--edit", metavar="ID", help="replace a note that this device posted")
    show = actions.add("show", on_device(_show), "show one entry in full")
    show.add_argument("id", metavar="ID", help="start of its id")
    show.add_argument("--raw", action="store_true", help="write the content of a note to stdout, byte for byte")
    actions.add("verify", on_device(_verify), "verify every signature and rule since the group's first version")
    checkpoint = actions.add("checkpoint", on_device(_checkpoint), "propose a checkpoint for admins to sign")
    checkpoint.add_argument("--list", action="store_true", help="list proposed checkpoints and their signatures")
    deleting = actions.add("delete", on_device(_delete), "delete local history covered by a valid checkpoint")
    deleting.add_argument("--keep", metavar="TIME", help="keep the last 30d (default: history.keep_days)")
    export = actions.add("export", on_device(_export), "write the history into a file, e.g. on a USB stick")
    export.add_argument("file", metavar="FILE", help="file to write; only members can read it")
    export.add_argument(
        "--for", dest="members", nargs="+", default=[], metavar="DEVICE", help="only for these members (default: all)"
    )
    import_ = actions.add("import", on_device(_import), "read a file that 'covey history export' wrote")
    import_.add_argument("file", metavar="FILE", help="file that 'covey history export' wrote")
    actions.add("sessions", on_device(_sessions), "list the sessions of a group, oldest first")
    start = actions.add("start-session", on_device(_start_session), "announce where people meet to work on the fleet")
    start.add_argument("uri", metavar="URI", help="a call, chat or place, e.g. tel:+43-1-2345")
    end = actions.add("end-session", on_device(_end_session), "announce the end of a session")
    end.add_argument("id", nargs="?", metavar="ID", help="start of its id (default: this device's last one)")
    for action in dict.fromkeys(parser.actions.values()):
        json_option(action)
        if action is not import_:  # a file says which group it is of
            (scope_options if action is post else group_option)(action)


_LOG_EXAMPLES = ("covey history log --last 20 --follow", "covey history --author greenhouse --since 7d --json")
_POST_EXAMPLES = ("covey history post 'pump 3 rattles'", "covey history post --mime image/png < pump.png")


def _log(options: argparse.Namespace) -> None:
    since_us = 0
    if options.since:
        since_us = max(0, time.time_ns() // 1_000 - read_us("--since", options.since, _LONGEST_US))
    if options.last < 0:
        raise UsageError(f"--last: {options.last} is negative", hint="for example --last 20")
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
        return f"named the group '{printable(entry.title)}'"
    if entry.uri is not None:
        what = "session started" if entry.ended_at_us is None else f"session {(entry.about or '')[:8]} ended"
        return f"{what}: {printable(entry.uri)}"
    about = f"(about {entry.about[:8]}) " if entry.about else ""
    instead = f"(replaces {entry.replaces[:8]}) " if entry.replaces else ""
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
        "written": date_text(entry.made_at_us),
        "arrived": date_text(entry.stored_at_us),
        "follows": " ".join(each[:8] for each in entry.parents),
        "manifest": entry.manifest,
        "void": "its author was removed before any member received it" if entry.void else None,
        "fork": "its author wrote two under one number" if entry.fork else None,
        "type": printable(entry.mime or ""),
        "title": printable(entry.title or ""),
        "where": printable(entry.uri or ""),
        "ended": None if entry.ended_at_us is None else date_text(entry.ended_at_us),
        "about": entry.about,
        "replaces": entry.replaces,
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
        holds = "not all valid" if found.complaints else "all valid"
        by = ", ".join(namer(device)(each[:8]) for each in found.forked)
        remarks = f"; {count(found.forks, 'fork')} by {by}, both branches kept" if found.forks else ""
        if found.void:
            remarks += f"; {count(found.void, 'operation')} of removed members void"
        print(
            f"{count(found.operations, 'operation')} by {count(found.authors, 'author')}, "
            f"{count(found.versions, 'group version')} from version {found.first_version}: {holds}{remarks}"
        )
        if found.checkpoint is not None:
            kept = f"; {found.deleted:,} earlier operations were deleted here" if found.deleted else ""
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


def _delete(device: Device, options: argparse.Namespace) -> None:
    days = device.config.history.keep_days
    if options.keep is None and not days:
        raise UsageError(
            "no age is given", hint="for example --keep 30d; or set a default: covey config set history.keep_days 30"
        )
    kept_us = keep_us(days) if options.keep is None else read_us("--keep", options.keep, _LONGEST_US)
    found = delete_covered(device, device.pick_group(options.group), kept_us)
    if options.json:
        print_json(to_json(found))
        return
    gone = f"deleted {count(found.deleted, 'operation')}, {found.in_all:,} in all"
    print(f"{gone}; checkpoint {found.checkpoint[:8]} covers them")


def _export(device: Device, options: argparse.Namespace) -> None:
    written = export_history(device, device.pick_group(options.group), Path(options.file), options.members)
    if options.json:
        print_json(to_json(written))
    else:
        what = f"{count(written.operations, 'operation')} and {count(written.versions, 'group version')}"
        print(f"wrote {what} to {options.file}; {count(written.members, 'member')} can read it")


def _import(device: Device, options: argparse.Namespace) -> int:
    found = import_history(device, Path(options.file))
    if options.json:
        print_json(to_json(found))
    elif found.group_id:  # of a file that is damaged from its beginning there is nothing to tell
        print(
            f"group {found.group_id[:8]}: {count(found.taken, 'new operation')}, {found.known} known, "
            f"{found.refused} refused, {found.waiting} waiting for earlier ones"
        )
        if found.waiting:
            print("hint: import a file that contains the earlier operations too", file=sys.stderr)
        for author in found.forked:
            two = f"{namer(device)(author[:8])} wrote two operations under one number; both are kept"
            print(f"warning: {two}: its key may have been copied", file=sys.stderr)
        for each in found.refusals:
            print(f"error: {count(each.count, each.what)} refused: {each.code}: {printable(each.why)}", file=sys.stderr)
    if found.complaint:
        print(f"error: {found.complaint}", file=sys.stderr)
        print("hint: copy the file again from the device that exported it", file=sys.stderr)
    return 1 if found.complaint or found.refusals else 0


def _post(device: Device, options: argparse.Namespace) -> None:
    scope = pick_scope(device, options.group, fleet=options.fleet)
    content = _stdin() if options.text == "-" else options.text.encode(errors="replace")
    typed = options.text != "-"
    if scope.fleet:
        refuse_idle(options, "--fleet", "react", "edit")
        given = post_everywhere(device, scope, content, options.mime, typed=typed)
        if options.json:
            print_json({"plan": given.plan, "notes": {g.group_id.hex(): note.id.hex() for g, note in given.orders}})
        else:
            print(f"posted in {count(len(given.orders), 'group')} as plan {(given.plan or '')[:8]}")
        return
    written = write_note(device, scope.groups[0], content, options.mime, options.react, options.edit, typed=typed)
    if options.json:
        print_json({"id": written.id.hex(), "height": written.height})
    else:
        print(f"posted as {written.id.hex()[:8]}")


def _stdin() -> bytes:
    return sys.stdin.buffer.read(MAXIMUM_OPERATION_BODY_BYTES + 1)


def _sessions(device: Device, options: argparse.Namespace) -> None:
    found = history_sessions.sessions(device, device.pick_group(options.group))
    if options.json:
        print_json([to_json(each) for each in found])
        return
    if not found:
        print("no sessions")
        return
    rows = [
        (
            each.id[:8],
            date_text(each.started_at_us),
            _session_duration(each.started_at_us, each.ended_at_us),
            labelled_name(each.author[:8], each.label),
            printable(each.uri),
        )
        for each in found
    ]
    print_table(["session", "started", "took", "by", "where"], rows)


def _session_duration(started_at_us: int, ended_at_us: int | None) -> str:
    return "open" if ended_at_us is None else duration((ended_at_us - started_at_us) // 1_000_000)


def _start_session(device: Device, options: argparse.Namespace) -> None:
    begun = history_sessions.start_session(device, device.pick_group(options.group), options.uri)
    if options.json:
        print_json({"id": begun.id.hex()})
    else:
        print(f"started session {begun.id.hex()[:8]}; to end it: covey history end-session")


def _end_session(device: Device, options: argparse.Namespace) -> None:
    ended = history_sessions.end_session(device, device.pick_group(options.group), options.id)
    if options.json:
        print_json(to_json(ended))
    else:
        print(f"ended session {ended.id[:8]} after {_session_duration(ended.started_at_us, ended.ended_at_us)}")
