"""A board's backlog keeps its shape: summaries as an agent writes them, and a ledger that balances."""

from __future__ import annotations

import random
import struct
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.telemetry.batch import Batch, Kind
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.summaries import Summariser, Summary, SummaryWindow, read_summary
from covey.limits.telemetry import MAXIMUM_WINDOW_US
from covey_boards.device import series_rules, thinning
from covey_boards.device.outbox import Outbox
from covey_boards.shared import batch as board_batch
from covey_boards.shared import cbor, messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from hil.on_board import sleep_simulation

SECOND, MINUTE = 1_000_000, 60_000_000
BOOT = b"bootboot"
LONG: dict[str, Any] = {"interval_us": 5 * SECOND, "batch_us": 60 * SECOND, "outbox_bytes": 4_096}


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


def _message(body: bytes) -> bytes:
    """Return a message as far as thinning reads it."""
    return cbor.encode([b"", cbor.encode([0] * 9 + [body])])


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
BATCHES = st.lists(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["a", "b"]), st.just(2), st.integers(-(1 << 40), 1 << 40)),
            st.tuples(st.just("c"), st.just(None), FLOATS),
        ),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=8,
)


@given(BATCHES, st.integers(0, 1 << 32), st.integers(1, 40 * MINUTE), st.booleans(), st.integers(-SECOND, SECOND))
def test_a_summary_is_the_one_that_an_agent_writes(
    batches: list[list[tuple[str, int | None, Any]]], begin: int, pace: int, right: bool, drift: int
) -> None:
    thinner = thinning.Thinner(24, lambda name: name == "b")
    now, read, wall = begin, [], 1_780_000_000_000_000
    for number, readings in enumerate(batches, 1):
        made = board_batch.Batch()
        for name, scale, value in readings:
            assert made.add(name, "Cel", scale, value, now)
            now += pace // 3
        now += pace
        clock = board_batch.SYNCHRONISED if right else board_batch.UNSYNCHRONISED
        body = made.body(2 * number, BOOT, clock, now, wall + now + drift * number)
        read.append(read_telemetry(body)[1])
        if not thinner.take(_message(body), number):
            read.pop()
            break
    assert read
    numbers, summary = read_summary(thinner.body(BOOT))
    assert numbers == tuple((2 * number, 2 * number) for number in range(1, len(read) + 1))
    expected = Summariser(summary.window_us, lambda name: name == "b")
    for each in read:
        expected.add_batch(each)
    assert _comparable(summary) == _comparable(expected.summary())
    assert summary.windows <= 24
    assert summary.window_us in thinning.WIDTHS


def test_sums_of_the_largest_doubles_are_those_of_an_agent() -> None:
    """On the way to their sum, or to half of it, doubles end."""
    large = 8.98846567431158e307
    for values in ([-large, -large, 1e292, large], [large] * 5, [-large] * 5):
        thinner, made = thinning.Thinner(4), board_batch.Batch()
        for at, value in enumerate(values):
            made.add("c", "", None, value, at)
        body = made.body(1, BOOT, 0, 9, 9)
        assert thinner.take(_message(body), 1)
        expected = Summariser(thinning.WIDTHS[0])
        expected.add_batch(read_telemetry(body)[1])
        assert _comparable(read_summary(thinner.body(BOOT))[1]) == _comparable(expected.summary())


def _comparable(summary: Summary) -> object:
    series = sorted((each.kind, each.name, each.unit, each.scale, each.windows) for each in summary.series)
    return summary.clock, summary.window_us, series


@given(st.lists(FLOATS, min_size=1, max_size=30))
def test_sums_of_doubles_are_exact_and_rounded_once(values: list[float]) -> None:
    fixed = [thinning._fixed(struct.pack("<d", value)) for value in values]
    assert [struct.unpack("<d", thinning._double(each))[0] for each in fixed] == values
    exact = sum(map(Fraction, values))
    try:
        expected = float(exact)
    except OverflowError:
        expected = 1.7976931348623157e308 * (1 if exact > 0 else -1)
    assert struct.unpack("<d", thinning._double(sum(fixed)))[0] == expected


def test_windows_of_widths_lie_in_each_other_and_within_the_protocols_bound() -> None:
    for narrow, wide in zip(thinning.WIDTHS, thinning.WIDTHS[1:], strict=False):
        assert wide % narrow == 0
    assert thinning.WIDTHS[-1] <= MAXIMUM_WINDOW_US


def _body(number: int, value: int, scale: int | None = 0, clock: int = 0, at: int = 0) -> bytes:
    made = board_batch.Batch()
    made.add("a", "", scale, value, at)
    return bytes(made.body(number, BOOT, clock, at, at))


