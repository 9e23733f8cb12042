"""Views over tables that pyarrow wrote, as DuckDB makes them; under Spark and of Delta: `tests/spark/test_views.py`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey.config.ingest_options import ENGINES
from covey_ingest.__main__ import main
from covey_ingest.schema import TIMESTAMP
from covey_ingest.views import SERIES_MAX, Engine, views

ONE, TWO = "a" * 64, "b" * 64
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOSTILE = "a'b\\\"`; DROP TABLE x; --"
DAY_US = 86_400_000_000

_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "device", "name", "unit")),
        ("time", TIMESTAMP),
        ("value", pa.float64()),
        ("whole", pa.int64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("data", pa.binary()),
        ("time_quality", pa.string()),
        ("clock_offset", pa.int64()),
        ("incarnation", pa.string()),
        ("seq", pa.int64()),
        ("index", pa.int32()),
        ("batch_number", pa.int64()),
        *((name, pa.string()) for name in ("boot", "collector")),
        ("received_at", TIMESTAMP),
    ]
)


def _row(author: str, seconds: float, name: str = "temperature", **more: object) -> dict[str, Any]:
    time = NOON + timedelta(seconds=seconds)
    row = {"author": author, "device": author[:8], "name": name, "unit": "Cel", "time": time, "seq": int(seconds)}
    row |= {"index": 0, "boot": "boot", "time_quality": "synchronised", "clock_offset": 0, "received_at": time}
    return row | more


def _write(root: Path, batch: int, rows: list[dict[str, Any]], schema: pa.Schema = _SCHEMA) -> None:
    folder = root / "readings" / f"batch={batch}"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "part-0.parquet")


def _made(root: Path) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for statement in views(str(root), Engine.DUCKDB).split(";\n\n"):
        database.execute(statement)
    return database


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    _write(tmp_path, 0, [_row(ONE, seconds, value=float(seconds)) for seconds in range(0, 180, 30)])
    later = [_row(ONE, 15, value=99.0), _row(ONE, 150, "state", value=None, text="open"), _row(TWO, 0, value=1.5)]
    _write(tmp_path, 1, later)
    return tmp_path


def test_the_newest_reading_of_each_series_of_each_device(tables: Path) -> None:
    found = _made(tables).execute("SELECT author, name, time, value, text FROM latest ORDER BY author, name").fetchall()
    late = NOON + timedelta(seconds=150)
    assert found == [
        (ONE, "state", late, None, "open"),
        (ONE, "temperature", late, 150.0, None),
        (TWO, "temperature", NOON, 1.5, None),
    ]


def test_minutes_hours_and_days_take_late_data_in(tables: Path) -> None:
    database = _made(tables)
    query = "SELECT readings, minimum, maximum, mean, last FROM by_minute WHERE author = ? ORDER BY minute"
    assert database.execute(query, [ONE]).fetchall() == [
        (3, 0.0, 99.0, 43.0, 30.0),
        (2, 60.0, 90.0, 75.0, 90.0),
        (2, 120.0, 150.0, 135.0, 150.0),
    ]
    for period in ("hour", "day"):
        count = f"SELECT sum(readings), count(*), min({period}) FROM by_{period}"
        assert database.execute(count).fetchone() == (8, 2, NOON if period == "hour" else NOON.replace(hour=0))


def test_a_column_for_each_series_of_numbers_whatever_it_is_called(tmp_path: Path) -> None:
    names = ("time", HOSTILE, "Humidity", "humidity", "a\nb")
    _write(tmp_path, 0, [_row(ONE, 0, name, value=float(at)) for at, name in enumerate(names)])
    database = _made(tmp_path)
    wide = database.execute("SELECT * FROM wide")
    assert {column[0] for column in wide.description} == {
        *("author", "device", "time", "time_", HOSTILE, "Humidity", "humidity_")
    }
    [row] = wide.fetchall()
    assert sorted(value for value in row if isinstance(value, float)) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_device_that_names_thousands_of_series_makes_no_thousand_columns(tmp_path: Path) -> None:
    rows = [_row(ONE, 0, f"series{n}", value=1.0) for n in range(1_000)] + [_row(TWO, 0, "often", value=1.0)] * 2
    _write(tmp_path, 0, rows)
    columns = [column[0] for column in _made(tmp_path).execute("SELECT * FROM wide").description]
    assert len(columns) == 3 + SERIES_MAX
    assert columns[3] == "often"


def test_doubtful_times_of_plain_files_are_repaired(tmp_path: Path) -> None:
    slow = _row(ONE, 0, value=1.0, time_quality="unsynchronised", clock_offset=5)
    slow["time"] -= timedelta(days=5)
    beyond = slow | {"boot": "other", "seq": 1}
    _write(tmp_path, 0, [slow, beyond])
    clocks = [
        {"author": ONE, "boot": "boot", "clock_offset": 5 + 5 * DAY_US},
        {"author": ONE, "boot": "other", "clock_offset": 90 * DAY_US},  # it would be the day after tomorrow
    ]
    (tmp_path / "clocks").mkdir()
    pq.write_table(pa.Table.from_pylist(clocks), tmp_path / "clocks" / "clocks.parquet")
    found = _made(tmp_path).execute("SELECT time, time_quality FROM readings ORDER BY seq").fetchall()
    assert found == [(NOON, "rebased"), (NOON - timedelta(days=5), "unsynchronised")]


def test_files_of_an_earlier_version_have_fewer_columns(tmp_path: Path) -> None:
    names = [name for name in _SCHEMA.names if name not in {"whole", "clock_offset"}]
    _write(tmp_path, 0, [_row(ONE, 0, value=1.0)], pa.schema([_SCHEMA.field(name) for name in names]))
    assert _made(tmp_path).execute("SELECT value, whole, clock_offset FROM readings").fetchall() == [(1.0, None, None)]


def test_the_documented_queries_run(tables: Path) -> None:
    document = (Path(__file__).parents[3] / "docs" / "operations" / "tables.md").read_text()
    [block] = re.findall(r"### Newest values.*?```sql\n(.*?)```.*?\n### ", document, re.DOTALL)
    database = _made(tables)
    found = [database.execute(query).fetchall() for query in block.split(";\n") if query]
    assert found[0]
    assert found[1] == []  # nobody here measures outside


def test_mistakes_end_in_a_line_and_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(ENGINES) == [each.value for each in Engine]
    assert main(["views", str(tmp_path / "nothing")]) == 78
    assert capsys.readouterr().err.startswith("error: there is no folder")
    (tmp_path / "devices").mkdir()
    assert main(["views", str(tmp_path)]) == 78
    assert "has no readings yet\nhint: " in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["views", str(tmp_path), "--for", "excel"])
