"""One grammar of help, and no option that its command does not read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from covey.cli.command_tree import Command, every_command
from covey.cli.grammar import Parser
from covey.cli.main import full_parser
from tests.meta.source_tree import ROOT

_OF_ALL = {"help", "state", "config", "passphrase_file"}
"""Read by `device_options.state_folder`, for whatever device a command is about."""

_HANDED_ON = {
    *(("tables", name) for name in ("run", "query", "shell", "export", "verify", "report", "views")),
    ("own", "link"),
}
"""These give their words to a program that reads them, or to `covey invite` and `covey join`."""


_LONGEST = 72

_POOR = re.compile(
    r"\b(whoever|whom|anew|for good|let go|lets go|goes on|no more|any more|beside|is told|is heard|stands|forget)\b"
)
"""Words that a native writer would not use in a help text."""


@pytest.mark.parametrize("command", list(every_command()), ids=lambda each: " ".join(each.path))
def test_help_has_one_form(command: Command) -> None:
    texts = [command.summary, *(each.help for each in command.arguments)]
    for text in texts:
        assert text, f"{command.path} has something without help"
        assert not text.endswith("."), text
        assert len(text) <= _LONGEST, f"longer than {_LONGEST} characters: {text}"
        assert not _POOR.search(text), f"{command.path}: {_POOR.search(text)} in: {text}"
        assert re.match(r"[a-z0-9'$-]|PEM |SQL|Spark|mqtt", text), f"begins with a capital: {text}"
        assert "(default " not in text, f"write (default: ...): {text}"
    for argument in command.arguments:
        if argument.choices or argument.takes.value == "nothing":
            continue
        assert re.fullmatch(r"[A-Z][A-Z_]*(:[A-Z]+)?", argument.shown), f"{command.path}: {argument.shown}"


def _parsers() -> Iterator[tuple[tuple[str, ...], Parser]]:
    root = full_parser()
    (choice,) = [each for each in root._actions if each.dest == "command"]
    assert isinstance(choice.choices, dict)
    for name, command in choice.choices.items():
        if not command.actions:
            yield (name,), command
        for action, parser in command.actions.items():
            yield (name, action), parser


def _read_by(function: object, seen: set[str]) -> set[str]:
    """Return the attributes of `options` that a function, and those of its package that it names, may read."""
    function = getattr(function, "__wrapped__", function)
    code = function.__code__  # type: ignore[attr-defined]
    tree = ast.parse((ROOT / code.co_filename).read_text(encoding="utf-8"))
    names = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found: set[str] = set()
    waiting = [code.co_name]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in names:
            continue
        seen.add(name)
        for node in ast.walk(names[name]):
            if isinstance(node, ast.Attribute) and "options" in ast.unparse(node.value):
                found.add(node.attr)
            elif isinstance(node, ast.Name):
                waiting.append(node.id)
    return found


def test_every_option_is_read_by_its_action() -> None:
    unread = []
    for path, parser in _parsers():
        if path in _HANDED_ON:
            continue
        act = parser.get_default("act")
        wanted = {each.dest for each in parser._actions} - _OF_ALL
        unread += [(*path, dest) for dest in sorted(wanted - _read_by(act, set()))]
    assert unread == []
