"""Titles, headings, the changelog and the names of tests are sentences that a colleague would say (`plain_words`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.plain_words import found, found_in_name, found_in_output
from tests.meta.source_tree import ROOT, Source, sources

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


_SCREENS = (
    *("agent/covey/cli", "agent/covey/app", "agent/covey/config", "spark_ingest/covey_ingest/queries"),
    *("spark_ingest/covey_ingest/__main__.py", "firmware_bridge/covey_boards/bridge.py"),
)
"""Files whose texts people see: outputs, hints, tables, settings, the description of the local API."""
_NOT_SHOWN = ("agent/covey/app/conformance",)
_INTERNAL = re.compile(r"SELECT |VARCHAR|^[a-z_.]+$")


def _shown(source: Source) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string with a space, docstrings and asserted beliefs aside."""
    aside = {
        id(part)
        for node in source.nodes
        if isinstance(node, ast.Assert | ast.Expr)
        for whole in ([node.msg] if isinstance(node, ast.Assert) else [node.value])
        if isinstance(node, ast.Assert) or isinstance(whole, ast.Constant)
        for part in (ast.walk(whole) if whole is not None else ())
    }
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in aside:
            text = node.value.strip()
            if " " in text and not _INTERNAL.search(text):
                yield node.lineno, text


def test_screen_texts_use_plain_words() -> None:
    wrong = [
        f"{source}:{line}: {text!r}: {each}"
        for source in sources("agent", "spark_ingest", "firmware_bridge")
        if str(source).startswith(_SCREENS) and not str(source).startswith(_NOT_SHOWN)
        for line, text in _shown(source)
        for each in found_in_output(text)
    ]
    assert not wrong


def test_texts_of_the_web_page_use_plain_words() -> None:
    folder = ROOT / "agent" / "covey" / "web"
    page = re.sub(r"<[^>]*>", "\n", (folder / "index.html").read_text(encoding="utf-8"))
    scripts = [folder / name for name in ("page.js", "orders.js")]
    lines = [line for each in scripts for line in each.read_text(encoding="utf-8").splitlines()]
    script = "\n".join(re.sub("(^| )//.*", "", line) for line in lines)
    texts = [*page.splitlines(), *re.findall(r'"([^"\n]*)"', script), *re.findall(r"`([^`\n]*)`", script)]
    assert not [f"{text.strip()!r}: {each}" for text in texts for each in found_in_output(text)]


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


@pytest.mark.parametrize(
    "text", ["3 devices, of those 2 heard", "it is not asked for any more", "the board is no member", "nobody is told"]
)
def test_a_hard_phrase_of_an_output_is_found(text: str) -> None:
    assert found_in_output(text)


@pytest.mark.parametrize("text", ["a device that asks receives an answer", "no more than ten", "people who know it"])
def test_a_plain_sentence_passes(text: str) -> None:
    assert not found_in_output(text)
