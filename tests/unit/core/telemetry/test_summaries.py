"""`covey.core.telemetry.summaries`: what remains of readings is exact, however often they are thinned."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest

from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, Kind, Value
from covey.core.telemetry.decoding import read_batch
from covey.core.telemetry.summaries import Summariser, Summary, SummarySeries, SummaryWindow, read_summary, summary_body
from covey.errors import RemoteError
from covey.limits.telemetry import MAXIMUM_SUMMARY_WINDOWS
from tests.vectors import from_json, vectors

_MINUTE, _SECOND = 60_000_000, 1_000_000
_NOW_US = 1_790_000_100_000_000
"""The beginning of five minutes."""

Row = tuple[str, Value]


def _clock(
    kind: ClockKind = ClockKind.SYNCHRONISED, boot: bytes = bytes(8), wall_us: int = _NOW_US, monotonic_us: int = 0
) -> ClockReading:
    return ClockReading(boot, monotonic_us, wall_us, kind)


def _batch(rows: list[tuple[int, str, Value]], clock: ClockReading | None = None) -> Any:
    builder = BatchBuilder()
    for time_us, name, value in rows:
        builder.add(name, "", time_us, value)
    return read_batch(builder.body(clock or _clock()))


def _summary(*batches: Any, window_us: int = _MINUTE) -> Summary:
    summariser = Summariser(window_us)
    for batch in batches:
        summariser.add_batch(batch)
    return summariser.summary()


def _windows(summary: Summary, name: str = "t") -> tuple[SummaryWindow, ...]:
    (found,) = [each for each in summary.series if each.name == name]
    return found.windows


def test_the_example_of_the_module() -> None:
    temperatures = [21.5, 21.7, 21.6, 21.4, 21.5]
    batch = _batch([(place * 20 * _SECOND, "t", value) for place, value in enumerate(temperatures)])
    summary = _summary(batch)
    assert summary.series[0].scale == 1
    assert [window[2:] for window in _windows(summary)] == [(3, 648, 215, 217, 215, 216), (2, 429, 214, 215, 214, 215)]
    coarser = Summariser(5 * _MINUTE)
    coarser.add_summary(summary)
    assert [window[2:] for window in _windows(coarser.summary())] == [(5, 1077, 214, 217, 215, 215)]


def test_thinning_twice_is_thinning_once() -> None:
    chance = random.Random(39)
    batches, at = [], 0
    for number in range(40):
        rows: list[tuple[int, str, Value]] = []
        for _ in range(30):
            at += chance.randrange(1, 9 * _SECOND)
            rows.append((at, "t", round(chance.gauss(20, 5), chance.randrange(4))))
            rows.append((at, "on", chance.random() < 0.5))
            rows.append((at, "bytes", 2**60 + chance.randrange(10**6)))
            rows.append((at, "why", "a text"))
        batches.append(_batch(rows, _clock(wall_us=_NOW_US + at + chance.randrange(50), monotonic_us=at)))
        assert number >= 0
    finer = [_summary(*batches[first : first + 8]) for first in range(0, 40, 8)]
    coarser = Summariser(5 * _MINUTE)
    for each in finer:
        numbers, read = read_summary(summary_body([(1, 8)], each.to_wire()))
        assert (numbers, read) == (((1, 8),), each)
        coarser.add_summary(read)
    assert coarser.summary() == _summary(*batches, window_us=5 * _MINUTE)
    assert coarser.summary().readings == 40 * 120


@pytest.mark.slow
def test_sums_of_decimals_are_exact_at_any_mixture_of_scales() -> None:
    values = [0.1] * 1000 + [2.25, -7.0, 0.000000001]
    summary = _summary(*[_batch([(place, "t", value)]) for place, value in enumerate(values)])
    (series,) = summary.series
    total = sum(Fraction(window.total) for window in series.windows) / 10**series.scale
    assert (series.kind, series.scale, total) == (Kind.DECIMAL, 9, Fraction("95.250000001"))


def test_sums_of_doubles_are_rounded_once() -> None:
    values = [math.pi * 1e16, 1 / 3, -math.pi * 1e16, 1e-9 / 7]
    summary = _summary(*[_batch([(place, "t", value)]) for place, value in enumerate(values)])
    (window,) = _windows(summary)
    assert summary.series[0].kind is Kind.FLOAT
    assert window.total == math.fsum(values) == float(sum(map(Fraction, values)))
    (window,) = _windows(_summary(_batch([(place, "t", value) for place, value in enumerate(values)])))
    assert window.total == math.fsum(values)


def test_a_series_of_decimals_and_doubles_is_one_of_doubles() -> None:
    summary = _summary(_batch([(0, "t", 1.5)]), _batch([(1, "t", 1 / 3)]), _batch([(2, "t", 0.25)]))
    (window,) = _windows(summary)
    assert window[2:] == (3, math.fsum([1.5, 1 / 3, 0.25]), 0.25, 1.5, 1.5, 0.25)


def test_a_sum_that_no_double_holds_is_the_largest_one() -> None:
    largest = 1.7976931348623157e308
    (window,) = _windows(_summary(_batch([(0, "t", largest), (1, "t", largest)])))
    assert window.total == window.maximum == largest


def test_a_counter_too_large_for_decimals_of_a_finer_scale_becomes_a_double() -> None:
    summary = _summary(_batch([(0, "t", 2**60)]), _batch([(1, "t", 0.5)]))
    assert summary.series[0].kind is Kind.FLOAT
    assert _windows(summary)[0].maximum == 2.0**60


def test_of_texts_and_data_the_number_remains() -> None:
    summary = _summary(_batch([(0, "s", "idle"), (5, "s", "busy"), (7, "d", b"\x00")]))
    assert [(each.name, each.kind, each.windows) for each in summary.series] == [
        ("s", Kind.TEXT, (SummaryWindow(0, 5, 2, 0, 0, 0, 0, 0),)),
        ("d", Kind.DATA, (SummaryWindow(7, 7, 1, 0, 0, 0, 0, 0),)),
    ]


def test_names_with_other_units_or_of_other_kinds_stay_apart() -> None:
    builder = BatchBuilder()
    builder.add("t", "Cel", 0, 1.5)
    builder.add("t", "K", 0, 1.5)
    builder.add("t", "K", 0, True)
    summary = _summary(read_batch(builder.body(_clock())))
    assert [(each.unit, each.kind) for each in summary.series] == [
        ("Cel", Kind.DECIMAL),
        ("K", Kind.DECIMAL),
        ("K", Kind.BOOLEAN),
    ]


def test_windows_are_those_of_the_wall_clock_and_times_stay_what_they_were() -> None:
    before, after = _clock(wall_us=_NOW_US + 30 * _SECOND), _clock(wall_us=_NOW_US + 30 * _SECOND + 700)
    summary = _summary(_batch([(0, "t", 1.0), (30 * _SECOND, "t", 2.0)], before), _batch([(0, "t", 3.0)], after))
    offset = summary.clock.wall_us - summary.clock.monotonic_us
    times = [(window.first_us + offset - _NOW_US, window.last_us + offset - _NOW_US) for window in _windows(summary)]
    assert times == [(30 * _SECOND, 30 * _SECOND + 700), (60 * _SECOND, 60 * _SECOND)]


@pytest.mark.parametrize(
    "other", [_clock(boot=b"anotherb"), _clock(ClockKind.UNSYNCHRONISED), _clock(ClockKind.ASSERTED)]
)
def test_a_summary_is_of_one_boot_and_one_kind_of_clock(other: ClockReading) -> None:
    summariser = Summariser(_MINUTE)
    assert summariser.takes(other)
    summariser.add_batch(_batch([(0, "t", 1.0)]))
    assert summariser.takes(_clock(wall_us=_NOW_US + 5))
    assert not summariser.takes(other)


def test_readings_out_of_order_have_the_first_and_last_value_by_time() -> None:
    (window,) = _windows(_summary(_batch([(3, "t", 3.0), (1, "t", 1.0), (2, "t", 2.0)])))
    assert (window.first, window.last, window.first_us, window.last_us) == (1, 3, 1, 3)


def test_a_series_in_one_window() -> None:
    summariser = Summariser(_MINUTE, lambda name: name == "newest")
    summariser.add_batch(_batch([(place * _MINUTE, name, 1.0) for name in ("newest", "t") for place in range(5)]))
    summary = summariser.summary()
    assert (len(_windows(summary, "newest")), len(_windows(summary, "t"))) == (1, 5)


def test_bounds_are_noticed_before_a_summary_is_written() -> None:
    summariser = Summariser(_MINUTE)
    rows = [(place * _MINUTE, "t", 1.0) for place in range(MAXIMUM_SUMMARY_WINDOWS)]
    summariser.add_batch(_batch([*rows]))
    assert summariser.within
    summariser.add_batch(_batch([(MAXIMUM_SUMMARY_WINDOWS * _MINUTE, "t", 1.0)]))
    assert not summariser.within


@pytest.mark.parametrize("vector", vectors("summaries"))
def test_vectors(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            read_summary(body)
        assert caught.value.code == vector["code"]
        return
    numbers, summary = read_summary(body)
    assert [list(span) for span in numbers] == from_json(vector["numbers"])
    assert summary.window_us == vector["window_us"]
    described = [
        [each.name, each.unit, int(each.kind), each.scale, [list(window) for window in each.windows]]
        for each in summary.series
    ]
    assert described == from_json(vector["series"])
    assert read_summary(summary_body(numbers, summary.to_wire())) == (numbers, summary)


@pytest.mark.parametrize("place", range(6))
def test_a_window_that_contradicts_itself_is_refused(place: int) -> None:
    values: list[Any] = [3, 648, 215, 217, 215, 216]
    values[place] = [0, 10**6, 218, 214, 300, 300][place]
    wrong = Summary(_clock(), _MINUTE, (SummarySeries("t", "", Kind.DECIMAL, 1, (SummaryWindow(0, 5, *values),)),))
    with pytest.raises(RemoteError):
        read_summary(summary_body([(1, 1)], wrong.to_wire()))