def test_what_a_summary_cannot_say_is_not_taken_and_changes_nothing() -> None:
    thinner = thinning.Thinner(4, floats=False)
    assert thinner.take(_message(_body(1, 1 << 60)), 1)
    assert thinner.take(_message(_body(2, (1 << 60) + 1)), 2)
    before = thinner.body(BOOT)
    for body in (
        _body(3, (1 << 61) - 1, at=5),  # the sum is too large
        _body(3, 1, scale=1),  # another scale
        _body(3, 1, scale=None),  # doubles, on a board that sleeps
    ):
        assert not thinner.take(_message(body), 3)
        assert thinner.body(BOOT) == before
    assert thinner.take(_message(_body(4, 1, clock=1)), 4)
    assert not thinner.take(_message(_body(5, 1, clock=0)), 5), "a third run"
    assert len(thinner.runs) == 2


def test_what_does_not_fit_gets_wider_windows_and_then_is_lost() -> None:
    thinner, day = thinning.Thinner(3), thinning.WIDTHS[-1]
    widths = []
    minutes = (0, 1, 2, 4, 9, 180)
    for number, at in enumerate((*(each * MINUTE for each in minutes), day, 2 * day, 2 * day + MINUTE), 1):
        assert thinner.take(_message(_body(number, number, at=at)), number)
        widths.append(thinner.runs[0].width)
    assert widths == [0, 0, 0, 1, 1, 1, 2, 4, 4]
    assert not thinner.take(_message(_body(10, 1, at=3 * day)), 10)
    numbers, summary = read_summary(thinner.body(BOOT))
    assert numbers == ((1, 9),)
    assert sum(window.total for window in summary.series[0].windows) == 45


def _summaries(world: simulation.World) -> list[tuple[tuple[tuple[int, int], ...], Summary]]:
    bodies = [each for taken in world.collector.links.values() for each in taken.values() if each]
    return [read_summary(body) for kind, body in bodies if kind == messages.SUMMARY]


def _batches(world: simulation.World) -> dict[int, Batch]:
    bodies = [each for taken in world.collector.links.values() for each in taken.values() if each]
    return dict(read_telemetry(body) for kind, body in bodies if kind == messages.TELEMETRY)


def _ledger(world: simulation.World) -> tuple[set[int], set[int], set[int]]:
    """Return which batches came, are in a summary, and are reported as lost."""
    summarised = [number for spans, _ in _summaries(world) for a, b in spans for number in range(a, b + 1)]
    assert len(summarised) == len(set(summarised))
    lost = {number for a, b in world.collector.lost for number in range(a, b + 1)}
    return set(_batches(world)), set(summarised), lost


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "hours"), [(51, 1), (52, 5), (53, 30)])
def test_after_an_outage_each_reading_is_there_or_in_a_window(seed: int, hours: int) -> None:
    world = simulation.World(seed, **LONG)
    world.run(100)
    world.absent = True
    world.run(hours * 3600, step_us=1_000_000)
    assert world.board.outbox.thinned > 10
    world.absent = False
    world.run(60)
    world.settle(900)
    came, summarised, lost = _ledger(world)
    assert not lost
    assert not came & summarised
    assert came | summarised == set(range(1, len(came) + len(summarised) + 1)), "acknowledged + thinned = produced"
    readings = [each for batch in _batches(world).values() for each in batch.readings() if each[0] == "sim:counter"]
    windows = _windows(world, "sim:counter")
    count = len(readings) + sum(window.readings for window in windows)
    total = sum(int(each[3]) for each in readings) + sum(int(window.total) for window in windows)
    assert count == world.sensor.count
    assert total == count * (count + 1) // 2, "sums are exact"
    assert not world.board.outbox.dropped
    for _, summary in _summaries(world):
        for window in _of(summary.series[0], "sim:counter"):
            assert (window.first, window.last) == (window.minimum, window.maximum)
    for window in _windows(world, "sim:half"):
        assert window.maximum == window.minimum + 5 * (window.readings - 1)


def _windows(world: simulation.World, name: str) -> list[SummaryWindow]:
    return [window for _, each in _summaries(world) for series in each.series for window in _of(series, name)]


def _of(series: Any, name: str) -> tuple[SummaryWindow, ...]:
    assert series.kind is Kind.DECIMAL
    return tuple(series.windows) if series.name == name else ()


def test_what_no_gateway_has_begins_with_what_was_thinned() -> None:
    outbox = Outbox(300, max, lambda _message, _seq: True)
    for _ in range(10):
        outbox.add(bytes(100))
    assert (outbox.thinned, outbox.dropped) == (7, 0)
    assert outbox.untaken() == [1, 10, 1, 10]
    summary = outbox.add(b"summary", False)
    summary.thinned = [(1, 7)]
    assert outbox.untaken() == [1, 11, 1, 10]
    outbox.taken(summary, 0)
    assert outbox.untaken() == [8, 11, 8, 10]
    assert outbox.receive_acknowledgement(0, [(11, 11)], 0) == [(1, 7)], "a RESUME names what never comes"


@pytest.mark.slow
def test_a_summary_that_a_gateway_has_is_noted_no_longer() -> None:
    world = simulation.World(60, **LONG)
    world.run(100)
    world.absent = True
    world.run(3600, step_us=1_000_000)
    assert world.files.held[messages.LOSSES_FILE]
    world.absent = False
    world.run(120)
    assert world.board.outbox.thinned > 10
    assert not world.files.held[messages.LOSSES_FILE]


