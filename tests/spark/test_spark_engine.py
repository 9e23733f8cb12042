"""The Spark engine, in this session: tables in a store and a folder, looked at from outside; and both engines."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")
pytest.importorskip("obstore", reason="the cloud extra is not installed")

import pyarrow as pa
from deltalake import DeltaTable

from covey.core.telemetry.batch import Alarm, Value
from covey.errors import ConfigurationError, CoveyError, StorageError
from covey_ingest.__main__ import main
from covey_ingest.committer import table_locations
from covey_ingest.committer.tables import opened_tables
from covey_ingest.local_engine import run_here
from covey_ingest.options import SourceOptions
from covey_ingest.progress import Progress
from covey_ingest.queries.report import make_report
from covey_ingest.queries.views import TABLES, Engine, script
from covey_ingest.spark.source import FORMAT, readings
from covey_ingest.spark.spark_engine import run_on_spark
from covey_ingest.task.columns import READINGS
from covey_ingest.task.exploding import readings_of
from covey_ingest.vault.vaults import VaultPlace
from tests.failing_s3 import LIES, FailingS3, Order
from tests.outside.audit import Audit, audit
from tests.outside.holdings import Holdings
from tests.outside.members import membership
from tests.outside.vault import Vault
from tests.spark.cluster import ROOT
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector
from tests.spark.follower import seen
from tests.tables.ingesting import Recorder, StopAfter
from tests.tables.test_outside import Scene
from tests.tables.test_summaries import COMBINED_TOTAL, MINUTE, Station, expected_total

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_URL = "s3://bucket/tables"
_PLACE = [("seq", "ascending"), ("index", "ascending")]


@pytest.fixture
def store(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store, which this process and the session's workers know."""
    with FailingS3().running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        yield server


def _ingest(
    spark: SparkSession,
    scene: Scene,
    recorder: Recorder | None = None,
    stop: threading.Event | None = None,
    **options: Any,
) -> list[Progress]:
    recorder = recorder or Recorder()
    given: dict[str, Any] = {"segments_per_trigger": 1} | options
    source = SourceOptions(str(scene.collector.vault), scene.collector.key_file, **given)
    run_on_spark(source, _URL, trigger_seconds=None, watcher=recorder, stop=stop, spark=spark)
    return recorder.batches


def _audit(scene: Scene) -> Audit:
    holdings = Holdings(membership(each.raw for each in scene.manifests))
    holdings.take(Vault(str(scene.collector.vault), scene.collector.key_file))
    return audit(holdings, [_URL])


