"""Terminal input and output: JSON, tables, questions, small files, and the notice after Ctrl-C."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

from covey.core.ids import printable
from covey.errors import LocalError, TimeUpError, UsageError

TIME_UP = TimeUpError.exit_code
"""The exit code where the time to wait is over."""

_CELL = 10_000
"""Characters of a cell or field; a longer one is cut off."""

_ALIGNED = 1_000
"""Rows of a table that decide how wide its columns are."""

PARTLY = 3
"""The exit code where nothing failed, but some of the devices meant obey no operator and did nothing."""


def print_json(value: object) -> None:
    """Print one JSON document on stdout; control characters are JSON escapes."""
    print(_json(value))


def print_json_with(fields: Mapping[str, object], name: str, items: Iterable[object]) -> None:
    """Print a JSON object with one further field, a list; each item is dropped once it is printed."""
    print(_json(fields).removesuffix("}"), end=f", {_json(name)}: [")
    for place, each in enumerate(items):
        print(f"{', ' * bool(place)}{_json(each)}", end="")
    print("]}")


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    for line in table_lines(head, rows):
        print(line)


def print_fields(fields: Mapping[str, object], width: int = 13) -> None:
    """Print a line for each field, with values aligned at column `width`; an empty value is a dash."""
    for name, value in fields.items():
        print(f"{name.replace('_', ' '):<{width}} {printable(str(value or '-'), _CELL)}")


def table_lines(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table; None is a dash. Control and bidi characters are replaced.

    The first `_ALIGNED` rows decide how wide columns are, so that a long table needs little memory.
    """
    cells = (["-" if cell is None else printable(str(cell), _CELL) for cell in row] for row in chain((head,), rows))
    lines = list(islice(cells, _ALIGNED))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in chain(lines, cells):
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def visible_lines(content: bytes) -> Iterator[str]:
    """Yield the lines of a program's output with every byte visible and harmless.

    Control and bidi characters and invalid UTF-8 appear as Python escapes: `\x1b`.
    """
    for line in content.decode(errors="backslashreplace").removesuffix("\n").split("\n"):
        yield "".join(
            character if character.isprintable() or character == "\t" else character.encode("unicode_escape").decode()
            for character in line
        )


def confirm(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone.

    Raises:
        LocalError: the person declined.
        UsageError: there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this cannot be undone, and there is no terminal to ask", hint="--yes confirms it")
    ask(question)


def ask(question: str) -> None:
    """Ask a question on the terminal.

    Raises:
        LocalError: the answer is no.
    """
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise LocalError("nothing was changed")


def read_secret(file: str | None, what: str = "value") -> str:
    """Read a secret from a file or stdin, without its newline, or ask for it twice.

    Raises:
        UsageError: it cannot be read, there is none, or the two differ.
    """
    if file is not None or not sys.stdin.isatty():
        return one_line_less(read_text_file(file or "-"))
    import getpass

    secret = getpass.getpass(f"{what}: ")
    if secret != getpass.getpass("repeat: "):
        raise UsageError("the two values differ")
    return secret


def one_line_less(text: str) -> str:
    """Return a text without its final newline, which editors and `echo` add."""
    return text.removesuffix("\n").removesuffix("\r")


def read_text_file(name: str) -> str:
    """Read a small text file; `-` is stdin.

    Raises:
        UsageError: it cannot be read, or is empty.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not text") from error
    if not text.strip():
        raise UsageError(
            f"{'stdin' if name == '-' else name} is empty",
            hint="nothing was changed; name a file that contains the value",
        )
    return text


@contextmanager
def explained_interruption(what_stays: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, print on stderr what remains; `main` turns the interruption into an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted: {what_stays()}", file=sys.stderr)
        raise
