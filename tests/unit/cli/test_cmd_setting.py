"""`covey setting` as an operator uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Here


@pytest.fixture
def kim(tmp_path: Path) -> Here:
    """An operator's device, in a group of its own."""
    device = Here(tmp_path, "kim")
    device.ok("group", "create")
    device.ok("config", "set", "operations.operators", device.json("key", "show")["signing_key"])
    return device


def test_what_is_ordered_shows_in_the_difference_and_in_the_history(kim: Here) -> None:
    assert "nobody has ever set it" in kim.ok("setting", "history", "app.mode")
    assert "nothing is set" in kim.ok("setting", "diff")
    first = kim.json("setting", "set", "app.mode", "eco")
    assert first["devices"] == 1
    kim.ok("setting", "set", "app.limit", "5", "--for", "label:kim")
    kim.ok("setting", "set", "app.mode", "turbo")
    rows = kim.json("setting", "diff")
    assert [(each["key"], each["wanted"], each["state"], each["agrees"]) for each in rows] == [
        ("app.limit", 5, None, False),
        ("app.mode", "turbo", None, False),
    ]
    entries = kim.json("setting", "history", "app.mode")
    assert [(each["value"], each["selector"], each["counts"]) for each in entries] == [
        ("eco", "all", True),
        ("turbo", "all", True),
    ]
    assert entries[0]["id"] == first["id"]
    kim.ok("setting", "unset", "app.mode")
    assert "(its own)" in kim.ok("setting", "diff", "app.mode")
    assert "no operator has set anything" in kim.ok("setting")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("telemetry.batch_seconds", "often"), 1, "must be a number"),
        (("telemetry.batch_seconds", "-1"), 1, "must be between"),
        (("sensors.enabled", "7"), 1, "must be true or false"),
        (("telemetry.batch_secs", "7"), 1, "did you mean 'telemetry.batch_seconds'?"),
        (("app.Mode", "eco"), 1, "no name of a program's setting"),
        (("app.mode", "eco", "--for", "label:nobody"), 2, "no device of the group has the label"),
        (("app.mode", "eco", "--for", "ffffffff"), 2, "is no device of the group"),
    ],
)
def test_a_mistake_is_told_before_anything_is_ordered(kim: Here, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in kim.fails("setting", "set", *words, code=code)
    assert kim.json("setting", "diff", "--all") == []


def test_who_is_no_operator_orders_nothing(kim: Here) -> None:
    kim.ok("config", "unset", "operations.operators")
    assert "no operator" in kim.fails("setting", "set", "app.mode", "eco", code=1)
    kim.ok("config", "set", "operations.operators", "covey-sign-nonsense")
    assert "operations.operators" in kim.fails("setting", "set", "app.mode", "eco", code=78)
