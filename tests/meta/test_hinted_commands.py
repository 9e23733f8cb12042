"""Every `covey …` that an error, hint or finding names is a command line that the program takes.

In such a text a command ends at a quote, comma, semicolon, bracket, colon, pipe or redirection, or with the text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.meta.source_tree import Source, sources
from tests.meta.test_documented_commands import alternatives, mistake_in

_COMMAND = re.compile(r"(?<![\w/.-])(?<!adduser )covey (?!has no )((?:[a-z]|--)[^'\";,:()`<>\n]*)")
_AS_ANOTHER = re.compile(r"(sudo -u )\S+ ")
_VALUE = "1"


def _text(node: ast.AST) -> str | None:
    """Return what a literal says, a number for each value that it is filled with; None for what is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or _VALUE for part in parts)
    return None


def _texts(source: Source) -> Iterator[tuple[int, str]]:
    """Yield each text of a module that a person may read: all but docstrings, and once where one is part of another."""
    skipped: set[ast.AST] = set()
    for node in source.nodes:
        if isinstance(node, ast.Expr):
            skipped.add(node.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
    for node in source.nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in skipped and (text := _text(node)):
            yield node.lineno, text


def _commands(text: str) -> Iterator[str]:
    for found in _COMMAND.findall(_AS_ANOTHER.sub(r"\1ANOTHER ", text)):
        command = found.partition(" | ")[0].strip()
        if _VALUE not in command.split()[:2]:  # the command itself is filled in
            yield from alternatives(command)


def test_commands_in_hints_are_real() -> None:
    found = [
        f"{source.path.name}:{line}: {mistake}"
        for source in sources("agent", "spark_ingest", "firmware_bridge")
        if source.path.name != "completions.py"  # code for shells
        for line, text in _texts(source)
        for command in _commands(text)
        if (mistake := mistake_in(command, whole=False))
    ]
    assert found == []


def test_the_reader_of_hints_sees_mistakes() -> None:
    text = "'covey frobnicate' does it; or: covey config set api.socket PATH, then sudo -u covey covey check --jsn"
    commands = list(_commands(text))
    assert commands == ["frobnicate", "config set api.socket PATH", "check --jsn"]
    assert [bool(mistake_in(each, whole=False)) for each in commands] == [True, False, True]
