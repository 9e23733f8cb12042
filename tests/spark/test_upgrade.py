"""Tables and checkpoints of a newer layout, with a column more, and under other options."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from deltalake import DeltaTable

from covey.errors import ConfigurationError
from covey_ingest.report import make_report
from covey_ingest.rows import Verify
from covey_ingest.tables import Sink
from tests.spark.fleet import NOW_US, Author, Collector
from tests.spark.ingesting import audited, ingest
from tests.waiting import GUARD_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
_READINGS, _SEEDS = 10, (1, 2)


@pytest.fixture
def layout(spark: SparkSession, tmp_path: Path) -> Path:
    """A vault of three segments; tables and a checkpoint that have the first two in one micro-batch."""
    folder = tmp_path / "layout"
    folder.mkdir()
    collector = Collector(folder / "vault")
    fleet = [Author(collector, seed) for seed in _SEEDS]
    for _ in range(2):
        collector.land(*(device.measure(_READINGS) for device in fleet))
    ingest(spark, collector.vault, folder / "tables", key_file=collector.key_file)
    collector.land(*(device.measure(_READINGS) for device in fleet))
    return folder


def _check_each_reading_is_there_once(layout: Path) -> None:
    collector = Collector(layout / "none")
    expected = {Author(collector, seed).author: 3 * _READINGS for seed in _SEEDS}
    collector.vault, collector.key_file = layout / "vault", layout / "vault" / "vault.key"
    assert audited(layout / "tables", collector) == expected


def _add_column(layout: Path) -> None:
    """Give the first micro-batch a column that this Covey does not know, as a later one would write it."""
    (file,) = (layout / "tables" / "readings" / "batch=0").glob("*.parquet")
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.append_column("site", pa.array(["north"] * len(rows))), file, compression="zstd")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_tables_go_on_with_a_column_more_and_other_options(spark: SparkSession, layout: Path) -> None:
    tables, each = layout / "tables", len(_SEEDS) * _READINGS
    _add_column(layout)

    # The first micro-batch was planned with 256 segments, and not noted as done: it stays as it was planned. The state
    # beside the tables is gone, too, so that it is made anew from files with and without the column.
    shutil.rmtree(tables / ".checkpoint" / "commits")
    shutil.rmtree(tables / ".numbers")
    reported = ingest(spark, layout / "vault", layout / "tables", segments_per_trigger=1, verify=Verify.SAMPLE)
    assert [progress.readings for progress in reported] == [0, each]
    _check_each_reading_is_there_once(layout)
    rows = ds.dataset([*map(str, sorted(tables.glob("readings/*/*.parquet")))], schema=_with_site(tables)).to_table()
    assert rows["site"].to_pylist().count("north") == 2 * each
    assert rows["site"].null_count == each
    assert make_report(str(tables), NOW_US, None).traffic["readings"] == 3 * each

    # The same tables under a log; a further start has nothing to do.
    assert ingest(spark, layout / "vault", layout / "tables", sink=Sink.DELTA) == []
    _check_each_reading_is_there_once(layout)
    held = DeltaTable(tables / "readings").to_pyarrow_table(columns=["site"])
    assert (len(held), held["site"].null_count) == (3 * each, each)

    newest = max(path for path in (tables / ".checkpoint" / "offsets").iterdir() if path.name.isdecimal())
    newest.write_text(newest.read_text().replace("v1", "v9", 1))
    newest.with_name(f".{newest.name}.crc").unlink()
    with pytest.raises(ConfigurationError, match="a newer Spark has written the checkpoint"):
        ingest(spark, layout / "vault", layout / "tables", sink=Sink.DELTA)


def _with_site(tables: Path) -> pa.Schema:
    (file,) = (tables / "readings" / "batch=0").glob("*.parquet")
    return pq.read_schema(file)


@pytest.mark.parametrize("part", ["tables", "tables/.checkpoint"])
def test_what_a_newer_covey_has_written_is_refused_before_anything_starts(layout: Path, part: str) -> None:
    binding = layout / part / "covey.json"
    binding.write_text(json.dumps(json.loads(binding.read_text()) | {"layout": 2}))
    before = {path: path.stat().st_mtime_ns for path in layout.rglob("*") if path.name != ".lock"}
    words = [str(layout / "vault"), str(layout / "tables"), "--key-file", str(layout / "vault" / "vault.key")]
    done = subprocess.run(
        [sys.executable, "-m", "covey_ingest", *words, "--available-now"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 78
    assert f"error: {layout / part} was written by a newer Covey (layout 2)" in done.stderr
    assert "hint: upgrade covey here" in done.stderr
    changed = {path for path, then in before.items() if not path.exists() or path.stat().st_mtime_ns != then}
    assert changed <= {layout / "tables", layout / "tables" / ".staging"}
