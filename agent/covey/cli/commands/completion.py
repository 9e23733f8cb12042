"""`covey completion SHELL`: print a script that completes commands, options and settings."""

from __future__ import annotations

import argparse

from covey.cli.grammar import Parser
from covey.errors import UsageError


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("shell", nargs="?", metavar="SHELL", choices=["bash", "fish", "zsh"], help="bash, fish or zsh")
    parser.add_argument("--words", metavar="KIND", help="print completion words of this kind (for the scripts)")


def run(options: argparse.Namespace) -> int:
    """Print the script, or the words that it asks for."""
    if options.words is not None:
        from covey.app.agent.completion_words import KINDS, completion_words

        if options.words not in KINDS:
            raise UsageError(f"--words: '{options.words}' is unknown", hint=f"one of {', '.join(KINDS)}")
        print("".join(f"{word}\n" for word in completion_words(options.words)), end="")
        return 0
    if options.shell is None:
        raise UsageError("no shell is given", hint="for example: covey completion bash")
    from covey.cli.completions import SHELLS

    print(SHELLS[options.shell](), end="")
    return 0
