"""The grammar of a command line: one parser for each command and action, and one form for mistakes.

1. An option belongs to the commands and actions that read it; anywhere else it is a mistake.
2. The options that name the device (`state_options`) may come before or after the action.
3. A mistake is a `UsageError`; its hint names the nearest word, or where to find help.
4. A summary and a help text begin in lower case and end without a full stop; placeholders are in CAPITALS.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from covey.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Act: TypeAlias = "Callable[[argparse.Namespace], int | None]"
"""What does a command or an action; None is the exit code 0."""


_MISTAKES = (
    (re.compile(r"the following arguments are required: (.+)"), r"missing: \1"),
    (re.compile(r"argument (.+?): expected one argument"), r"\1 needs a value"),
    (re.compile(r"argument (.+?): invalid int value: (.+)"), r"\1: \2 is not a whole number"),
    (re.compile(r"argument (.+?): not allowed with argument (.+)"), r"\1 does not go with \2"),
)
"""What argparse says, and what is said instead."""

_FEW = 3
"""Commands that a hint names at most."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal.

    By default argparse asks `shutil` for the width even if no help is printed, and the compressors that `shutil`
    imports cost each agent more than half a MiB.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@cache
def _columns() -> int:
    """Return the width: COLUMNS, else the terminal's, else 80. argparse asks with each argument that is added."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr] # None: no stdout
    except (AttributeError, ValueError, OSError):
        return 80


class Parser(argparse.ArgumentParser):
    """The grammar of one command, or of one action."""

    def __init__(self, *, summary: str = "", examples: Sequence[str] = (), **settings: Any) -> None:
        if summary:
            settings.setdefault("description", summary[0].upper() + summary[1:] + ".")
        if examples:
            settings.setdefault("epilog", "\n  ".join(["examples:", *examples]))
        settings.setdefault("formatter_class", _Help)
        super().__init__(**settings)
        self._positionals.title = "arguments"
        self.examples = tuple(examples)
        self.actions: dict[str, Parser] = {}
        self.default_action = ""
        self.siblings: dict[str, Parser] = {}
        self.actions_elsewhere: Callable[[str], list[str]] = lambda _action: []
        """Of the root parser: the commands that have an action of some name."""

    def add_actions(self, default: str = "") -> Actions:
        """Divide this command into actions; `default` runs if none is named."""
        self.default_action = default
        return Actions(self, self.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True))

    def commands(self) -> list[tuple[str, Parser]]:
        """Return the commands of the root parser."""
        choices = [each.choices for each in self._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001
        return [(name, parser) for each in choices for name, parser in each.items()]

    def format_help(self) -> str:
        """Return the help, followed by that of the default action."""
        if not self.default_action:
            return super().format_help()
        return f"{super().format_help()}\nWithout an ACTION:\n\n{self.actions[self.default_action].format_help()}"

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike argparse, report if it cannot be written."""
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UsageError: always.
        """
        for pattern, words in _MISTAKES:
            message = pattern.sub(words, message)
        raise UsageError(message, hint=f"{self.prog} --help")

    def parse_known_args(  # type: ignore[override] # argparse's overloads say no more
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and refuse unknown words.

        Raises:
            UsageError: a word or an option is not of this command.
        """
        words = list(args or ())
        if self.actions:
            words = self._with_action(words)
        found, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self._refuse(unknown[0])
        return found, unknown

    def _with_action(self, words: list[str]) -> list[str]:
        """Return the words, with the default action where none is named."""
        place = 0
        while place < len(words) and (option := self._option_string_actions.get(words[place].partition("=")[0])):
            place += 1 if option.nargs == 0 or "=" in words[place] else 2
        first = words[place] if place < len(words) else ""
        if first in self.actions or (first and not self._is_for_default(first)):
            return words
        return [*words[:place], self.default_action, *words[place:]] if self.default_action else words

    def _is_for_default(self, word: str) -> bool:
        """Whether a word that names no action can belong to the default one; refuse an unknown option."""
        if not self.default_action:
            if word.startswith("-"):
                self._refuse(word)
            return False
        default = self.actions[self.default_action]
        return word.startswith("-") or any(not each.option_strings for each in default._actions)  # noqa: SLF001 - argparse shows itself no other way

    def _refuse(self, word: str) -> NoReturn:
        name = word.partition("=")[0]
        if not name.startswith("-") or name in {"-", "--"}:
            raise UsageError(f"{self.prog}: '{word}' is one argument too many", hint=f"{self.prog} --help")
        others = self.actions or self.siblings
        owners = sorted({each.prog for each in others.values() if name in each._option_string_actions})  # noqa: SLF001
        hint = f"{name} is an option of '{owners[0]}'" if owners else ""
        raise UsageError(
            f"{self.prog} has no option {name}",
            hint=hint or _did_you_mean(name, self._option_string_actions) or f"{self.prog} --help",
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not among the choices, and name the nearest."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(each) for each in action.choices]
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            message, where = f"{self.prog} has no {action.dest} '{value}'", f"{self.prog} --help"
            if 0 < len(elsewhere := self.actions_elsewhere(value)) <= _FEW:
                raise UsageError(message, hint=f"did you mean {' or '.join(map(repr, elsewhere))}?")
        else:
            name = action.metavar if isinstance(action.metavar, str) else action.dest
            message = f"{'/'.join(action.option_strings) or name}: '{value}' is not a choice"
            where = f"one of: {', '.join(choices)}"
        raise UsageError(message, hint=_did_you_mean(value, choices) or where)


class Actions:
    """The actions of one command."""

    def __init__(self, command: Parser, choice: argparse._SubParsersAction[Parser]) -> None:
        self._command = command
        self._choice = choice

    def add(
        self, name: str, act: Act, summary: str, *, also: Sequence[str] = (), examples: Sequence[str] = ()
    ) -> Parser:
        """Add an action and return its parser; `also` are aliases."""
        parser = self._choice.add_parser(name, aliases=also, help=summary, summary=summary, examples=examples)
        parser.set_defaults(act=act, action=name)
        parser.siblings = self._command.actions
        for each in (name, *also):
            self._command.actions[each] = parser
        return parser


def state_options(parser: Parser) -> None:
    """Add the options that name the device to a command and to each of its actions."""
    for each in dict.fromkeys((parser, *parser.actions.values())):
        # An action that is not told of them must not undo what stood before it.
        default = None if each is parser else argparse.SUPPRESS
        each.add_argument(
            "--state", metavar="DIR", default=default, help="state folder (default: $COVEY_STATE, or the standard one)"
        )
        each.add_argument(
            "--config", metavar="FILE", default=default, help="configuration (default: config.toml in the state folder)"
        )
        each.add_argument(
            "--passphrase-file", metavar="FILE", default=default, help="file with the key's passphrase, mode 0600"
        )


def every_action(parser: Parser, *options: Callable[[Parser], None]) -> None:
    """Add options to each action of a command."""
    for action in dict.fromkeys(parser.actions.values()):
        for add in options:
            add(action)


def json_option(parser: Parser, what: str = "print JSON") -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help=what)


