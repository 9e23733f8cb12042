"""Programs that people have read the tables, and each shows the same readings: docs/how-to/readers.md, run."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from covey_ingest.__main__ import main
from covey_ingest.queries import querying
from tests.failing_s3 import FailingS3
from tests.meta.source_tree import ROOT
from tests.tables_driver import URL, Driver, asked_once
from tests.waiting import GUARD_S

_PAGE = (ROOT / "docs" / "how-to" / "readers.md").read_text(encoding="utf-8")
_EXAMPLES = [part for part in re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL) if "spark_session" not in part]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("readers")
    driver = Driver(folder / "committer", str(folder / "tables"))
    driver.run(5)
    return driver.location


@pytest.mark.slow
@pytest.mark.parametrize("example", _EXAMPLES, ids=["duckdb", "polars", "pandas", "change feed"])
def test_the_page_runs(tables: str, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "polars" in example:
        pytest.importorskip("polars", reason="the dev extra is not installed")
    names: dict[str, Any] = {}
    exec(compile(example.replace("/srv/tables", tables), "readers.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "10" in printed if "load_cdf" in example else "2.0" in printed, "five messages of values 0 to 4"


def test_filters_of_a_dataset_find_what_there_is(tables: str) -> None:
    """Of a column that may be null, the log says nothing: the Delta library takes a missing value for a bound."""
    for name in ("readings", "rollups", "losses", "devices"):
        dataset = DeltaTable(f"{tables}/{name}").to_pyarrow_dataset()
        every = dataset.to_table()
        assert len(every)
        for column in every.column_names:
            nulls = every[column].null_count
            assert dataset.to_table(filter=ds.field(column).is_null()).num_rows == nulls, (name, column)
            assert dataset.to_table(filter=ds.field(column).is_valid()).num_rows == len(every) - nulls, (name, column)
    dataset = DeltaTable(f"{tables}/readings").to_pyarrow_dataset()
    assert dataset.to_table(filter=ds.field("value") > 1.0).num_rows == 6
    assert dataset.to_table(filter=ds.field("index") == 0).num_rows == 5
    assert not dataset.to_table(filter=ds.field("seq") > 5).num_rows


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingS3]:
    """A store with the same tables, at `URL`."""
    with FailingS3().running() as store, pytest.MonkeyPatch.context() as patched:
        asked_once(store, patched)
        Driver(tmp_path_factory.mktemp("stored") / "committer").run(5)
        yield store


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("example", _EXAMPLES, ids=["duckdb", "polars", "pandas", "change feed"])
def test_the_page_runs_for_tables_in_a_store(stored: FailingS3, example: str) -> None:
    """In a process of its own: the libraries let no other thread of theirs run, and the store is one here."""
    if "polars" in example:
        pytest.importorskip("polars", reason="the dev extra is not installed")
    done = subprocess.run(
        [sys.executable, "-c", example.replace("/srv/tables", URL)],
        env=os.environ | stored.environment,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "10" in done.stdout if "load_cdf" in example else "2.0" in done.stdout, "five messages of values 0 to 4"


@pytest.mark.slow
def test_a_query_in_each_form(tables: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT seq, count(*) AS n, max(value) AS most FROM readings GROUP BY seq ORDER BY seq LIMIT 2"
    assert main(["query", tables, query]) == 0
    assert capsys.readouterr().out.splitlines() == ["seq  n  most", "---  -  ----", "1    2  0.0", "2    2  1.0"]
    assert main(["query", tables, query, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1]) == {"seq": 2, "n": 2, "most": 1.0}
    assert main(["query", tables, query, "--format", "csv"]) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out)))[2] == ["2", "2", "1.0"]


@pytest.mark.slow
def test_a_wrong_query_is_reported_in_one_sentence(tables: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", tables, "SELECT nothing FROM readings"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("error: Binder Error")
    assert "hint:" in printed
    assert "Traceback" not in printed


@pytest.mark.slow
def test_the_shell_sees_what_came_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = Driver(tmp_path / "committer", str(tmp_path / "tables"))
    driver.run(2)
    lines = iter(["SELECT count(*) AS n", "FROM readings;", "oops;", "", "SELECT count(*) AS n FROM readings;"])

    def typed(prompt: str) -> str:
        if (line := next(lines, None)) is None:
            raise EOFError
        if line == "":
            driver.run(5)
        return line

    monkeypatch.setattr("builtins.input", typed)
    querying.shell(driver.location)
    shown = capsys.readouterr()
    assert [line for line in shown.out.splitlines() if line.isdecimal()] == ["4", "10"]
    assert shown.err.startswith("error: Parser Error")


@pytest.mark.slow
def test_plain_parquet_for_who_wants_it(tables: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plain"
    assert main(["export", tables, str(folder)]) == 0
    assert capsys.readouterr().out == f"10 rows of readings are in {folder}\n"
    assert pq.read_table(folder).num_rows == 10
    assert main(["export", tables, str(folder)]) == 78
    assert "is not empty" in capsys.readouterr().err
    assert main(["export", tables, str(tmp_path / "none"), "--table", "nothing"]) == 78
    assert "has no table nothing" in capsys.readouterr().err


@pytest.mark.slow
def test_the_documented_queries_run(tables: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = (ROOT / "docs" / "how-to" / "tables.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sql\n(.*?)```", document, re.DOTALL)
    queries = [query for block in blocks for query in re.split(r";\s*\n", block) if query.strip()]
    assert len(queries) >= 11
    for query in queries:
        code, printed = main(["query", tables, query, "--format", "json"]), capsys.readouterr()
        assert code == 0, (query, printed.err)
        assert "duplicates" not in query or printed.out == ""
