"""Tables in an object store, filled by a cluster without a folder in common, whatever is killed and whatever fails."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")
pytest.importorskip("obstore", reason="the cloud extra is not installed")

from deltalake import DeltaTable

from covey.adapters.objects.folder import DirectoryStore
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES
from demo.quick_spark import quick_spark
from tests.failing_s3 import FailingS3, Order
from tests.spark.cluster import DRIVER, cluster
from tests.spark.fleet import Author, Collector
from tests.spark.processes import kill, python_workers
from tests.waiting import Patience

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.processes]

SEGMENTS, DEVICES, READINGS = 12, 3, 20
_VAULT, _URL = "s3://bucket/vault", "s3://bucket/tables"
_COMMITS = "bucket/tables/readings/_delta_log/"
_WORKERS = _FIRST, _SECOND = "worker-1", "worker-2"
_INGEST = ("run", "--engine", "spark", _VAULT, _URL, "--available-now", "--max-segments-per-trigger", "3")
_SEED = 17


def _landed(folder: Path, store: FailingS3) -> tuple[Path, set[str]]:
    """Land a vault in the store, of three collectors; return its key file and the authors."""
    collector = Collector(folder)
    others = [Collector(folder, seed, collector.key) for seed in (7, 8)]
    fleet = [Author(collector, seed) for seed in range(DEVICES)]
    for number in range(SEGMENTS):
        [collector, *others][number % 3].land(*(device.measure(READINGS) for device in fleet))
    local = DirectoryStore(folder)
    for key in local.keys("vaults/"):
        store.objects[f"bucket/vault/{key}"] = (local.get(key, MAXIMUM_SEGMENT_BYTES) or b"", time.time())
    return collector.key_file, {device.author for device in fleet}


def _micro_batches(store: FailingS3) -> int:
    """Return how many micro-batches are committed."""
    return sum(b'"covey.offset"' in store.objects[key][0] for key in store.keys(_COMMITS))


def test_each_reading_once_though_all_that_can_is_killed_and_requests_fail(tmp_path: Path) -> None:
    rng = random.Random(_SEED)

    def failing(_method: str, key: str) -> Order:
        drawn = rng.random() if key.startswith("bucket/tables") or key == "bucket" else 1.0
        return (
            Order.REFUSE if drawn < 0.02 else Order.CUT if drawn < 0.03 else Order.LOSE if drawn < 0.04 else Order.OBEY
        )

    with FailingS3().running() as store:
        key_file, authors = _landed(tmp_path / "vault", store)
        store.orders = failing
        with cluster(tmp_path, key_file, store.environment | quick_spark()) as parts:
            parts.boot(_WORKERS)
            killed: Counter[str] = Counter()
            starts, seen_before, patience = 0, (0, 0), Patience(120)
            driver = parts.submit(*_INGEST)
            while not (driver.poll() == 0 and len(+killed) == 3):
                if (now := (_micro_batches(store), killed.total() + starts)) != seen_before:
                    seen_before, patience = now, Patience(120)
                assert patience.left, (killed, parts.log(DRIVER)[-5000:])
                if driver.poll() is not None:
                    starts += 1
                    assert starts < 12, parts.log(DRIVER)[-5000:]
                    driver = parts.submit(*_INGEST)
                committed = _micro_batches(store)
                if committed >= 1 and not killed["python"]:
                    killed["python"] += kill(python_workers(parts.running(_FIRST))[-1:])
                elif committed >= 2 and not killed["driver"]:
                    killed["driver"] += bool(kill(parts.running(DRIVER)))
                elif committed >= 3 and not killed["worker"]:
                    killed["worker"] += bool(kill(parts.running(_SECOND)))
                time.sleep(0.05)
        store.orders = lambda _method, _key: Order.OBEY
        rows = DeltaTable(f"{_URL}/readings", storage_options=store.environment).to_pyarrow_table()
    seen = Counter(zip(*(rows[name].to_pylist() for name in ("author", "seq", "index")), strict=True))
    assert set(seen.values()) == {1}
    assert len(seen) == SEGMENTS * DEVICES * READINGS
    assert {author for author, *_ in seen} == authors
