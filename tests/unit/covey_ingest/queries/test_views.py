"""Views over tables that pyarrow wrote, as DuckDB makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey.config.tables_options import DIALECTS
from covey_ingest.__main__ import main
from covey_ingest.committer.table_locations import location_at
from covey_ingest.queries.views import SERIES_MAX, Engine, create, opened, refresh
from covey_ingest.task.columns import READINGS
from tests.delta_files import log_file, write_minutes

ONE, TWO = "a" * 64, "b" * 64
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOSTILE = "a'b\\\"`; DROP TABLE x; --"


def _row(author: str, seconds: float, name: str = "temperature", **more: object) -> dict[str, Any]:
    time = NOON + timedelta(seconds=seconds)
    row = {"author": author, "device": author[:8], "name": name, "unit": "Cel", "time": time, "seq": int(seconds)}
    row |= {"index": 0, "boot": "boot", "time_quality": "synchronised", "clock_offset": 0, "received_at": time}
    return row | more


def _write(root: Path, batch: int, rows: list[dict[str, Any]]) -> None:
    file = root / "readings" / f"batch={batch}" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=READINGS), file)
    log_file(root, "readings", file)
    minutes = root / "rollups" / f"batch={batch}"
    assert write_minutes([file], minutes)
    log_file(root, "rollups", minutes / "part-0.parquet")


@contextmanager
def _made(root: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    location = location_at(str(root))
    with opened(location) as database:
        database.execute("SET TimeZone = 'UTC'")
        refresh(database, location)
        create(database, wide=True)
        yield database


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    _write(tmp_path, 0, [_row(ONE, seconds, value=float(seconds)) for seconds in range(0, 180, 30)])
    later = [_row(ONE, 15, value=99.0), _row(ONE, 150, "state", value=None, text="open"), _row(TWO, 0, value=1.5)]
    _write(tmp_path, 1, later)
    return tmp_path


def test_the_newest_reading_of_each_series_of_each_device(tables: Path) -> None:
    with _made(tables) as database:
        query = "SELECT author, name, time, value, text FROM latest ORDER BY author, name"
        found = database.execute(query).fetchall()
    late = NOON + timedelta(seconds=150)
    assert found == [
        (ONE, "state", late, None, "open"),
        (ONE, "temperature", late, 150.0, None),
        (TWO, "temperature", NOON, 1.5, None),
    ]


def test_minutes_hours_and_days_take_late_data_in(tables: Path) -> None:
    with _made(tables) as database:
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
    with _made(tmp_path) as database:
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
    with _made(tmp_path) as database:
        columns = [column[0] for column in database.execute("SELECT * FROM wide").description]
    assert len(columns) == 3 + SERIES_MAX
    assert columns[3] == "often"


@pytest.mark.slow
def test_a_script_makes_the_same_views_elsewhere(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["views", str(tables)]) == 0
    printed = capsys.readouterr().out
    assert f"SELECT * FROM delta_scan('{tables}/readings');" in printed
    with _made(tables) as database:
        for statement in printed.split(";\n\n"):
            if "delta_scan" not in statement:  # its extension is not installed here
                database.execute(statement)
        assert database.execute("SELECT count(*) FROM wide").fetchone() == (8,)
    assert main(["views", str(tables), "--for", "spark"]) == 0
    assert f"USING delta OPTIONS (path '{tables}/readings');" in capsys.readouterr().out


def test_mistakes_end_in_a_line_and_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(DIALECTS) == [each.value for each in Engine]
    assert main(["views", str(tmp_path / "nothing")]) == 78
    assert capsys.readouterr().err.startswith("error: there are no tables")
    with pytest.raises(SystemExit, match="2"):
        main(["views", str(tmp_path), "--for", "excel"])
