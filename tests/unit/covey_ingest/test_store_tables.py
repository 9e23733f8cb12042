"""Tables in an object store: each reading once, whatever is struck at whichever request, and whoever else writes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from deltalake import DeltaTable

from covey.core.ids import VaultId
from covey.errors import ConfigurationError, CoveyError
from covey_ingest import delta_log
from covey_ingest.placing import Placed, place
from covey_ingest.store_tables import StoreTables
from tests.failing_s3 import FailingS3, Order
from tests.s3_tables import LOSSES, READINGS, asked_once, losses, readings

_URL = "s3://bucket/tables"
_VAULT = VaultId(bytes(16))
_SCHEMAS = {"readings": READINGS, "losses": LOSSES}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store, which nobody asks twice."""
    with FailingS3().running() as server:
        asked_once(server, monkeypatch)
        yield server


@dataclass
class _Driver:
    """What stands for Spark: takes so many messages of an endless vault as a micro-batch, from where the tables are."""

    folder: Path
    starts: int = 0
    sizes: list[int] = field(default_factory=lambda: [2])

    def run(self, until: int) -> None:
        """Begin anew on an empty disk and go on to a message; what is in the way is raised."""
        self.starts += 1
        shutil.rmtree(self.folder, ignore_errors=True)
        with StoreTables(_URL, self.folder, [_VAULT], _SCHEMAS) as tables:
            while (at := tables.offset.get("node", [0])[0]) < until:
                # A second try takes more of the vault than the first one: it has grown meanwhile.
                upto = min(at + self.sizes[self.starts % len(self.sizes)], until)
                placed = self.put(tables, range(at, upto))
                tables.commit(placed, {"losses": losses(range(at, upto))}, {"node": [upto]})

    def put(self, tables: StoreTables, messages: range) -> list[Placed]:
        """Do what executors do."""
        return list(place(tables.bucket.store, tables.done + 1, [readings(messages)]))


def _standing(table: str = "readings") -> list[tuple[int, ...]]:
    found = DeltaTable(f"{_URL}/{table}").to_pyarrow_table()
    columns = [found[name].to_pylist() for name in ("seq", "index") if name in found.column_names]
    return sorted(zip(*columns, strict=True))


def _expected(until: int) -> list[tuple[int, int]]:
    return [(number + 1, index) for number in range(until) for index in (0, 1)]


def _check(until: int, why: object = None) -> None:
    """Check that all tables tell of so many messages, each once."""
    assert _standing() == _expected(until), why
    assert _standing("losses") == [(number,) for number in range(until)], why
    (device,) = DeltaTable(f"{_URL}/devices").to_pyarrow_table().to_pylist()
    assert (device["messages"], device["readings"], device["open_gaps"]) == (until, 2 * until, 0), why
    assert sum(DeltaTable(f"{_URL}/rollups").to_pyarrow_table()["readings"].to_pylist()) == 2 * until, why


@pytest.mark.slow
def test_a_run_goes_on_on_another_machine(store: FailingS3, tmp_path: Path) -> None:
    _Driver(tmp_path / "one").run(4)
    _Driver(tmp_path / "two").run(7)
    _check(7)
    assert len(store.keys("bucket/tables/state/")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_each_reading_once_whenever_a_run_is_killed(
    store: FailingS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """What a killed driver leaves is the store as it was after one of its changes: from each of them others go on."""
    driver = _Driver(tmp_path / "driver", sizes=[2, 3])
    driver.run(2)
    store.moments = []
    with monkeypatch.context() as merging:
        merging.setattr(delta_log, "BATCHES_PER_MERGE", 4)
        driver.run(5)  # a micro-batch, its state, merging; and another one
    moments = store.moments
    for number, moment in [*enumerate(moments)][part::4]:
        store.objects = dict(moment)
        driver.run(7)
        _check(7, number)
    assert len(moments) > 40


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_driver_that_gets_no_answer_changes_nothing_more(store: FailingS3, tmp_path: Path, part: int) -> None:
    """Each request fails once, each change is made once and its answer lost: the run ends whole, or as if killed."""
    driver = _Driver(tmp_path / "driver", sizes=[3])
    driver.run(2)
    before = dict(store.objects)
    store.asked = []
    driver.run(5)
    named = dict.fromkeys(_kind(asked) for asked in store.asked)
    changes = [asked for asked in named if not asked.startswith("GET")]
    strikes = [(asked, Order.CUT) for asked in named] + [(asked, Order.LOSE) for asked in changes]
    for asked, order in strikes[part::4]:
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
    later = _Driver(tmp_path / "later", sizes=[9])

    def begin_another(method: str, key: str) -> Order:
        if method == "PUT" and f"/{table}/_delta_log/" in key and not later.starts:
            later.run(3)
        return Order.OBEY

    with StoreTables(_URL, tmp_path / "slow", [_VAULT], _SCHEMAS) as tables:
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
        StoreTables(_URL, tmp_path / "one", [_VAULT], _SCHEMAS)
    del store.objects["bucket/tables/else"]
    StoreTables(_URL, tmp_path / "one", [_VAULT], _SCHEMAS)
    with pytest.raises(ConfigurationError, match="another vault"):
        StoreTables(_URL, tmp_path / "two", [VaultId(bytes([1] * 16))], _SCHEMAS)


@pytest.mark.slow
def test_orphans_go_after_a_day_and_state_that_is_lost_is_made_anew(store: FailingS3, tmp_path: Path) -> None:
    driver = _Driver(tmp_path / "driver")
    driver.run(2)
    tables = StoreTables(_URL, driver.folder, [_VAULT], _SCHEMAS)  # never ended, as of a driver that is killed
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
