"""Titles, headings, the changelog and the names of tests are sentences that a colleague would say (`plain_words`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.meta.plain_words import found, found_in_name
from tests.meta.source_tree import ROOT, sources

_CODE = re.compile(r"`[^`]*`|^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_WHOLE = sorted(
    [*(ROOT / "docs" / "adr").glob("*.md"), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
)
_DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*_*/**/*.md")} - {*_WHOLE})


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", _WHOLE, ids=_relative)
def test_records_and_the_changelog_use_plain_words(path: Path) -> None:
    text = re.sub(r"\*[^*\n]+\*", "", _CODE.sub("", path.read_text(encoding="utf-8")))
    assert not [each for line in text.splitlines() for each in found(line)]


@pytest.mark.parametrize("path", _DOCUMENTS, ids=_relative)
def test_headings_use_plain_words(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert not [f"{heading}: {each}" for heading in _HEADING.findall(text) for each in found(_CODE.sub("", heading))]


def test_names_of_tests_use_plain_words() -> None:
    wrong = [
        f"{source}: {node.name}: {each}"
        for source in sources("tests", "hil")
        for node in source.nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for each in found_in_name(node.name)
    ]
    assert not wrong


@pytest.mark.parametrize(
    "text",
    [
        "it waits; who asks is answered",
        "let go of it",
        "they go on after that",
        "what becomes of it",
        "it stands in the table",
    ],
)
def test_a_hard_phrase_is_found(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize("text", ["a device that asks receives an answer", "no more than ten", "people who know it"])
def test_a_plain_sentence_passes(text: str) -> None:
    assert not found(text)