def group_option(parser: Parser) -> None:
    """Add --group, which picks one of several groups."""
    parser.add_argument("--group", metavar="GROUP", help="group: start of its id (needed if there are several)")


class _Once(argparse.Action):
    """Accept one value. Of two, argparse would silently drop the first, and with it the target of an order."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        given = f"{self.dest}_given"
        if hasattr(namespace, given):
            raise UsageError(
                f"{option_string} was given twice", hint=f"give several names at once: {option_string} one,two"
            )
        setattr(namespace, given, True)
        setattr(namespace, self.dest, values)


def selector_option(parser: Parser, default: str | None = "all") -> None:
    """Add --for, the devices that an order is for; with `default` None it is required."""
    parser.add_argument(
        "--for",
        action=_Once,
        dest="selector",
        default=default,
        metavar="WHOM",
        help="devices: all, label:NAME, capability:NAME, or NAME,NAME"
        + ("" if default is None else f" (default: {default})"),
    )


def seconds_option(parser: Parser, name: str, what: str, default: float | None = None) -> None:
    """Add an option for a time; a number without a unit means seconds."""

    def read(text: str) -> float:
        from covey.cli.quantities import read_seconds

        return read_seconds(name, text)

    parser.add_argument(name, type=read, default=default, metavar="SECONDS", help=what)


def refuse_idle(options: argparse.Namespace, beside: str, *names: str) -> None:
    """Refuse options that were given but have no effect next to another option or in this action.

    `names` are their attributes in `options`; an option that is None, False or empty was not given.
    """
    for name in names:
        if getattr(options, name, None) not in (None, False, [], ()):
            option = "--" + {"commands": "command"}.get(name, name).replace("_", "-")
            raise UsageError(f"{option} has no effect with {beside}", hint="leave it out")


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    from covey.cli.suggestions import did_you_mean

    return did_you_mean(name, known)


def key_option(parser: Parser) -> None:
    """Add --key, which makes repeated attempts queue the message only once."""
    parser.add_argument("--key", metavar="KEY", help="idempotency key: a retry with the same key queues nothing twice")
