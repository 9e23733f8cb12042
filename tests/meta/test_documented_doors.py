"""`docs/reference/doors.md` says of each kind of door and sensor what it maps to what."""

from __future__ import annotations

from pathlib import Path

from covey.config import doors, sensors
from covey.core.telemetry.drops import MEANINGS

_PAGE = (Path(__file__).parents[2] / "docs/reference/doors.md").read_text()


def _table(title: str) -> list[list[str]]:
    section = _PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_each_kind_of_sensor_has_its_row() -> None:
    rows = {row[0].strip("`"): row[1:] for row in _table("In")}
    for name, kind in sensors.KINDS.items():
        assert rows[name] == [kind.reading, kind.unit, kind.time, kind.repeats, kind.once]


def test_each_kind_of_door_has_a_column_and_says_what_it_was_tested_against() -> None:
    titles = [kind.title for kind in doors.KINDS.values()]
    assert titles == _table("Out")[0][1:]
    tried = {row[0].strip("`") for row in _table("What each was tested against")}
    assert {*sensors.KINDS, *titles} <= {each for row in tried for each in row.replace("`", "").split(", ")}


def test_each_reason_of_a_drop_is_explained() -> None:
    rows = {row[0].strip("`"): row[1] for row in _table("What is counted")[1:]}
    assert rows == {str(reason): meaning for reason, meaning in MEANINGS.items()}
