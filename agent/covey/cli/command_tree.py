"""The command line as data: what completion and the manual are drawn from."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, replace
from enum import Enum

from covey.cli.main import full_parser
from covey.config.ingest_options import report_parser


class Takes(Enum):
    """What follows an option, or stands in a place."""

    NOTHING = "nothing"
    WORD = "word"
    FILE = "file"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Argument:
    """An option (with names) or a positional (without)."""

    names: tuple[str, ...]
    shown: str
    help: str
    takes: Takes
    choices: tuple[str, ...]

    @property
    def key(self) -> bool:
        """Whether a setting's name is meant."""
        return self.shown == "key"


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand, with all that its own subcommands take, where it has any; they have a usage each."""

    name: str
    summary: str
    usages: tuple[str, ...]
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> list[Argument]:
        """The arguments that have names."""
        return [each for each in self.arguments if each.names]

    @property
    def places(self) -> list[Argument]:
        """The arguments that are known by their place."""
        return [each for each in self.arguments if not each.names]


def commands() -> list[Command]:
    """Return every command with all that it takes, in the order of `covey --help`."""
    parser = full_parser()
    (choice,) = _choices(parser)
    summaries = {each.dest: each.help or "" for each in choice._choices_actions}  # noqa: SLF001
    return [_command(name, summaries[name], parser) for name, parser in choice.choices.items()]


def _choices(parser: argparse.ArgumentParser) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001 - argparse shows itself no other way


_BESIDE = {"ingest": ("vault", "report", report_parser)}
"""What a command takes in a place of its own words: the place, the word, and the options that follow then."""


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> Command:
    inner = [each for choice in _choices(parser) for each in choice.choices.values()]
    place, word, beside = _BESIDE.get(name, ("", "", None))
    others = [beside()] if beside else []
    usages = [" ".join(each.format_usage().split()).removeprefix("usage: ") for each in [*(inner or [parser]), *others]]
    actions = {
        tuple(action.option_strings) or action.dest: action
        for each in reversed([parser, *inner, *others])
        for action in reversed(each._actions)  # noqa: SLF001
    }
    found = [_argument(each) for each in reversed(actions.values())]
    found = [replace(each, choices=(word,)) if each.shown == place and not each.names else each for each in found]
    return Command(name, summary, tuple(usages), tuple(found))


_TAKES = dict.fromkeys(("FILE", "PATH", "file"), Takes.FILE) | dict.fromkeys(("DIR", "vault", "tables"), Takes.FOLDER)


def _argument(action: argparse.Action) -> Argument:
    shown = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    assert isinstance(shown, str), "no option of ours takes several words"
    takes = _TAKES.get(shown, Takes.WORD)
    if action.option_strings and action.nargs == 0:
        takes = Takes.NOTHING
    choices = tuple(str(each) for each in action.choices or ())
    return Argument(tuple(action.option_strings), shown, re.sub(r"%%", "%", action.help or ""), takes, choices)
