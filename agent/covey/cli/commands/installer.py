"""`covey installer`: the built-in programs that install things on trial; definitions in `operations.d` call them."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.orders.installing import NOT_YET, WORDS, install_boards, install_covey, install_file, wait_reason
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.cli.grammar import Parser


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    file = actions.add("file", _file, "install a file; roll back if its check fails")
    file.add_argument("--to", required=True, metavar="PATH", help="absolute path of the installed file")
    file.add_argument("--hook", default="", metavar="PROGRAM", help="program to run after each change; gets the path")
    file.add_argument(
        "--check",
        default="",
        metavar="PROGRAM",
        help="health check, gets the path: exit code 0 good, 75 not yet, else bad",
    )
    covey = actions.add("covey", _covey, "update Covey in one of two slots; roll back if it fails")
    covey.add_argument("--slots", required=True, metavar="FOLDER", help="folder with the slots and the link")
    board = actions.add("board", _board, "update boards of this device; roll back if they fail")
    board.add_argument("--of", required=True, metavar="FOLDER", help="state folder of the agent")
    when = actions.add("when", _when, "exit 0 if this is the moment to install, 75 if it has to wait")
    when.add_argument("--hours", default="", metavar="HOURS", help="only in these hours, local time: 22:00-05:00")
    when.add_argument("--mains", action="store_true", help="only on mains power, not on a battery")
    when.add_argument("--check", default="", metavar="PROGRAM", help="program that says: exit code 0 now, 75 later")
    for each in (file, covey, board):
        each.add_argument("word", choices=WORDS, metavar="WORD", help=f"{', '.join(WORDS)}; stdin is the file")


def _file(options: argparse.Namespace) -> int:
    hook, check = _program("--hook", options.hook), _program("--check", options.check)
    return _said(install_file(options.word, Path(options.to), hook, check, sys.stdin.buffer))


def _covey(options: argparse.Namespace) -> int:
    return _said(install_covey(options.word, Path(options.slots), sys.stdin.buffer))


def _board(options: argparse.Namespace) -> int:
    from covey.app.device.device import find_state

    return _said(install_boards(options.word, find_state(options.of), sys.stdin.buffer))


def _when(options: argparse.Namespace) -> int:
    reason = wait_reason(options.hours, _program("--check", options.check), mains=options.mains)
    print(reason or "now")
    return NOT_YET if reason else 0


def _said(done: int | str) -> int:
    if isinstance(done, int):
        return done
    print(done)
    return 0


def _program(option: str, text: str) -> list[str]:
    """Return the program and its arguments."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if words and not words[0].startswith("/"):
        raise UsageError(
            f"{option}: '{words[0]}' is not a program's absolute path",
            hint=f"for example {option} /usr/local/bin/pump-reload",
        )
    return words
