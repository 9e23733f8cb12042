"""`covey ingest delete` and `retain`: what is deleted from tables is noted in a group's history, by the device here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Here, covey

pa = pytest.importorskip("pyarrow", reason="the ingest is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.processes]

ONE = "a" * 64


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    import pyarrow.parquet as pq

    folder = tmp_path / "tables" / "readings" / "batch=0"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"author": [ONE, "b" * 64], "value": [1.0, 2.0]}), folder / "part-0.parquet")
    return tmp_path / "tables"


def _json(*words: str) -> Any:
    ended = covey(*words, "--json")
    assert ended.code == 0, ended
    return json.loads(ended.stdout)


def test_a_deletion_is_noted_and_signed(tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kim = Here(tmp_path, "kim")
    monkeypatch.setenv("COVEY_STATE", str(kim.state))
    words = "ingest", "delete", str(tables), "--author", ONE
    refused = covey(*words)
    assert (refused.code, "--no-note" in refused.stderr) == (78, True), "nobody is there to be told"
    kim.ok("group", "create")
    would = _json(*words, "--dry-run")
    assert would == {"deleted": False, "what": f"all of {ONE}", "rows": {"readings": 1}, "noted": False}
    assert ONE not in kim.ok("history", "log")
    assert _json(*words) == {**would, "deleted": True, "noted": True}
    assert f"deleted all of {ONE} from tables: 1 of readings" in kim.ok("history", "log", "--json")
    assert _json(*words, "--no-note") == {**would, "deleted": True, "rows": {}}
    assert kim.json("history", "verify")["complaints"] == []
