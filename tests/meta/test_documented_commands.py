"""Every `covey …` that the documents show is a command line that the program takes."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from covey.cli.main import full_parser
from covey.errors import UsageError
from tests.meta.source_tree import ROOT

_full_parser = cache(full_parser)

_DOCUMENTS = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "broker_conf").rglob("*.md"),
        *(ROOT / "firmware_bridge").rglob("*.md"),
    ]
)
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SUBSTITUTED = re.compile(r"\$\(([^()]*)\)")
_COVEY = re.compile(r"^\s*(?:sudo (?:-u \S+ )?)?covey (.*)")


def _command_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what follows `covey` in code, and whether it stands there as a whole command."""
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            bare = re.sub(r"(^|\s)#.*", "", line)
            outer, inner = _SUBSTITUTED.sub("WORD", bare), _SUBSTITUTED.findall(bare)
            for part in re.split(r"\|\||&&|[|;)]|\$\(", ";".join([outer, *inner])):
                if found := _COVEY.search(part):
                    yield re.split(r"\s\d?[<>]", found[1])[0], True
    for code in _INLINE.findall(_BLOCK.sub("", text)):
        if code.startswith("covey "):
            yield code.removeprefix("covey "), False


def alternatives(line: str) -> Iterator[str]:
    """Yield `get` and `set` for `get|set`, and the line with and without what stands in brackets."""
    if optional := re.search(r"\s*\[([^\]]*)\]", line):
        yield from alternatives(line[: optional.start()] + line[optional.end() :])
        yield from alternatives(f"{line[: optional.start()]} {optional[1]}{line[optional.end() :]}")
    elif choice := re.search(r"\S*\|\S*", line):
        for one in choice[0].split("|"):
            yield from alternatives(line[: choice.start()] + one + line[choice.end() :])
    else:
        yield line


def mistake_in(line: str, *, whole: bool) -> str | None:
    """Return what the program says to a command line; None where it takes it."""
    words = [word for word in shlex.split(line.replace("…", " ").replace("...", " ")) if word]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _full_parser().parse_args(words)
    except SystemExit:  # after --help and --version
        return None
    except UsageError as error:
        if not whole and re.search(r"^missing: |needs a value", str(error)):
            return None
        return f"covey {line}: {error}"
    return None


@pytest.mark.parametrize("document", _DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documented_commands_are_real(document: Path) -> None:
    lines = [
        (one, whole)
        for line, whole in _command_lines(document.read_text(encoding="utf-8"))
        for one in alternatives(line)
    ]
    assert [mistake for one in lines if (mistake := mistake_in(one[0], whole=one[1]))] == []


def test_the_reader_of_documents_seesmistake_ins() -> None:
    text = "```sh\nsudo covey relay --ulr x | covey frobnicate\n```\n"
    text += "`covey check --jsn` `covey mcu` `covey config get|unset`\n"
    lines = [(one, whole) for line, whole in _command_lines(text) for one in alternatives(line)]
    assert len(lines) == 6
    assert len([one for one in lines if mistake_in(one[0], whole=one[1])]) == 3
