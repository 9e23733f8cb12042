"""A store that lies, at whichever request: each reading is in the tables once, for who reads them all and who follows.

It says that it has written and has not, keeps or returns half of an object, reports an error for what it did, does
things twice, or returns an older listing or object. The engine notices and ends, or is not harmed; a next run goes on.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from covey.errors import CoveyError
from covey_ingest.committer import delta_log
from tests.examples import Share, shares
from tests.failing_s3 import LIES, FailingS3, Order
from tests.tables_driver import URL, Driver, asked_once

_UNTIL = 6
_OF = 2 * len(LIES)
"""Every other request hears one of the lies here, and each of them any lie from the harness."""
_OBEYED = {"GET": (Order.FORGET, Order.TWICE, Order.DENY), "HEAD": (Order.FORGET, Order.TWICE, Order.DENY)}
"""Lies that say nothing where nothing is changed."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store, which nobody asks twice."""
    with FailingS3().running() as server:
        asked_once(server, monkeypatch)
        yield server


class Follower:
    """Reads the change feed of the readings, from where it has come to, of a copy: the library blocks this process."""

    def __init__(self, store: FailingS3, folder: Path) -> None:
        self.seen: Counter[tuple[int, int]] = Counter()
        self._store = store
        self._folder = folder
        self._next = 0

    def follow(self) -> None:
        """Take in what is new; nothing where the log cannot be read."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for key in self._store.keys("bucket/tables/readings/"):
            file = self._folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._store.objects[key][0])
        try:
            table = DeltaTable(self._folder / "bucket" / "tables" / "readings")
        except DeltaError:
            return  # torn, until the next run begins
        newest = table.version()
        if newest < self._next:
            return
        changes = pa.table(table.load_cdf(starting_version=self._next, ending_version=newest).read_all())
        for row in changes.select(["seq", "index", "_change_type"]).to_pylist():
            self.seen[row["seq"], row["index"]] += {"insert": 1, "delete": -1}.get(row["_change_type"], 0)
        self._next = newest + 1


def _matters(asked: str, lie: Order) -> bool:
    """Leave out what lies say nothing about, and tables that are like others."""
    method, _, key = asked.partition(" ")
    table = key.split("/")[2] if key.count("/") > 2 else "readings"
    return lie not in _OBEYED.get(method, ()) and table in ("readings", "losses", "devices", "state")


class Liar:
    """Answers the first request of a kind with a lie."""

    def __init__(self, store: FailingS3, asked: str, lie: Order) -> None:
        self._asked = asked
        self._lie = lie
        self.has_lied = False
        store.orders = self

    def __call__(self, method: str, key: str) -> Order:
        if self.has_lied or _kind(f"{method} {key}") != self._asked:
            return Order.OBEY
        self.has_lied = True
        return self._lie


def _kind(asked: str) -> str:
    """Return a request without what is drawn anew in each run."""
    return re.sub(r"[0-9a-f]{8}-?[0-9a-f-]{20,}", "*", asked)


def _check(follower: Follower, why: object) -> None:
    expected = Counter((number + 1, index) for number in range(_UNTIL) for index in (0, 1))
    readings = DeltaTable(f"{URL}/readings").to_pyarrow_table()
    assert Counter(zip(*(readings[name].to_pylist() for name in ("seq", "index")), strict=True)) == expected, why
    assert follower.seen == expected, why
    assert sorted(DeltaTable(f"{URL}/losses").to_pyarrow_table()["seq"].to_pylist()) == [*range(_UNTIL)], why
    (device,) = DeltaTable(f"{URL}/devices").to_pyarrow_table().to_pylist()
    assert (device["messages"], device["readings"], device["open_gaps"]) == (_UNTIL, 2 * _UNTIL, 0), why
    assert sum(DeltaTable(f"{URL}/rollups").to_pyarrow_table()["readings"].to_pylist()) == 2 * _UNTIL, why


@pytest.mark.parametrize("share", shares(2, plain=1))
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name.lower())
def test_each_reading_once_whatever_a_store_lies_about(
    store: FailingS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Order, share: Share
) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    driver = Driver(tmp_path / "driver", sizes=[1])
    driver.run(3)
    before, older = dict(store.objects), [*store.older]
    store.asked = []
    driver.run(5)  # with merging
    asked = [each for each in dict.fromkeys(map(_kind, store.asked)) if _matters(each, lie)]
    asked = share.of(asked[[*LIES].index(lie) % _OF :: _OF])
    noticed = 0
    for each in asked:
        store.objects = dict(before)
        store.older.clear()
        store.older.extend(older)
        follower, liar = Follower(store, tmp_path / "copy"), Liar(store, each, lie)
        try:
            driver.run(5)
        except CoveyError:
            noticed += 1
        assert liar.has_lied, each
        store.orders = lambda _method, _key: Order.OBEY
        follower.follow()
        driver.run(_UNTIL)
        follower.follow()
        _check(follower, (each, lie, "noticed" if noticed else "not noticed"))
    assert noticed or lie in (Order.TWICE, Order.OLDER), "the store was believed"
