"""`covey completion SHELL`: the script that lets a shell complete commands, options and settings."""

from __future__ import annotations

import argparse

from covey.cli.grammar import Parser


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("shell", metavar="SHELL", choices=["bash", "fish", "zsh"], help="bash, fish or zsh")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from covey.cli.completions import SHELLS

    print(SHELLS[options.shell](), end="")
    return 0
