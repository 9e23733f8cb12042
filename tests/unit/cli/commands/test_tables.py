"""`covey tables delete` and `retain`: what is deleted from tables is noted in a group's history, by the device here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Here, covey

pytest.importorskip("pyarrow", reason="what writes tables is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.processes]

ONE = "a" * 64
ROWS = {"devices": 1, "clocks": 1, "rollups": 1, "readings": 2}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    from tests.tables_driver import Driver

    Driver(tmp_path / "driver", str(tmp_path / "tables"), authors=(ONE, "b" * 64)).run(1)
    return tmp_path / "tables"


def _json(*words: str) -> Any:
    ended = covey(*words, "--json")
    assert ended.code == 0, ended
    return json.loads(ended.stdout)


def test_a_deletion_is_noted_and_signed(tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kim = Here(tmp_path, "kim")
    monkeypatch.setenv("COVEY_STATE", str(kim.state))
    words = "tables", "delete", str(tables), "--author", ONE
    refused = covey(*words)
    assert (refused.code, "--no-note" in refused.stderr) == (78, True), "nobody is there to be told"
    kim.ok("group", "create")
    would = _json(*words, "--dry-run")
    assert would == {"deleted": False, "what": f"all readings of {ONE}", "rows": ROWS, "noted": False}
    assert ONE not in kim.ok("history", "log")
    assert _json(*words) == {**would, "deleted": True, "noted": True}
    rows = "1 of devices, 1 of clocks, 1 of rollups, 2 of readings"
    assert f"deleted all readings of {ONE} from tables: {rows}" in kim.ok("history", "log", "--json")
    assert _json(*words, "--no-note") == {**would, "deleted": True, "rows": {}}
    assert kim.json("history", "verify")["complaints"] == []
