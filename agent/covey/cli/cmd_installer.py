"""`covey installer`: what Covey brings to install things on trial with; definitions in `operations.d` name it."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.orders.installing import WORDS, install_boards, install_covey, install_file
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.cli.grammar import Parser


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    file = actions.add("file", _file, "put a file where a program looks for it, and take it back where it is no good")
    file.add_argument("--to", required=True, metavar="PATH", help="the whole path where it is to be")
    file.add_argument("--hook", default="", metavar="PROGRAM", help="runs after each change; the path is its argument")
    file.add_argument(
        "--check",
        default="",
        metavar="PROGRAM",
        help="says whether all is well: exit code 0 yes, 75 not yet, else no; the path is its argument",
    )
    covey = actions.add("covey", _covey, "update Covey itself, in one of two slots, and go back where it is no good")
    covey.add_argument("--slots", required=True, metavar="FOLDER", help="the folder with the slots and the link")
    board = actions.add("board", _board, "update the boards behind this device, and go back where it is no good")
    board.add_argument("--of", required=True, metavar="FOLDER", help="the state folder of this device's agent")
    for each in (file, covey, board):
        each.add_argument("word", choices=WORDS, metavar="WORD", help=f"one of {', '.join(WORDS)}; stdin is the file")


def _file(options: argparse.Namespace) -> int:
    hook, check = _program("--hook", options.hook), _program("--check", options.check)
    return _said(install_file(options.word, Path(options.to), hook, check, sys.stdin.buffer))


def _covey(options: argparse.Namespace) -> int:
    return _said(install_covey(options.word, Path(options.slots), sys.stdin.buffer))


def _board(options: argparse.Namespace) -> int:
    from covey.app.device.device import find_state

    return _said(install_boards(options.word, find_state(options.of), sys.stdin.buffer))


def _said(done: int | str) -> int:
    """Print a version; return the exit code."""
    if isinstance(done, int):
        return done
    print(done)
    return 0


def _program(option: str, text: str) -> list[str]:
    """Return the words of a program and its arguments."""
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
