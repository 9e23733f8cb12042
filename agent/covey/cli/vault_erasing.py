"""`covey vault delete` and `covey vault retain`: erase from this device's part of a vault, or say how much would go."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from covey.app.telemetry import erasing
from covey.app.wording import count
from covey.cli.deletion_notes import add_note_options, note_intent, note_result
from covey.cli.device_options import open_device
from covey.cli.grammar import Actions, Parser
from covey.cli.interruption import explained_interruption
from covey.cli.progress_line import ProgressLine
from covey.cli.terminal import print_json
from covey.config.tables_options import read_days, read_one_author

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.vault.erasing import ErasureDue


def add_erasing(actions: Actions) -> tuple[Parser, Parser]:
    """Add the two actions."""
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
        return _erase(device, options, due, f"all of {due.author.hex()}")


def _retain(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        due = erasing.due_before(device, options.days)
        return _erase(device, options, due, f"what is older than {options.days} days")


def _erase(device: Device, options: argparse.Namespace, due: ErasureDue, what: str) -> int:
    """Note it, erase it, and note what went (`deletion_notes`)."""
    intent = None
    if not (options.dry_run or options.no_note):
        intent = note_intent(device, options.group, f"{what} from the vault")
    gone = "what is deleted is gone, and the same command goes on with the rest"
    with explained_interruption(lambda: "nothing was changed" if options.dry_run else gone), ProgressLine() as line:
        outcome = erasing.erase_from_vault(
            device,
            options.vault,
            due,
            intent.id if intent else None,
            lambda node, done, of: line.show(f"{node[:8]}: {done} of {of} looked at", last=done == of),
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
        print(f"segment {number} is damaged or missing: what it holds is not known", file=sys.stderr)
    if outcome.waiting and not options.dry_run:
        waiting = count(outcome.waiting, "message")
        print(f"error: {waiting} of it came before, and waits here to be landed", file=sys.stderr)
        print("hint: say it again when the collector has landed it; 'covey vault status' shows", file=sys.stderr)
    return 0 if outcome.is_whole or options.dry_run else 1
