"""Each decision in `docs/adr` has a status, and stands in the index as it calls itself; missing ones are explained."""

import re
from pathlib import Path

from tests.meta.source_tree import ROOT

_FOLDER = ROOT / "docs" / "adr"
_ROW = re.compile(
    r"^\| (?P<number>\d+) \| (?:\[(?P<title>.*)\]\((?P<file>.*)\)|\(none\)) \| (?P<status>.+) \|$", re.MULTILINE
)
_STATUS = re.compile(
    r"(?:accepted|proposed|superseded by ADR \d+), \d{4}-\d\d-\d\d(?:; extended by ADR \d+(?:, \d+)*)?"
)


def _records() -> list[Path]:
    return sorted(_FOLDER.glob("[0-9]*.md"))


def test_each_record_opens_with_its_number_its_title_and_its_status() -> None:
    for path in _records():
        title, blank, status, *_ = path.read_text(encoding="utf-8").splitlines()
        assert title.startswith(f"# {int(path.name[:4])}. "), path.name
        assert blank == "", path.name
        stated = re.fullmatch(r"Status: (.*)\.", status)
        assert stated, f"{path.name}: the third line says `Status: accepted, YYYY-MM-DD.`"
        assert _STATUS.fullmatch(stated[1]), f"{path.name}: {status}"


def test_the_index_says_of_each_record_what_it_says_of_itself() -> None:
    rows = {row["file"]: row for row in _ROW.finditer((_FOLDER / "README.md").read_text(encoding="utf-8"))}
    for path in _records():
        assert path.name in rows, f"docs/adr/README.md has no row for {path.name}"
        title, _, status, *_ = path.read_text(encoding="utf-8").splitlines()
        row = rows[path.name]
        assert f"# {row['number']}. {row['title']}" == title, path.name
        assert f"Status: {row['status']}." == status, path.name
    assert {name for name in rows if name} == {path.name for path in _records()}


def test_a_number_is_used_once_and_a_missing_one_explained() -> None:
    numbers = [int(row["number"]) for row in _ROW.finditer((_FOLDER / "README.md").read_text(encoding="utf-8"))]
    assert numbers == [*range(1, len(numbers) + 1)], "in order, each once, none left out"
