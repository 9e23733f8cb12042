"""What commands read from a person and show one: JSON, tables, a question, a small file, what Ctrl-C left."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from covey.core.ids import printable
from covey.errors import LocalError, TimeUpError, UsageError

TIME_UP = TimeUpError.exit_code
"""The exit code where the time to wait is over."""

_CELL = 10_000
"""Characters of a cell or field; a longer one is cut off."""

PARTLY = 3
"""The exit code where nothing failed, but some of the devices meant obey no operator and did nothing."""


def print_json(value: object) -> None:
    """Print one JSON document on stdout; what a terminal would act on stands there as an escape sequence of JSON."""
    text = json.dumps(value, ensure_ascii=False)
    print(text if text.isprintable() else "".join(map(_escaped, text)))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns, each as wide as its widest cell."""
    for line in table_lines(head, rows):
        print(line)


def print_fields(fields: Mapping[str, object], width: int = 13) -> None:
    """Print a line for each field: its name, and after so many columns what it is; nothing is a dash."""
    for name, value in fields.items():
        print(f"{name.replace('_', ' '):<{width}} {printable(str(value or '-'), _CELL)}")


def table_lines(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield columns, each as wide as its widest cell; None is a dash. No cell has control or bidi characters."""
    lines = [["-" if cell is None else printable(str(cell), _CELL) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def visible_lines(content: bytes) -> Iterator[str]:
    """Yield the lines of what a stranger's program wrote, every byte visible and none with an effect of its own.

    Control characters, also those of bidirectional text, and what is no UTF-8 stand as Python writes them: `\\x1b`.
    """
    for line in content.decode(errors="backslashreplace").removesuffix("\n").split("\n"):
        yield "".join(
            character if character.isprintable() or character == "\t" else character.encode("unicode_escape").decode()
            for character in line
        )


def confirm(question: str, yes: bool) -> None:
    """Ask a person before something that cannot be undone.

    Raises:
        LocalError: the person does not want to.
        UsageError: nobody is there to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this cannot be undone, and there is no terminal to ask", hint="--yes confirms it")
    ask(question)


def ask(question: str) -> None:
    """Ask a person who is there.

    Raises:
        LocalError: the answer is no.
    """
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise LocalError("nothing was changed")


def read_secret(file: str | None, what: str = "value") -> str:
    """Read a secret, a line at its end left out: from a file or stdin, or by asking a person for it twice.

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
    """Return a text without the line's end that editors and `echo` put there."""
    return text.removesuffix("\n").removesuffix("\r")


def read_text_file(name: str) -> str:
    """Read a small file that a person named; `-` is stdin.

    Raises:
        UsageError: it cannot be read, or says nothing.
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
    """Print what stays, in one line of stderr, where Ctrl-C ends the block; `main` turns that into an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted: {what_stays()}", file=sys.stderr)
        raise
