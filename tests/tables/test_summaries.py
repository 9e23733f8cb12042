"""Summaries in the tables: each reading counts once, whichever of raw batches, summaries and wider summaries landed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from covey.core.telemetry.batch import BatchBuilder
from covey.core.telemetry.decoding import read_batch
from covey.core.telemetry.summaries import Summariser, Summary, summary_body
from covey.core.wire.message import MessageType
from covey.core.wire.sequences import Range
from covey_ingest.__main__ import main
from covey_ingest.committer import deleting
from covey_ingest.committer.table_locations import location_at
from covey_ingest.queries.views import create, opened, refresh
from tests.outside.holdings import Kind
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector, Given
from tests.tables.ingesting import audited, ingest, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]

MINUTE, _SECOND = 60_000_000, 1_000_000
_FIRST_US = (BOOTED_US - NOW_US) % (5 * MINUTE)
"""By the boot's clock, where five minutes of UTC begin."""


class Station:
    """A device that measures twelve times a minute, one batch a minute, and a door."""

    def __init__(self, collector: Collector, seed: int = 1) -> None:
        self.author = Author(collector, seed)
        self.batches: dict[int, list[Given]] = {}

    def measure(self, minute: int) -> list[Given]:
        at = _FIRST_US + minute * MINUTE
        rows: list[Given] = [("t", "Cel", at + 5 * _SECOND * n, (minute * 12 + n) / 10) for n in range(12)]
        return [*rows, ("door", "", at, minute % 2 == 0), ("x", "", at + 1, 1 / (minute + 3)), ("why", "", at, "text")]

    def batch(self) -> bytes:
        rows = self.measure(self.author.number)
        self.batches[self.author.number + 1] = rows
        return self.author.telemetry(rows)

    def unsent(self, count: int) -> None:
        """Make batches that never leave as they are."""
        for _ in range(count):
            self.batches[self.author.number + 1] = self.measure(self.author.number)
            self.author.number += 1

    def summary(self, first: int, last: int, width_us: int = MINUTE) -> bytes:
        return self.author.sign(MessageType.SUMMARY, self.body(((first, last),), self._summary(first, last, width_us)))

    def body(self, numbers: tuple[Range, ...], summary: Summary) -> bytes:
        return summary_body(numbers, summary.to_wire())

    def _summary(self, first: int, last: int, width_us: int) -> Summary:
        summariser = Summariser(width_us)
        for number in range(first, last + 1):
            builder = BatchBuilder()
            for row in self.batches[number]:
                builder.add(*row)
            summariser.add_batch(read_batch(builder.body(self.author.clock())))
        return summariser.summary()


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "vault")


def _query(tables: Path, sql: str) -> list[tuple[Any, ...]]:
    location = location_at(str(tables))
    with opened(location) as database:
        refresh(database, location)
        create(database, wide=False)
        database.execute("SET TimeZone = 'UTC'")
        return database.execute(sql).fetchall()


COMBINED_TOTAL = """
    SELECT CAST(sum(readings) AS BIGINT), round(sum(sum), 6), min(minimum), max(maximum),
           sum(coalesce(exact_sum, CAST(sum AS DECIMAL(38, 9)))) FROM combined WHERE name = 't'"""


def expected_total(minutes: int) -> tuple[Any, ...]:
    tenths = range(minutes * 12)
    total = sum(tenths)
    return len(tenths), round(total / 10, 6), 0.0, (len(tenths) - 1) / 10, Decimal(total) / 10


def test_a_curve_is_one_query_over_readings_and_summaries(collector: Collector, tables: Path) -> None:
    station = Station(collector)
    station.unsent(30)
    collector.land(station.summary(1, 30), *[station.batch() for _ in range(10)])
    ingest(collector.vault, tables)

    rows = rows_of(tables, "summaries", "index")
    assert len(rows) == 30 * 4
    by_name = {row["name"]: row for row in rows}
    last = by_name["t"]
    assert (last["readings"], last["width"], last["kind"], last["time_quality"]) == (
        12,
        MINUTE,
        "decimal",
        "synchronised",
    )
    assert (last["exact_sum"], last["minimum"], last["maximum"]) == (Decimal("424.2"), 34.8, 35.9)
    assert (last["first"], last["last"]) == (34.8, 35.9)
    assert (last["until"] - last["time"]).total_seconds() == 55
    assert (by_name["door"]["kind"], by_name["door"]["exact_sum"], by_name["x"]["exact_sum"]) == ("boolean", 0, None)
    assert (by_name["x"]["sum"], by_name["why"]["sum"], by_name["why"]["readings"]) == (1 / 32, None, 1)

    assert _query(tables, COMBINED_TOTAL) == [expected_total(40)]
    minutes = _query(
        tables, "SELECT date_trunc('minute', time), sum(readings) FROM combined WHERE name = 't' GROUP BY 1"
    )
    assert sorted(count for _, count in minutes) == [12] * 40, "every minute has its readings"
    (gap,) = rows_of(tables, "gaps")
    assert (gap["first"], gap["last"], gap["numbers"], gap["state"], gap["reason"]) == (
        1,
        30,
        30,
        "thinned",
        "thinned 1:4",
    )
    assert main(["report", str(tables), "--since", "3650d"]) == 0
    assert list(audited(tables, collector).values()) == [150]


