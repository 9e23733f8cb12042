"""`covey help`: explain a command, an action or the words of the output, or list all commands."""

from __future__ import annotations

import argparse

from covey.cli.grammar import Parser
from covey.cli.main import all_commands, first_screen, full_parser
from covey.errors import UsageError


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "topic", nargs="?", metavar="COMMAND", help="command to explain; 'all' lists all; 'words': glossary"
    )
    parser.add_argument("action", nargs="?", metavar="NAME", help="action of this command, e.g. 'covey help group ban'")


def run(options: argparse.Namespace) -> int:
    if options.topic is None:
        text = first_screen()
    elif options.topic == "all" and options.action is None:
        text = all_commands()
    elif options.topic == "words" and options.action is None:
        text = _glossary()
    else:
        text = _explained(options.topic, options.action)
    print(text, end="")
    return 0


def _glossary() -> str:
    from covey.cli.words import WORDS

    return "".join(f"{word:<12} {meaning}\n" for word, meaning in WORDS.items())


def _explained(topic: str, action: str | None) -> str:
    root = full_parser()
    found = dict(root.commands()).get(topic)
    if found is None:
        root.parse_args([topic])  # refuses it, and names what is near
        raise UsageError(f"covey has no command '{topic}'", hint="covey help all")
    if action is None:
        return found.format_help()
    if action not in found.actions:
        raise UsageError(f"covey {topic} has no action '{action}'", hint=f"covey help {topic}")
    return found.actions[action].format_help()
