"""`docs/doors.md` says of each kind of door and sensor what it maps to what."""

from __future__ import annotations

import re
from pathlib import Path

from covey.config import doors, sensors
from covey.core.telemetry.drops import MEANINGS

_PAGE = (Path(__file__).parents[2] / "docs/doors.md").read_text()
_COLUMNS = {"webhook": "webhook", "home-assistant": "Home Assistant", "otlp": "OTLP"}
"""What the table calls the kinds of doors."""


def _table(title: str) -> list[list[str]]:
    section = _PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_each_kind_of_sensor_has_a_row() -> None:
    kinds = {kind for row in _table("In") for kind in re.findall("`([a-z0-9]+)`", row[0])}
    assert set(sensors.KINDS) <= kinds


def test_each_kind_of_door_has_a_column_and_says_what_it_was_tried_against() -> None:
    assert [_COLUMNS[kind] for kind in doors.KINDS] == _table("Out")[0][1:]
    tried = {row[0].strip("`") for row in _table("What each was tried against")}
    assert {*sensors.KINDS, *_COLUMNS.values()} <= {each for row in tried for each in row.replace("`", "").split(", ")}


def test_each_reason_of_a_drop_is_explained() -> None:
    rows = {row[0].strip("`"): row[1] for row in _table("What is counted")[1:]}
    assert rows == {str(reason): meaning for reason, meaning in MEANINGS.items()}
