"""The ingest with Delta tables in an object store: what is read there is what the tables hold, through replays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

import obstore
import pyarrow.dataset as ds
from deltalake import DeltaTable
from obstore.store import from_url

from covey.errors import ConfigurationError
from covey_ingest.progress import Progress, Published
from covey_ingest.report import make_report
from covey_ingest.tables import Sink
from tests.integration.s3_server import s3_server, s3_vault
from tests.spark.fleet import NOW_US, Author, Collector
from tests.spark.ingesting import Recorder, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["s3_server", "s3_vault"]

pytestmark = pytest.mark.spark

_KEY = ["author", "incarnation", "seq", "index"]


def test_published_tables_hold_each_reading_once_through_replays(
    spark: SparkSession, tmp_path: Path, s3_vault: str
) -> None:
    collector, tables, checkpoint = Collector(tmp_path / "vault"), tmp_path / "tables", tmp_path / "checkpoint"
    device = Author(collector, 1)
    sizes = [collector.land(device.measure(20)).size for _ in range(3)]
    recorders: list[Recorder] = []

    def publish(tables: Path = tables, checkpoint: Path = checkpoint) -> list[Progress]:
        recorders.append(Recorder())
        options: dict[str, Any] = {"sink": Sink.DELTA, "publish": s3_vault, "bytes_per_trigger": 2 * max(sizes)}
        return ingest(spark, collector.vault, tables, checkpoint, recorder=recorders[-1], **options)

    assert [each.readings for each in publish()] == [40, 20]
    collector.land(device.loss(7, 9), b"no message")
    (last,) = publish()

    # Killed after all was written and before Spark noted it, with the last entry of the log still to be written.
    (checkpoint / "commits" / str(last.batch_id)).unlink()
    (checkpoint / "commits" / f".{last.batch_id}.crc").unlink(missing_ok=True)
    version = DeltaTable(f"{s3_vault}/readings").version()
    obstore.delete(from_url(s3_vault), f"readings/_delta_log/{version:020}.json")
    collector.land(device.measure(5))
    publish()
    here = ds.dataset(tables / "readings").to_table(_KEY).to_pylist()
    there = DeltaTable(f"{s3_vault}/readings").to_pyarrow_table(columns=_KEY).to_pylist()
    assert sorted(map(str, there)) == sorted(map(str, here))
    assert len(here) == 65
    rows = {name: DeltaTable(f"{s3_vault}/{name}").to_pyarrow_table().num_rows for name in ("losses", "quarantine")}
    assert rows == {"losses": 1, "quarantine": 1}
    assert recorders[-1].publishing[-1] == Published(0, 0.0)
    report = make_report(s3_vault, NOW_US, None)
    assert (report.fleet["devices"], report.traffic["readings"]) == (1, 65)
    assert report.sections == make_report(str(tables), NOW_US, None).sections

    with pytest.raises(ConfigurationError, match="another ingest"):
        publish(tmp_path / "others", tmp_path / "other-checkpoint")
    with pytest.raises(ConfigurationError, match="are Delta tables"):
        ingest(spark, collector.vault, tables, checkpoint)
