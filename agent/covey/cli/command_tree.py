"""The command line as data: what completion and the manual are drawn from."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from covey.cli.main import full_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covey.cli.grammar import Parser


class Takes(Enum):
    """The kind of value of an option or a positional argument."""

    NOTHING = "nothing"
    WORD = "word"
    FILE = "file"
    FOLDER = "folder"
    SETTING = "setting"
    ARGUMENT = "argument"
    ACTIONS = "actions"
    DEVICES = "devices"
    GROUPS = "groups"
    ORDERS = "orders"
    PLANS = "plans"
    RELEASES = "releases"
    WHOM = "whom"


@dataclass(frozen=True, slots=True)
class Argument:
    """An option (with names) or a positional argument (without)."""

    names: tuple[str, ...]
    shown: str
    help: str
    takes: Takes
    choices: tuple[str, ...]
    many: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or one of its actions: the words after `covey`, the last of which may have aliases."""

    path: tuple[str, ...]
    also: tuple[str, ...]
    summary: str
    usage: str
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...]
    actions: tuple[Command, ...]
    default_action: str

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """The last word and its aliases."""
        return (self.name, *self.also)

    @property
    def default(self) -> Command | None:
        """The action that runs if none is named."""
        return next((each for each in self.actions if each.name == self.default_action), None)

    @property
    def options(self) -> list[Argument]:
        return [each for each in self.arguments if each.names]

    @property
    def places(self) -> list[Argument]:
        """The positional arguments."""
        return [each for each in self.arguments if not each.names]


def commands() -> list[Command]:
    """Return every command with its actions and arguments, in the order of `covey --help`."""
    return list(_below(full_parser(), ()))


def every_command() -> Iterator[Command]:
    """Yield every command, each followed by its actions."""
    for command in commands():
        yield command
        yield from command.actions


def _below(parser: Parser, path: tuple[str, ...]) -> Iterator[Command]:
    for choice in parser._actions:  # noqa: SLF001 - argparse shows itself no other way
        if isinstance(choice, argparse._SubParsersAction):  # noqa: SLF001
            for pseudo in choice._choices_actions:  # noqa: SLF001
                found = choice.choices[pseudo.dest]
                also = tuple(name for name, other in choice.choices.items() if other is found and name != pseudo.dest)
                yield _command((*path, pseudo.dest), also, pseudo.help or "", found)


def _command(path: tuple[str, ...], also: tuple[str, ...], summary: str, parser: Parser) -> Command:
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    arguments = tuple(
        _argument(each)
        for each in parser._actions  # noqa: SLF001
        if not isinstance(each, argparse._SubParsersAction)  # noqa: SLF001
    )
    actions = tuple(_below(parser, path))
    return Command(path, also, summary, usage, parser.examples, arguments, actions, parser.default_action)


_TAKES = {
    "FILE": Takes.FILE,
    "PATH": Takes.FILE,
    "DIR": Takes.FOLDER,
    "WHERE": Takes.FOLDER,
    "VAULT": Takes.FOLDER,
    "TABLES": Takes.FOLDER,
    "SETTING": Takes.SETTING,
    "ARGUMENT": Takes.ARGUMENT,
    "ACTION": Takes.ACTIONS,
    "DEVICE": Takes.DEVICES,
    "GROUP": Takes.GROUPS,
    "ORDER": Takes.ORDERS,
    "PLAN": Takes.PLANS,
    "RELEASE": Takes.RELEASES,
    "WHOM": Takes.WHOM,
}


def _argument(action: argparse.Action) -> Argument:
    shown = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    assert isinstance(shown, str), "no option of ours takes several words"
    takes = Takes.NOTHING if action.option_strings and action.nargs == 0 else _TAKES.get(shown, Takes.WORD)
    choices = tuple(str(each) for each in action.choices or ())
    many = action.nargs in {"*", "+", 2} or isinstance(action, argparse._AppendAction)  # noqa: SLF001
    text = (action.help or "").replace("%%", "%")
    return Argument(tuple(action.option_strings), shown, text, takes, choices, many)
