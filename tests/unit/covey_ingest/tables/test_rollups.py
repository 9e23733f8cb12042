"""What the job keeps by minute says what the readings say, late data included, in whatever parts it came."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.committer.table_locations import location_at
from covey_ingest.queries.views import create, opened, refresh
from covey_ingest.tables.rollups import SCHEMA
from covey_ingest.task.columns import READINGS, TIMESTAMP
from tests.delta_files import log_file, write_minutes

_DAY_US = 86_400_000_000


def _commit(root: Path, number: int, dice: random.Random) -> None:
    count = dice.randrange(1, 40)
    authors = [dice.choice("ab") * 64 for _ in range(count)]
    rows = {
        "author": authors,
        "device": [author[:8] for author in authors],
        "name": dice.choices(["temperature", "state"], k=count),
        "unit": ["Cel"] * count,
        "time": pa.array([dice.randrange(2 * _DAY_US) // 1_000_000 * 1_000_000 for _ in range(count)]).cast(TIMESTAMP),
        "value": [dice.choice([None, float(dice.randrange(100))]) for _ in range(count)],
        "seq": [number] * count,
        "index": pa.array(range(count), pa.int32()),
        "time_quality": ["synchronised"] * count,
        "flag": pa.nulls(count, pa.bool_()),
        "text": pa.nulls(count, pa.string()),
    }
    folder = root / "readings" / f"batch={number}"
    folder.mkdir(parents=True)
    table = pa.table([rows.get(field.name, pa.nulls(count, field.type)) for field in READINGS], READINGS.names)
    pq.write_table(table.cast(READINGS), folder / "part-0.parquet")
    log_file(root, "readings", folder / "part-0.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_parts_add_up_to_what_the_readings_say(tmp_path: Path, *, together: bool) -> None:
    dice = random.Random(7)
    for number in range(8):
        _commit(tmp_path, number, dice)
        readings = sorted(tmp_path.glob("readings/batch=*/*.parquet" if together else f"readings/batch={number}/*"))
        if not together or number == 7:
            assert write_minutes(readings, tmp_path / "rollups" / f"batch={number}")
    for file in tmp_path.glob("rollups/*/*.parquet"):
        assert pq.read_schema(file).equals(SCHEMA)
        log_file(tmp_path, "rollups", file)
    location = location_at(str(tmp_path))
    with opened(location) as database:
        database.execute("SET TimeZone = 'UTC'")
        refresh(database, location)
        create(database, wide=False)
        for period in ("minute", "hour", "day"):
            kept, said = (
                database.execute(f"FROM {kind}_{period} ORDER BY author, name, {period}").fetchall()
                for kind in ("rollup", "by")
            )
            assert kept == said
            assert kept


def test_texts_make_no_rollup_rows(tmp_path: Path) -> None:
    rows = {"author": ["a"], "time": pa.array([1]).cast(TIMESTAMP), "value": pa.array([None], pa.float64())}
    table = pa.table([rows.get(field.name, pa.nulls(1, field.type)) for field in READINGS], READINGS.names)
    pq.write_table(table, tmp_path / "text.parquet")
    assert not write_minutes([tmp_path / "text.parquet"], tmp_path / "rollups" / "batch=0")
    assert not (tmp_path / "rollups").exists()
