"""`covey check`: is everything as it should be, and if not, how is it mended."""

from __future__ import annotations

import argparse

from covey.app.checks.findings import Examined, Finding, Level
from covey.app.checks.local import examine
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import print_json
from covey.core.ids import printable


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--offline", action="store_true", help="leave the relay out")
    parser.add_argument("--warnings-as-errors", action="store_true", help="exit with 1 for warnings, too")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Print a line for each finding; return 0 where all is well."""
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
