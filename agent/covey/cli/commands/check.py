"""`covey check`: find problems on this device, and say how to fix them; check or repair its database."""

from __future__ import annotations

import argparse
import sys

from covey.app.checks.examining import examine
from covey.app.checks.findings import Examined, Finding, Level
from covey.app.device.verifying import Verified, verify_state
from covey.app.wording import count
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, every_action, json_option
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.terminal import print_json
from covey.core.ids import printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="device")
    device = actions.add("device", _device, "find problems on this device, and say how to fix them")
    device.add_argument("--offline", action="store_true", help="do not connect to the relay")
    device.add_argument("--warnings-as-errors", action="store_true", help="exit with 1 if there are warnings")
    database = actions.add("database", _database, "check the state database for damage")
    database.add_argument("--repair", action="store_true", help="if it is damaged, save what can be read")
    every_action(parser, json_option)


def _device(options: argparse.Namespace) -> int:
    """Print each finding; return 0 if there are no errors."""
    examined = Examined(state_folder(options))
    found: list[Finding] = []
    try:
        for finding in examine(examined, offline=options.offline):
            found.append(finding)
            if not options.json:
                _show(finding)
    finally:
        examined.close()
    counts = {level: sum(each.level is level for each in found) for level in Level}
    failed = counts[Level.ERROR] + (counts[Level.WARNING] if options.warnings_as_errors else 0)
    if options.json:
        rows = [
            {"level": each.level.value, "check": each.check, "line": each.line, "hint": each.hint} for each in found
        ]
        print_json({"healthy": not failed, "findings": rows})
    else:
        print(f"errors: {counts[Level.ERROR]}, warnings: {counts[Level.WARNING]}")
    return 1 if failed else 0


def _show(finding: Finding) -> None:
    print(f"{finding.level.value:<8} {finding.check:<14} {printable(finding.line)}", flush=True)
    if finding.hint:
        print(f"{'':<23} hint: {finding.hint}", flush=True)


def _database(options: argparse.Namespace) -> int:
    """Check the file; return 1 if it is damaged and was not repaired."""
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
        print("repaired: the readable data is in a new file")
    else:
        print("hint: 'covey check database --repair' recovers the readable data", file=sys.stderr)
