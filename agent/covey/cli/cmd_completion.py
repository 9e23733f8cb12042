"""`covey completion SHELL`: the script that lets a shell complete commands, options and settings."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("shell", choices=["bash", "fish", "zsh"])


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from covey.cli.completions import SHELLS

    print(SHELLS[options.shell](), end="")
    return 0