def test_each_reading_once_with_repeats_losses_and_a_clock_known_late_until_it_is_deleted(
    spark: SparkSession, tmp_path: Path, store: FailingS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, recorder = Scene(tmp_path), Recorder()
    scene.land_everything()
    stop = threading.Event()

    class Once(Recorder):
        def written(self, progress: Progress) -> None:
            super().written(progress)
            stop.set()

    begun = _ingest(spark, scene, Once(), stop)  # one batch, or one more that had begun before the stop was seen
    brought = [*begun, *_ingest(spark, scene, recorder)]
    assert 0 < len(begun) < len(brought)
    assert [each.batch_id for each in brought] == [*range(len(brought))], "the next run goes on"
    assert sum(each.repeats for each in brought) == 1
    assert recorder.lagging[-1].segments == 0
    found = _audit(scene)
    assert found.findings == []
    assert found.readings == {scene.ann.author: 13, scene.bob.author: 5}
    assert found.rows == {_URL: found.readings}
    assert _ingest(spark, scene) == [], "nothing has come since"
    assert make_report(_URL, NOW_US, None).sections["devices"]
    monkeypatch.setattr(time, "time_ns", lambda: 1000 * NOW_US)
    assert main(["delete", _URL, "--author", scene.bob.author[:8]]) == 0
    scene.collector.land(scene.bob.measure(2), scene.ann.measure(1), received_at_us=NOW_US)
    _ingest(spark, scene)
    found = _audit(scene)
    assert found.findings == [], "what was deleted is no loss"
    assert found.rows[_URL] == {scene.ann.author: 14}, "of what a collector had until then nothing comes back"


def test_several_vaults_fill_tables_and_one_of_them_goes_on_alone(
    spark: SparkSession, tmp_path: Path, store: FailingS3
) -> None:
    scene, south = Scene(tmp_path), Collector(tmp_path / "south", 9)
    twice = scene.ann.measure(2)
    scene.collector.land(twice, scene.ann.measure(1))
    south.land(scene.ann.measure(3))
    places = [VaultPlace(str(south.vault), south.key_file)]
    _ingest(spark, scene, others=tuple(places), segments_per_trigger=9)
    south.land(twice, scene.ann.measure(4))
    run_on_spark(SourceOptions(str(south.vault), south.key_file), _URL, trigger_seconds=None, spark=spark)
    rows = DeltaTable(f"{_URL}/readings").to_pyarrow_table().group_by(["vault", "seq"]).aggregate([("index", "count")])
    north_id, south_id = scene.collector.key.vault_id.hex(), south.key.vault_id.hex()
    found = sorted((row["seq"], row["vault"], row["index_count"]) for row in rows.to_pylist())
    assert found == [(1, north_id, 2), (2, north_id, 1), (3, south_id, 3), (4, south_id, 4)]


def test_a_run_whose_store_fails_ends_and_the_next_one_brings_the_rest(
    spark: SparkSession, tmp_path: Path, store: FailingS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_locations, "_LIBRARY", {"max_retries": "0"})
    table_locations.open_location.cache_clear()
    scene = Scene(tmp_path)
    scene.collector.land(scene.ann.measure(5), scene.bob.measure(3))
    scene.collector.land(scene.ann.measure(2))
    commits = 0

    def cut_off(method: str, key: str) -> Order:
        nonlocal commits
        commits += method == "PUT" and "tables/readings/_delta_log/" in key and not key.endswith(("0.json", "1.json"))
        return Order.REFUSE if commits > 1 else Order.OBEY

    store.orders = cut_off
    with pytest.raises(StorageError):
        _ingest(spark, scene)
    store.orders = lambda _method, _key: Order.OBEY
    assert len(store.keys("bucket/tables/readings/batch=1/")) == 1, "put, and not committed"
    (brought,) = _ingest(spark, scene)
    assert (brought.batch_id, brought.readings) == (1, 2)
    assert _audit(scene).findings == []


def _follow(followed: Path) -> None:
    """Take in what the change feed tells: in a process of its own, as the store is in this one."""
    command = [sys.executable, "-m", "tests.spark.follower", _URL, str(followed)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)


@pytest.mark.slow
def test_each_reading_once_in_tables_whose_store_lies_to_driver_and_executors(
    spark: SparkSession, tmp_path: Path, store: FailingS3
) -> None:
    """To one request in twelve, in runs of which the next one goes on where the last one ended."""
    scene, chance, answered, noticed = Scene(tmp_path), random.Random(40), Counter[Order](), 0

    def lie(_method: str, _key: str) -> Order:
        order = chance.choice(LIES) if chance.random() < 1 / 12 else Order.OBEY
        answered[order] += 1
        return order

    followed = tmp_path / "followed.json"
    for turn in range(5):
        scene.collector.land(scene.ann.measure(3), scene.bob.measure(2))
        store.orders = lie
        try:
            _ingest(spark, scene, segments_per_trigger=2)
        except CoveyError:
            noticed += 1
        store.orders = lambda _method, _key: Order.OBEY
        if turn % 2:
            _ingest(spark, scene)
            _follow(followed)
    _ingest(spark, scene)
    _follow(followed)
    found = _audit(scene)
    assert found.findings == []
    assert found.rows == {_URL: {scene.ann.author: 15, scene.bob.author: 10}}
    assert sorted(seen(followed).values()) == [1] * 25
    assert {*LIES} <= {*answered}
    assert noticed


def test_engines_take_turns_at_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Each goes on where the other one ended, in both directions, also where the other one was only stopped."""
    scene, tables = Scene(tmp_path), str(tmp_path / "tables")
    source = SourceOptions(str(scene.collector.vault), scene.collector.key_file, segments_per_trigger=2)
    scene.land_everything()
    recorder = Recorder()
    for turn in range(2):
        for engine in (partial(run_on_spark, spark=spark), partial(run_here, workers=2)):
            once = StopAfter(1)
            engine(source, tables, trigger_seconds=None if turn else 0.1, watcher=once, stop=once.stop)
            recorder.batches += once.batches
            scene.collector.land(scene.ann.measure(2), scene.bob.measure(1))
    run_on_spark(source, tables, trigger_seconds=None, watcher=recorder, spark=spark)
    assert [each.batch_id for each in recorder.batches] == [*range(len(recorder.batches))]
    found = scene.audit(Path(tables))
    assert found.findings == []
    assert found.rows == {tables: found.readings}
    assert found.readings == {scene.ann.author: 13 + 8, scene.bob.author: 5 + 4}


def test_of_two_engines_at_one_set_of_tables_one_says_so(spark: SparkSession, tmp_path: Path, store: FailingS3) -> None:
    scene = Scene(tmp_path)
    scene.collector.land(scene.ann.measure(2))
    source = SourceOptions(str(scene.collector.vault), scene.collector.key_file)

    class Begins(Recorder):
        """Has the other engine begin once this one has committed."""

        def written(self, progress: Progress) -> None:
            super().written(progress)
            scene.collector.land(scene.ann.measure(3))
            run_here(source, _URL, trigger_seconds=None, workers=1)
            scene.collector.land(scene.ann.measure(1))

    with pytest.raises(
        ConfigurationError, match="another engine has started to write the tables at s3://bucket/tables"
    ):
        run_on_spark(source, _URL, trigger_seconds=0.1, watcher=Begins(), spark=spark)
    _ingest(spark, scene)
    found = _audit(scene)
    assert (found.findings, found.rows[_URL]) == ([], {scene.ann.author: 6})
    with (
        opened_tables(str(tmp_path / "tables"), [scene.collector.key.vault_id]),
        pytest.raises(ConfigurationError, match="another engine is writing the tables"),
    ):
        run_on_spark(source, str(tmp_path / "tables"), trigger_seconds=None, spark=spark)


def test_a_vault_reads_as_a_batch_too_and_shows_no_key(spark: SparkSession, tmp_path: Path) -> None:
    collector = Scene(tmp_path).collector
    collector.land(Author(collector, 1).measure(4))
    frame = spark.read.format(FORMAT).options(keyFile=str(collector.key_file)).load(str(collector.vault))
    assert readings(frame).where("value > 20.1").count() == 2
    plan = frame._jdf.queryExecution().toString()
    assert collector.key.key.hex() not in plan + json.dumps(spark.sparkContext.getConf().getAll())


def test_spark_makes_the_same_rows_of_a_vault_as_the_tables_have(spark: SparkSession, tmp_path: Path) -> None:
    """Of values of every kind, in batches of each kind alone and of all together, with and without alarms."""
    collector = Scene(tmp_path).collector
    author = Author(collector, 1)
    kinds: list[list[Value]] = [
        [20.5, -1, 0.25, 1e300],
        [True, False],
        [2**62, -(2**62), 7],
        ["calm", ""],
        [b"\x00\xff", b""],
    ]
    batches = [*kinds, [value for values in zip_longest(*kinds) for value in values if value is not None]]
    messages = [
        author.telemetry(
            [(f"{type(value).__name__}/{n % 2}", f"unit {n}", BOOTED_US + n, value) for n, value in enumerate(values)],
            alarm=Alarm.RAISED if number % 2 else None,
        )
        for number, values in enumerate(batches)
    ]
    collector.land(*messages)
    vault = spark.read.format(FORMAT).options(keyFile=str(collector.key_file)).load(str(collector.vault))
    own = pa.Table.from_batches([readings_of(batch) for batch in vault.toArrow().to_batches()]).cast(READINGS)
    rows = readings(vault).toArrow()
    assert rows.schema.names == READINGS.names
    assert rows.cast(READINGS).sort_by(_PLACE).to_pylist() == own.sort_by(_PLACE).to_pylist()
    assert len(own) == sum(map(len, batches))


def test_summaries_and_the_view_that_combines_them_with_readings_count_each_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of readings that came raw, in a summary, or in both; the view is the one that `covey tables views` prints."""
    collector, tables = Collector(tmp_path / "vault"), str(tmp_path / "tables")
    station = Station(collector)
    early = station.batch()
    station.unsent(8)
    late = station.batch()
    station.unsent(10)
    source = SourceOptions(str(collector.vault), collector.key_file)
    for landed in ((early,), (station.summary(1, 10, 5 * MINUTE), station.summary(11, 20)), (late, station.batch())):
        collector.land(*landed)
        run_on_spark(source, tables, trigger_seconds=None, spark=spark)
    for table in TABLES:
        if (Path(tables) / table).exists():
            stored = "stored_readings" if table == "readings" else table
            spark.read.format("covey_tables").load(f"{tables}/{table}").createOrReplaceTempView(stored)
    for statement in script(tables, Engine.SPARK).split(";\n\n"):
        if "USING delta" not in statement:  # needs a jar; the loop above stands in for it
            spark.sql(statement.rstrip(";\n"))
    [row] = spark.sql(COMBINED_TOTAL).collect()
    assert tuple(row) == expected_total(21)
    widths = spark.sql("SELECT readings, overlapping FROM combined WHERE name = 't' AND thinned ORDER BY time")
    assert [tuple(row) for row in widths.collect()] == [(48, True), (48, True), *[(12, False)] * 10]
    [gap] = spark.sql("SELECT sum(numbers) FROM gaps WHERE state = 'thinned'").collect()
    assert gap[0] == 18
