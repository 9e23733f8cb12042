"""`covey graph`: a series as a person sees it, and as a program reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.core.telemetry.names import name_of, segment
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
    code, _, printed = _graph(state, "field-00001")
    assert (code, "which series of" in printed, "it has: air:temperature, battery" in printed) == (1, True, True)
    code, _, printed = _graph(state, "field", "battery")
    assert (code, "no device matches 'field'" in printed) == (1, True)


def test_programs_get_the_intervals(state: Path) -> None:
    code, printed, _ = _graph(state, "field-00001", "battery", "--json")
    found = json.loads(printed)
    [series] = found["series"]
    assert (code, found["label"], series["name"], series["unit"]) == (0, "field-00001", "battery", "V")
    assert {each["last"] for each in series["points"]} == {3.4}
    assert all(0 <= each["interval"] < found["intervals"] for each in series["points"])


def test_the_hint_says_that_there_are_more_series_than_it_names(tmp_path: Path) -> None:
    fleet = CollectedFleet(tmp_path, 1, rounds=1)
    for number in range(9):
        fleet.land_one(0, f"extra{number}", 1.0)
    _, _, printed = _graph(fleet.hub.state, "field-00000", "air:humidity")
    assert "pump, and 1 more: 'covey fleet DEVICE' shows them" in printed


def test_a_series_is_named_as_people_read_it_or_as_it_was_sent(tmp_path: Path) -> None:
    fleet = CollectedFleet(tmp_path, 1, rounds=1)
    sent = name_of(map(segment, ("Küche", "温度")))
    fleet.land_one(0, sent, 21.5)
    for name in ("Küche/温度", sent):
        code, drawn, _ = _graph(fleet.hub.state, "field-00000", name)
        assert (code, "Küche/温度" in drawn) == (0, True)
        found = covey("vault", "readings", "--series", name, "--state", str(fleet.hub.state))
        assert (found.code, found.stdout.count("21.5")) == (0, 1)
    nothing = covey("vault", "readings", "--series", "Koche", "--state", str(fleet.hub.state))
    assert (nothing.code, nothing.stdout) == (0, "")
    assert "no stored reading matches" in nothing.stderr


def test_a_constant_series_has_a_label_with_its_value(state: Path) -> None:
    _, drawn, _ = _graph(state, "field-00001", "battery")
    _, *rows, _, _ = drawn.splitlines()
    assert [row.split("|")[0].strip() for row in rows] == [""] * 9 + ["3.4"]
    assert rows[-1].rstrip()[-1] != "|", "the label is next to the curve"
