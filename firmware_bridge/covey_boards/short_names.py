"""Firmware with short private names: a board keeps every name that it loads on its heap.

A name takes its letters and six bytes, and MicroPython doubles the table of names when it is full: with the names of
people, the whole firmware fills two kilobytes with letters, and passes the 620th name, which costs four more.

1. What begins with one underscore, a constant, function or attribute, is renamed the same in all files.
2. A name that one file alone has shares its short one with those of other files. So no class may inherit from one of
   another file; `tests/unit/covey_boards/test_short_names.py` looks.
3. Public names, text, comments and lines stay: whoever reads a board's file finds the place in the source.
"""

from __future__ import annotations

import io
import string
import tokenize
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def shortened(sources: Mapping[str, str]) -> dict[str, str]:
    """Return Python sources by file name, with short private names."""
    private = {name: _private_names(source) for name, source in sources.items()}
    files = Counter(each for names in private.values() for each in names)
    names = _short_names()
    shared = {each: next(names) for each in sorted(files) if files[each] > 1}
    own = [next(names) for _ in range(max((len(found - shared.keys()) for found in private.values()), default=0))]
    return {
        name: _renamed(source, shared | dict(zip(sorted(private[name] - shared.keys()), own, strict=False)))
        for name, source in sources.items()
    }


def _short_names() -> Iterator[str]:
    """Give _a, _b, ..., _aa, _ab, ..."""
    endings = [""]
    while True:
        endings = [first + ending for ending in endings for first in string.ascii_letters]
        yield from [f"_{ending}" for ending in endings]


def _private_names(source: str) -> set[str]:
    found: set[str] = set()
    named_by_port: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string.strip("_") and token.string[0] == "_" != token.string[1]:
            found.add(token.string)
            if token.line.lstrip().startswith(f"import {token.string}"):
                named_by_port.add(token.string)
    return found - named_by_port


def _renamed(source: str, names: Mapping[str, str]) -> str:
    lines = source.splitlines(keepends=True)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.NAME]
    for token in reversed(tokens):
        if token.string in names:
            (row, start), (_, end) = token.start, token.end
            line = lines[row - 1]
            lines[row - 1] = line[:start] + names[token.string] + line[end:]
    return "".join(lines)
