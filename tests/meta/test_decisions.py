"""Each decision record has the same parts and a row in the index, and every reference leads to a record that exists."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.meta.source_tree import PRODUCT, ROOT

_FOLDER = ROOT / "docs" / "adr"
_ROW = re.compile(
    r"^\| (?P<number>\d+) \| (?:\[(?P<title>.*)\]\((?P<file>.*)\)|\(none\)) \| (?P<status>.+) \|$", re.MULTILINE
)
_STATUS = re.compile(r"Status: (?P<status>(?:accepted|proposed), \d{4}-\d\d-\d\d)\.")
_SECTIONS = ["Context", "Decision", "Rejected options", "Consequences"]
_GONE = re.compile(
    r"never used|part of ADR (?P<number>\d+)|moved to (?:`(?P<path>[^`]+)`|\[[^]]+\]\((?P<link>[^)]+)\))"
)
_REFERENCE = re.compile(r"\bADRs? (\d+)|\badr/(\d{4})\b")
_REFERRING = (*PRODUCT, "tests", "docs", "deb")
_TEXTS = {"", ".md", ".pml", ".py", ".sh", ".sql", ".toml"}
_RECORDS = sorted(_FOLDER.glob("[0-9]*.md"))


@cache
def _rows() -> list[re.Match[str]]:
    return list(_ROW.finditer((_FOLDER / "README.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", _RECORDS, ids=lambda path: path.name[:4])
def test_a_record_has_a_number_a_title_a_status_and_four_sections(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    title, blank, status, *_ = text.splitlines()
    number = int(path.name[:4])
    assert title.startswith(f"# {number}. ")
    assert blank == ""
    assert _STATUS.fullmatch(status), "the third line says `Status: accepted, YYYY-MM-DD.`"
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == _SECTIONS
    words = title.removeprefix(f"# {number}. ").lower().replace("'", "")
    assert path.stem == f"{number:04d}-" + re.sub(r"[^a-z0-9]+", "-", words).strip("-"), "named after its title"


def test_the_index_and_the_records_agree() -> None:
    stated = {row["file"]: (f"# {row['number']}. {row['title']}", row["status"]) for row in _rows() if row["file"]}
    found = {}
    for path in _RECORDS:
        title, _, status, *_ = path.read_text(encoding="utf-8").splitlines()
        found[path.name] = (title, status.removeprefix("Status: ").rstrip("."))
    assert stated == found


def test_the_index_lists_every_number_once_and_explains_missing_ones() -> None:
    numbers = [int(row["number"]) for row in _rows()]
    assert numbers == [*range(1, len(numbers) + 1)]
    kept = {int(path.name[:4]) for path in _RECORDS}
    for row in _rows():
        if not row["file"]:
            gone = _GONE.fullmatch(row["status"])
            assert gone, row[0]
            assert gone["number"] is None or int(gone["number"]) in kept, row[0]
            assert gone["path"] is None or (ROOT / gone["path"]).exists(), row[0]


def test_every_reference_leads_to_a_record() -> None:
    kept = {int(path.name[:4]) for path in _RECORDS}
    folders = (file for folder in _REFERRING for file in (ROOT / folder).rglob("*"))
    wrong = []
    for path in (*ROOT.glob("*.md"), ROOT / "dev", *folders):
        if path.suffix in _TEXTS and path.is_file():
            found = {int(one or other) for one, other in _REFERENCE.findall(path.read_text(encoding="utf-8"))}
            wrong += [f"{path.relative_to(ROOT)}: ADR {number}" for number in sorted(found - kept)]
    assert not wrong
