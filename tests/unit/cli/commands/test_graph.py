"""`covey graph`: a series as a person sees it, and as a program reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collected_fleet import CollectedFleet
from tests.command import covey

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CollectedFleet(tmp_path_factory.mktemp("fleet"), 2).hub.state


def _graph(state: Path, *words: str) -> tuple[int, str, str]:
    ended = covey("graph", *words, "--state", str(state))
    return ended.code, ended.stdout, ended.stderr


def test_a_series_is_drawn_between_its_bounds(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    code, drawn, _ = _graph(state, "field-00001", "air:temperature", "--since", "7d")
    assert code == 0
    title, *rows, axis, printed = drawn.splitlines()
    assert "field-00001" in title
    assert title.endswith("air:temperature Cel")
    assert len(rows) == 10
    assert all(len(row) <= 60 for row in rows)
    assert any(ord(character) > 0x2800 for character in rows[0]), "a dot where the highest value is"
    assert axis.count(":") == 2
    assert printed.startswith(
        f"lowest {float(rows[-1].split()[0]):.6g}, highest {float(rows[0].split()[0]):.6g}, last "
    )


def test_an_unknown_series_is_reported_with_the_known_ones(state: Path) -> None:
    code, _, printed = _graph(state, "field-00001", "air:humidity")
    assert (code, "has no readings of 'air:humidity' in the last 1d" in printed) == (1, True)
    assert "hint: in that time it has: air:temperature, battery, pump, soil:moisture" in printed
    code, _, printed = _graph(state, "field", "battery")
    assert (code, "no device matches 'field'" in printed) == (1, True)


def test_programs_get_the_intervals(state: Path) -> None:
    code, printed, _ = _graph(state, "field-00001", "battery", "--json")
    found = json.loads(printed)
    [series] = found["series"]
    assert (code, found["label"], series["name"], series["unit"]) == (0, "field-00001", "battery", "V")
    assert {each["last"] for each in series["points"]} == {3.4}
    assert all(0 <= each["interval"] < found["intervals"] for each in series["points"])
