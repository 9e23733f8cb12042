"""`covey outbox list|verify|export|import|quarantine`: what waits, and what people do with it by hand."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from covey.adapters.journal import report
from covey.app.operations.export_files import export_files, import_files
from covey.cli.device_options import answering_agent, open_device, state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import confirm, count, print_json, print_table
from covey.core.ids import device_name
from covey.core.link.records import MessageClass, Quarantined
from covey.core.wire.message import read_message
from covey.errors import CoveyError, LocalError, OutboxFullError, UsageError

if TYPE_CHECKING:
    from covey.app.device import Device

_SHOWN = 20
MOST_SHOWN = 1_000
"""Messages of each recipient."""
_TELL_EVERY = 10_000


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    listing = actions.add("list", _list, "show what waits, for whom, and for how long", also=["ls"])
    listing.add_argument(
        "--limit", type=int, default=_SHOWN, metavar="N", help=f"messages of each recipient (default: {_SHOWN})"
    )
    verify = actions.add("verify", _verify, "look through the state database for damage")
    verify.add_argument("--repair", action="store_true", help="save what can be read, if something is wrong")
    export = actions.add("export", export_files, "write what waits into a folder, to be carried on a stick")
    export.add_argument("folder", metavar="DIR", help="the folder to write into")
    export.add_argument("--to", metavar="DEVICE", help="one recipient alone: beginning of its name or key")
    import_ = actions.add("import", import_files, "take in what another device has exported")
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
    for action in dict.fromkeys(parser.actions.values()):
        json_option(action)


def outbox_of(device: Device, limit: int) -> dict[str, Any]:
    """Return what waits as JSON values: the oldest `limit` messages of each recipient, and how many there are."""
    now_us = device.clock.wall_us()
    messages, size = device.store.outbox.totals()
    shown = [
        {
            "recipient": device_name(recipient),
            "link_seq": link_seq,
            "class": MessageClass(kind).name.lower(),
            "bytes": length,
            "seconds": max(0, (now_us - queued_at_us) // 1_000_000),
        }
        for recipient in device.store.outbox.recipients()
        for link_seq, kind, length, queued_at_us in device.store.outbox.waiting(recipient, limit)
    ]
    return {"messages": messages, "bytes": size, "shown": shown}


def _list(options: argparse.Namespace) -> int:
    """Show what waits; what stands there is forgotten when its recipient has it."""
    if not 0 <= options.limit <= MOST_SHOWN:
        raise UsageError(f"--limit must be between 0 and {MOST_SHOWN}")
    agent = answering_agent(options)
    if agent is not None:
        waiting = agent.outbox(options.limit)
    else:
        with open_device(options) as device:
            waiting = outbox_of(device, options.limit)
    if options.json:
        print_json(waiting)
        return 0
    messages, size, rows = waiting["messages"], waiting["bytes"], waiting["shown"]
    if rows:
        print_table(["recipient", "number", "class", "bytes", "seconds"], [list(row.values()) for row in rows])
    print(
        f"{count(messages, 'message')}, {count(size, 'byte')}"
        + (f"; {len(rows)} shown" if len(rows) < messages else "")
    )
    return 0


# -- verify -----------------------------------------------------------------------------------------------------------


def _verify(options: argparse.Namespace) -> int:
    """Look through the file; 1 where something is wrong and was not repaired."""
    from covey.adapters.sqlite.inspection import verify

    folder = state_folder(options)
    folder.identity()  # a device must be here
    path = folder.state_file.path

    def tell(looked_at: int) -> None:
        if looked_at % _TELL_EVERY == 0 and sys.stderr.isatty():
            print(f"\r{count(looked_at, 'message')}", end="", file=sys.stderr, flush=True)

    try:
        complaints = verify(path, tell) if path.exists() else []
    except CoveyError as error:
        complaints = [str(error)]
    repaired = False
    if complaints and options.repair:
        folder.state_file.note_damage()
        if folder.agent_runs():
            raise LocalError(
                "the agent has the state open; it saves what can be read at its next start",
                hint="systemctl restart covey",
            )
        repaired = True
    salvages: list[dict[str, Any]] = []
    if not complaints or repaired:
        with open_device(options) as device:
            salvages = [{"at_us": at_us, **about} for at_us, about in device.store.device.salvages()]
    if options.json:
        print_json({"sound": not complaints, "complaints": complaints, "repaired": repaired, "salvages": salvages})
    else:
        _tell_verified(complaints, salvages, repaired=repaired)
    return 1 if complaints and not repaired else 0


def _tell_verified(complaints: list[str], salvages: list[dict[str, Any]], *, repaired: bool) -> None:
    from covey.adapters.sqlite.salvage import Report

    for line in complaints:
        report("error", line)
    for each in salvages:
        print(Report(each["aside"], each["saved"], each["lost"]).line())
    if not complaints:
        print("sound")
    elif repaired:
        print("repaired: what could be read is in a new file")
    else:
        print("hint: covey outbox verify --repair saves what can be read", file=sys.stderr)


# -- quarantine -------------------------------------------------------------------------------------------------------


def _quarantine(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        held = device.store.quarantine.entries()
        if options.number is None:
            if options.release or options.drop:
                raise LocalError("which message?", hint="covey outbox quarantine lists their numbers")
            _show(options, [_about(each) for each in held])
            return 0
        found = next((each for each in held if str(each.id) == options.number), None)
        if found is None:
            raise LocalError(f"no message {options.number} in quarantine", hint="covey outbox quarantine lists them")
        if options.release:
            with device.store.transaction():
                if not device.node.release(found, device.now()):
                    raise OutboxFullError("there is no room for it now", hint="covey status shows what takes the room")
                device.store.quarantine.remove(found.id)
            done = "released"
        elif options.drop:
            confirm(f"forget message {found.id} for good?", options.yes)
            with device.store.transaction():
                device.store.quarantine.remove(found.id)
                device.store.counters.count("quarantine_dropped")
            done = "dropped"
        else:
            _show(options, [{**_about(found), "message": found.message.hex()}], whole=True)
            return 0
    if options.json:
        print_json({"number": found.id, "done": done})
    else:
        print(done)
    return 0


def _about(held: Quarantined) -> dict[str, Any]:
    message = read_message(held.message, verify=False)
    outgoing = held.recipient is not None
    return {
        "number": held.id,
        "way": "out" if outgoing else "in",
        "device": device_name(message.recipient if outgoing else message.author),
        "type": message.type.name.lower(),
        "why": held.code,
        "bytes": len(held.message),
        "stored_at_us": held.stored_at_us,
    }


def _show(options: argparse.Namespace, rows: list[dict[str, Any]], *, whole: bool = False) -> None:
    if options.json:
        print_json(rows[0] if whole else rows)
    elif whole:
        print_table(["what", "is"], list(rows[0].items()))
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        print("nothing is in quarantine")
