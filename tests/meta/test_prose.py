"""Markdown has one sentence a line, so that a change of one shows as a change of one; no line is endless."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.source_tree import ROOT

LONGEST_LINE = 300  # characters; a sentence that needs more wants breaking at a comma, or saying otherwise
_MARK = re.compile(r"^ *(?:[-*+>] |\d+[.)] )*(?:\*\*[^*]*\*\* )?")  # of a list, and a title that leads in
_CODE = re.compile(r"`+[^`]*`+")
_NEXT_SENTENCE = re.compile(r"[a-z0-9)`][.!?][*_\")]* [*_\"(]*[A-Z]")
_DOCUMENTS = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*_*/**/*.md")))


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Give each line that is prose, with its number: no code, heading or row of a table."""
    fence = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = line.strip()[:3]
        if mark in {"```", "~~~"}:
            fence = "" if fence == mark else fence or mark
        elif not fence and mark[:1] not in {"|", "#"}:
            yield number, line


@pytest.mark.parametrize("path", _DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_line_holds_one_sentence(path: Path) -> None:
    long = [number for number, line in _prose(path) if len(line) > LONGEST_LINE]
    assert not long, f"longer than {LONGEST_LINE} characters: lines {long}"
    double = [number for number, line in _prose(path) if _NEXT_SENTENCE.search(_CODE.sub("`", _MARK.sub("", line)))]
    assert not double, f"more than one sentence: lines {double}"