@pytest.mark.slow
@pytest.mark.parametrize("cut_after", [0.0, 0.3, 2.0, 40.0])
def test_a_power_cut_tells_what_was_thinned_as_lost(cut_after: float) -> None:
    """In the outage, or while the summary is on its way: each batch came, is in a summary, or is reported."""
    world = simulation.World(54, **LONG)
    world.run(100)
    (incarnation,) = world.collector.links
    world.absent = True
    world.run(3 * 3600, step_us=1_000_000)
    thinned = world.board.outbox.thinned
    assert thinned > 10
    closed = world.board.outbox.next_number - 1
    if cut_after:
        world.absent = False
        world.run(cut_after)
    world.boot()
    world.absent = False
    world.run(90)
    world.settle(900)
    earlier = [span for of, spans in world.collector.lost_earlier if of == incarnation for span in spans]
    reported = {number for a, b in earlier for number in range(a, b + 1)}
    taken = [each for each in world.collector.links[incarnation].values() if each]
    came = {read_telemetry(body)[0] for kind, body in taken if kind == messages.TELEMETRY}
    for kind, body in taken:
        if kind == messages.SUMMARY:
            came |= {number for a, b in read_summary(body)[0] for number in range(a, b + 1)}
    known = came | reported
    assert known == set(range(1, max(known) + 1)), "no hole"
    assert 3 * (len(known) - 1) >= 2 * closed - 3, "two thirds of an outage are noted at least"


@pytest.mark.slow
def test_a_series_of_keep_newest_has_one_window() -> None:
    world = simulation.World(55, rules=["*half keep newest", "*counter keep thin", "* keep newest"], **LONG)
    world.run(100)
    world.absent = True
    world.run(3600, step_us=1_000_000)
    world.absent = False
    world.run(60)
    ((_, summary),) = _summaries(world)
    counts = {series.name: len(series.windows) for series in summary.series}
    assert counts["sim:half"] == 1
    assert counts["sim:counter"] > 2
    assert series_rules.read_rules(["a keep newest"]) == ([], [("a", 1)])


@pytest.mark.slow
def test_a_clock_that_is_no_longer_believed_begins_another_summary() -> None:
    world = simulation.World(56, **LONG)
    world.run(100)
    world.absent = True
    world.run(5 * 3600, step_us=1_000_000)
    assert [run.clock for run in world.board.thinner.runs] == [0, 1]
    world.absent = False
    world.run(60)
    assert [summary.clock.kind for _, summary in _summaries(world)] == [0, 1]


@pytest.mark.slow
def test_without_heap_for_it_the_oldest_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulation.World(57, **LONG)
    monkeypatch.setattr("gc.mem_free", lambda: 4_000, raising=False)
    world.run(100)
    world.absent = True
    world.run(3600, step_us=1_000_000)
    world.absent = False
    world.run(60)
    world.settle(900)
    came, summarised, lost = _ledger(world)
    assert not summarised
    assert lost
    assert came | lost == set(range(1, len(came) + len(lost) + 1))


@pytest.mark.slow
def test_a_heap_that_ends_while_it_thins_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    world, rng = simulation.World(58, **LONG), random.Random(1)
    world.run(100)
    world.absent = True
    joined = thinning._joined

    def starved(*windows: Any) -> Any:
        if rng.random() < 0.01:
            raise MemoryError
        return joined(*windows)

    monkeypatch.setattr(thinning, "_joined", starved)
    world.run(2 * 3600, step_us=1_000_000)
    assert world.board.counters["out_of_memory"]
    monkeypatch.undo()
    world.absent = False
    world.run(60)
    world.settle(900)
    came, summarised, lost = _ledger(world)
    assert not came & summarised
    assert not summarised & lost
    assert came | summarised | lost == set(range(1, len(came | summarised | lost) + 1))
    count = sum(window.readings for window in _windows(world, "sim:half"))
    assert count == 13 * len(summarised), "readings of a minute"


@pytest.mark.slow
@pytest.mark.parametrize("memory_bytes", [2_048, 0])
def test_what_was_thinned_outlasts_a_deep_sleep(memory_bytes: int) -> None:
    settings = {"interval_us": 2 * MINUTE, "batch_us": 10 * MINUTE, "outbox_bytes": 1_000}
    world = sleep_simulation.World(59, True, memory_bytes, **settings)
    world.run(1_500)
    world.absent = True
    world.run(20 * 3_600)
    assert world.board.thinner.runs
    assert world.board.outbox.size < 1_000 + 3 * 500, "one batch, one SUMMARY, and one LOSS more than there is room for"
    world.absent = False
    world.run(7_200)
    came, summarised, lost = _ledger(world)
    assert len(summarised) > 5
    assert not lost
    assert not came & summarised
    assert came | summarised == set(range(1, len(came) + len(summarised) + 1))
    assert len(world.collector.links) == 1, "one incarnation"