def test_what_landed_raw_and_in_a_summary_counts_once(collector: Collector, tables: Path) -> None:
    """A batch that was on its way when it was thinned: it lands before the summary, or after it."""
    station = Station(collector)
    early = station.batch()
    station.unsent(8)
    late = station.batch()
    collector.land(early)
    ingest(collector.vault, tables)
    collector.land(station.summary(1, 10, 5 * MINUTE))
    ingest(collector.vault, tables)
    collector.land(late)
    ingest(collector.vault, tables)
    total = _query(tables, COMBINED_TOTAL)
    assert total == [expected_total(10)]
    marked = _query(tables, "SELECT readings, overlapping FROM combined WHERE name = 't' AND thinned ORDER BY time")
    assert marked == [(48, True), (48, True)]
    doors = _query(tables, "SELECT sum(readings), sum(exact_sum) FROM combined WHERE name = 'door' AND thinned")
    assert doors == [(8, 4)], "numbers 2 to 9: four of them open"
    assert [(row["first"], row["last"], row["state"]) for row in rows_of(tables, "gaps")] == [(2, 9, "thinned")]


def test_a_window_whose_readings_all_came_is_gone(collector: Collector, tables: Path) -> None:
    station = Station(collector)
    batches = [station.batch() for _ in range(3)]
    collector.land(station.summary(1, 3), *batches)
    ingest(collector.vault, tables)
    assert _query(tables, COMBINED_TOTAL) == [expected_total(3)]
    assert _query(tables, "SELECT count(*) FROM combined WHERE thinned") == [(0,)]


def test_of_summaries_of_summaries_the_widest_counts(collector: Collector, tables: Path) -> None:
    """The narrow one had arrived, and its acknowledgement not, when it was thinned once more."""
    other = Collector(collector.vault, seed=5, key=collector.key)
    station = Station(collector)
    station.unsent(20)
    narrow, wide = station.summary(1, 10), station.summary(1, 20, 5 * MINUTE)
    other.land(narrow)
    collector.land(narrow, wide)
    ingest(collector.vault, tables)
    assert _query(tables, COMBINED_TOTAL) == [expected_total(20)]
    other.land(wide, received_at_us=NOW_US + 1)
    ingest(collector.vault, tables)
    assert _query(tables, COMBINED_TOTAL) == [expected_total(20)]
    assert _query(tables, "SELECT count(*) FROM combined WHERE name = 't'") == [(4,)]


def test_summaries_of_a_deleted_device_are_gone(collector: Collector, tables: Path) -> None:
    station, other = Station(collector), Station(collector, 2)
    for each in (station, other):
        each.unsent(2)
        collector.land(each.summary(1, 2))
    ingest(collector.vault, tables)
    due, gone = deleting.of_author(station.author.author), station.author.author
    deleting.delete(location_at(str(tables)), due, lambda known: known.with_author(gone, NOW_US + 1))
    assert {row["author"] for row in rows_of(tables, "summaries")} == {other.author.author}


def test_a_summary_that_nobody_can_read_is_quarantined_alone(collector: Collector, tables: Path) -> None:
    station = Station(collector)
    station.unsent(2)
    body = station.body(((1, 2),), station._summary(1, 2, MINUTE))
    collector.land(station.author.sign(MessageType.SUMMARY, body[:-4]), station.batch())
    (progress,) = ingest(collector.vault, tables)
    assert (progress.quarantined, progress.messages) == (1, 1)
    audited(tables, collector, Kind.FORGED, Kind.GAP, Kind.UNSAID)
