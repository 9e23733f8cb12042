"""A board thins while no gateway is there: what it signs itself then, in the tables of the local engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.core.telemetry.summaries import read_summary
from covey_boards.shared import messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from tests.spark.fleet import Collector
from tests.tables.ingesting import ingest, rows_of
from tests.tables.test_summaries import _query

pytestmark = [pytest.mark.slow, pytest.mark.processes]

_SECOND = 1_000_000


@pytest.fixture
def world() -> Iterator[simulation.World]:
    """The whole firmware, its line and a gateway, in a seeded world."""
    before = nacl._urandom
    yield simulation.World(61, interval_us=5 * _SECOND, batch_us=60 * _SECOND, outbox_bytes=4_096)
    nacl.set_randombytes(before)


def _recorded(world: simulation.World) -> list[bytes]:
    """Return the list of what the collector opens from now on, as it was signed: each message once."""
    signed: list[bytes] = []
    opens = world.collector.open

    def opened(envelope: bytes) -> bytes | None:
        message: bytes | None = opens(envelope)
        reported = {messages.TELEMETRY, messages.SUMMARY, messages.LOSS}
        if message is not None and message not in signed and messages.read_message(message)[0] in reported:
            signed.append(message)
        return message

    world.collector.open = opened
    return signed


def _outage(world: simulation.World, hours: int) -> None:
    world.absent = True
    world.run(hours * 3600, step_us=_SECOND)
    world.absent = False


def test_a_curve_of_a_board_is_whole_after_an_outage(world: simulation.World, tmp_path: Path, tables: Path) -> None:
    """Its batches that came, and those that are in a summary, are all that it made, in the tables, too."""
    signed, vault = _recorded(world), Collector(tmp_path / "vault")
    world.run(100)
    _outage(world, 5)
    world.run(60)
    world.settle(900)
    vault.land(*signed)
    ingest(vault.vault, tables)

    made = world.board.outbox.next_number - 1
    bodies = [messages.read_message(each) for each in signed]
    ranges = [span for each in bodies if each[0] == messages.SUMMARY for span in read_summary(each[8])[0]]
    thinned = sum(last - first + 1 for first, last in ranges)
    came = sum(each[0] == messages.TELEMETRY for each in bodies)
    assert thinned > 10
    assert came + thinned == made
    gaps = rows_of(tables, "gaps")
    assert {gap["state"] for gap in gaps} == {"thinned"}
    assert sum(gap["numbers"] for gap in gaps) == thinned
    windows = [row for row in rows_of(tables, "summaries") if row["name"] == "sim:counter"]
    raw = [row for row in rows_of(tables, "readings") if row["name"] == "sim:counter"]
    count = world.sensor.count
    assert len(raw) + sum(row["readings"] for row in windows) == count
    ((readings, total, least, most),) = _query(
        tables,
        "SELECT CAST(sum(readings) AS BIGINT), sum(sum), min(minimum), max(maximum) "
        "FROM combined WHERE name = 'sim:counter'",
    )
    assert (readings, total, least, most) == (count, count * (count + 1) / 2, 1, count)


def test_a_power_cut_in_an_outage_of_a_board_leaves_a_gap_in_the_tables(
    world: simulation.World, tmp_path: Path, tables: Path
) -> None:
    """It ends the windows: what the board had noted of them is a gap that says why, and no number is in two places."""
    signed, vault = _recorded(world), Collector(tmp_path / "vault")
    world.run(100)
    _outage(world, 2)
    world.boot()
    world.run(200)
    world.settle(900)
    vault.land(*signed)
    ingest(vault.vault, tables)

    gaps = rows_of(tables, "gaps")
    assert {gap["state"] for gap in gaps} == {"lost"}
    assert sum(gap["numbers"] for gap in gaps) > 50
    assert sum(last - first + 1 for _, spans in world.collector.lost_earlier for first, last in spans) == sum(
        gap["numbers"] for gap in gaps
    )
    assert not rows_of(tables, "summaries")
