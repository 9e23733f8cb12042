"""Tables in an object store: each reading once, whatever is struck at whichever request, and whoever else writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from deltalake import DeltaTable

from covey.core.ids import VaultId
from covey.errors import ConfigurationError, CoveyError
from covey_ingest import delta_log
from covey_ingest.store_tables import StoreTables
from tests.failing_s3 import FailingS3, Order
from tests.s3_tables import SCHEMAS, URL, VAULT, Driver, asked_once, distinct_moments, losses


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store, which nobody asks twice."""
    with FailingS3().running() as server:
        asked_once(server, monkeypatch)
        yield server


def _standing(table: str = "readings") -> list[tuple[int, ...]]:
    found = DeltaTable(f"{URL}/{table}").to_pyarrow_table()
    columns = [found[name].to_pylist() for name in ("seq", "index") if name in found.column_names]
    return sorted(zip(*columns, strict=True))


def _expected(until: int) -> list[tuple[int, int]]:
    return [(number + 1, index) for number in range(until) for index in (0, 1)]


def _check(until: int, why: object = None) -> None:
    """Check that all tables tell of so many messages, each once."""
    assert _standing() == _expected(until), why
    assert _standing("losses") == [(number,) for number in range(until)], why
    (device,) = DeltaTable(f"{URL}/devices").to_pyarrow_table().to_pylist()
    assert (device["messages"], device["readings"], device["open_gaps"]) == (until, 2 * until, 0), why
    assert sum(DeltaTable(f"{URL}/rollups").to_pyarrow_table()["readings"].to_pylist()) == 2 * until, why


@pytest.mark.slow
def test_a_run_goes_on_on_another_machine(store: FailingS3, tmp_path: Path) -> None:
    Driver(tmp_path / "one").run(4)
    Driver(tmp_path / "two").run(7)
    _check(7)
    assert len(store.keys("bucket/tables/state/")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_each_reading_once_whenever_a_run_is_killed(
    store: FailingS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """What a killed driver leaves is the store as it was after one of its changes: from each of them others go on."""
    driver = Driver(tmp_path / "driver", sizes=[2, 3])
    driver.run(2)
    store.moments = []
    with monkeypatch.context() as merging:
        merging.setattr(delta_log, "BATCHES_PER_MERGE", 4)
        driver.run(5)  # a micro-batch, its state, merging; and another one
    assert len(store.moments) > 40
    moments = distinct_moments(store)
    for number, moment in [*enumerate(moments)][part::2]:
        store.objects = dict(moment)
        driver.run(6)
        _check(6, number)
    assert len(moments) > 25


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_a_driver_that_gets_no_answer_changes_nothing_more(store: FailingS3, tmp_path: Path, part: int) -> None:
    """Each request fails once, each change is made once and its answer lost: the run ends whole, or as if killed."""
    driver = Driver(tmp_path / "driver", sizes=[3])
    driver.run(2)
    before = dict(store.objects)
    store.asked = []
    driver.run(5)
    old = re.compile(r"GET .*/_delta_log/0{19}[01].json")  # read with those that follow, by one call of the library
    named = dict.fromkeys(_kind(asked) for asked in store.asked if not old.fullmatch(asked))
    changes = [asked for asked in named if not asked.startswith("GET")]
    strikes = [(asked, Order.CUT) for asked in named] + [(asked, Order.LOSE) for asked in changes]
    for asked, order in strikes[part::2]:
        store.objects, store.moments = dict(before), []
        strike = _Strike(store, asked, order)
        store.orders = strike
        try:
            driver.run(5)
            whole = True
        except CoveyError:
            whole = False
        store.orders = lambda _method, _key: Order.OBEY
        assert strike.made_before is not None, asked
        if whole:
            _check(5, (asked, order))
        else:  # the store is as the test before has it
            assert len(store.moments) - strike.made_before == (order is Order.LOSE), (asked, order)
    assert len(changes) > 10


@dataclass
class _Strike:
    """Has a request fail the first time that it is made."""

    store: FailingS3
    asked: str
    order: Order
    made_before: int | None = None
    """Changes until then."""

    def __call__(self, method: str, key: str) -> Order:
        if self.made_before is None and _kind(f"{method} {key}") == self.asked:
            self.made_before = len(self.store.moments)
            return self.order
        return Order.OBEY


def _kind(asked: str) -> str:
    """Return a request without what is drawn anew in each run."""
    return re.sub(r"[0-9a-f]{8}-?[0-9a-f-]{20,}", "*", asked)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["losses", "rollups", "readings"])
def test_an_earlier_run_that_was_only_slow_adds_nothing(store: FailingS3, tmp_path: Path, table: str) -> None:
    """A later run begins just as an earlier one is to put its entry into the log of a table."""
    later = Driver(tmp_path / "later", sizes=[9])

    def begin_another(method: str, key: str) -> Order:
        if method == "PUT" and f"/{table}/_delta_log/" in key and not later.starts:
            later.run(3)
        return Order.OBEY

    with StoreTables(URL, tmp_path / "slow", [VAULT], SCHEMAS) as tables:
        placed = later.put(tables, range(2))
        store.orders = begin_another
        with pytest.raises(ConfigurationError, match="another ingest has begun"):
            tables.commit(placed, {"losses": losses(range(2))}, {"node": [2]})
    assert later.starts == 1
    _check(3)


@pytest.mark.slow
def test_a_prefix_belongs_to_one_vault_and_is_empty_at_first(store: FailingS3, tmp_path: Path) -> None:
    store.objects["bucket/tables/else"] = (b"", 0.0)
    with pytest.raises(ConfigurationError, match="not empty"):
        StoreTables(URL, tmp_path / "one", [VAULT], SCHEMAS)
    del store.objects["bucket/tables/else"]
    StoreTables(URL, tmp_path / "one", [VAULT], SCHEMAS)
    with pytest.raises(ConfigurationError, match="another vault"):
        StoreTables(URL, tmp_path / "two", [VaultId(bytes([1] * 16))], SCHEMAS)


@pytest.mark.slow
def test_orphans_go_after_a_day_and_state_that_is_lost_is_made_anew(store: FailingS3, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver")
    driver.run(2)
    tables = StoreTables(URL, driver.folder, [VAULT], SCHEMAS)  # never ended, as of a driver that is killed
    orphans = driver.put(tables, range(2, 4))
    forgotten = driver.put(tables, range(2, 4))
    tables.forget(forgotten)
    (orphan,), (gone,) = (
        [f"bucket/tables/readings/{each.files['readings'].key}" for each in put] for put in (orphans, forgotten)
    )
    assert orphan in store.objects
    assert gone not in store.objects
    for key in store.keys("bucket/tables/state/"):
        del store.objects[key]
    driver.run(4)
    assert orphan in store.objects, "it may be somebody's who is still at it"
    store.age(25 * 3600)
    driver.run(5)
    assert orphan not in store.objects
    _check(5)
