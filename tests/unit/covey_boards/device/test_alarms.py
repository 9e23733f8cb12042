"""Alarms of a board: the same as an agent's, whole, and ahead of everything else."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.telemetry.batch import Alarm
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.series_rules import SeriesWatch, read_series_rule
from covey.errors import ConfigurationError
from covey_boards.device import alarms, opening, series_rules
from covey_boards.device.outbox import Outbox
from covey_boards.shared import messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from hil.on_board import sleep_simulation

QUICK = {"interval_us": 500_000, "batch_us": 4_000_000}
SECOND = 1_000_000


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


RULES = st.lists(
    st.builds(
        "{} {}{}".format,
        st.sampled_from(["*", "a*", "a/b", "*b", "x"]),
        st.sampled_from(
            ["alarm > 2", "alarm < -1.5 hysteresis 1", "alarm change > 3", "alarm>0.25 hysteresis .5", "alarm change>0"]
        ),
        st.sampled_from(["", " keep thin", " keep newest", " keep whole"]),
    ),
    max_size=4,
)
READINGS = st.lists(
    st.tuples(st.sampled_from(["a/b", "ab", "x", "c"]), st.integers(-20, 20), st.integers(1, 900)), max_size=80
)


def _alarms(rules: list[str]) -> alarms.Alarms:
    return alarms.Alarms(series_rules.read_rules(rules)[0], Outbox(1 << 20, max), {})


@given(RULES, READINGS)
def test_a_board_judges_as_an_agent_does(rules: list[str], readings: list[tuple[str, int, int]]) -> None:
    watch, judge, now = SeriesWatch(rules), _alarms(rules), 0
    for name, quarters, seconds in readings:
        now += seconds * SECOND
        expected = watch.judge(name, "", quarters / 4, now)
        judge.waiting.clear()
        assert judge.take(name, "", 2, quarters * 25, now) is (expected is not None)
        if expected is not None:
            assert judge.waiting[0][0] == expected
    assert judge._counters["alarms_suppressed"] == watch.suppressed


@given(st.one_of(st.text("*ab/ ", max_size=6), st.just("a*b*")), st.text("ab/", max_size=6))
def test_patterns_match_as_an_agents_do(pattern: str, name: str) -> None:
    for each in pattern.split():
        assert alarms.matches(each, name) is read_series_rule(f"{each} keep thin").names(name)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a alarm > 1",
            "a alarm>1",
            "a alarm < -1.5e2 hysteresis 2 keep thin",
            "a keep newest",
            "a keep whole",
            "a alarm change > .5",
        ),
        *(
            "a",
            "",
            "a alarm",
            "a alarm > x",
            "a alarm = 1",
            "a keep",
            "a keep all",
            "a alarm change > -1",
            "a alarm > 1 2",
        ),
        *(
            "a alarm change > 1 hysteresis 1",
            "a alarm > 1 hysteresis -1",
            "a alarm > 1e",
            "a alarm > +-1",
            "a alarm > .",
        ),
        *("a alarm > 1 keep thin keep thin", "a keep thin alarm > 1", f"{'a' * 250} alarm > 1"),
    ],
)
def test_a_rule_is_one_for_a_board_where_it_is_one_for_an_agent(text: str) -> None:
    try:
        limit = read_series_rule(text).alarm
    except ConfigurationError:
        with pytest.raises(ValueError, match="series: what of"):
            series_rules.read_rules([text])
        return
    rules, _ = series_rules.read_rules([text])
    if limit is None:
        assert rules == []
    else:
        assert rules[0][1:] == (limit.condition, round(limit.limit * 1e9), round(limit.hysteresis * 1e9))


def test_what_no_batch_takes_is_no_alarm() -> None:
    judge = _alarms(["* alarm > 1"])
    for scale, value in ((None, float("nan")), (0, 2.5), (0, "2"), (2, 1 << 53), (None, None)):
        assert not judge.take("a", "", scale, value, 0)
    assert not judge.waiting
    assert judge.take("a", "", None, 1.5, 0)


def test_an_alarm_without_room_is_an_ordinary_reading_and_the_next_one_is_raised() -> None:
    judge = _alarms(["* alarm > 1", "never alarm > 1"])
    kinds = 0
    for number in range(8):
        kinds += judge.take(f"{number % 2}", "", 0, 0 if number in (2, 3, 6, 7) else 5, number * SECOND)
    assert [kind for kind, _ in judge.waiting] == [Alarm.RAISED, Alarm.ENDED, Alarm.RAISED, Alarm.ENDED]
    assert kinds == 8
    assert not judge.take("a", "", 0, 5, 9 * SECOND)
    assert judge._counters == {"alarms": 8, "alarms_suppressed": 1}
    judge.waiting.pop(0)
    assert judge.take("a", "", 0, 5, 10 * SECOND)


def test_an_end_without_room_is_marked_later() -> None:
    judge = _alarms(["* alarm > 1"])
    assert judge.take("a", "", 0, 5, 0)
    judge.waiting += [[9, None]] * 3
    assert not judge.take("a", "", 0, 0, SECOND)
    judge.waiting.clear()
    assert judge.take("a", "", 0, 0, 2 * SECOND)
    assert judge.waiting[0][0] == Alarm.ENDED


class _Freezer(simulation.Sensor):
    """Counts as its model does; warm while asked to be."""

    def __init__(self) -> None:
        super().__init__()
        self.celsius = -18

    def read(self) -> list[tuple[Any, ...]]:
        return [*super().read(), ("freezer/a", "Cel", 0, self.celsius)]


def _world(seed: int, **settings: Any) -> simulation.World:
    world = simulation.World(seed, rules=["freezer/* alarm > -15 hysteresis 1"], **QUICK, **settings)
    world.sensor = _Freezer()
    world.boot()
    return world


def _batches(world: simulation.World) -> list[Any]:
    """Return what was taken of all links, in the order of arrival."""
    return [
        read_telemetry(body)
        for taken in world.collector.links.values()
        for kind, body in filter(None, taken.values())
        if kind == messages.TELEMETRY
    ]


def _untaken_bytes(world: simulation.World) -> int:
    return sum(len(each.message) for each in world.board.outbox.entries if each.keep == 2 and not each.times)


def _alarms_of(world: simulation.World) -> list[tuple[Alarm, list[Any]]]:
    return [(batch.alarm, [*batch.readings()]) for _, batch in _batches(world) if batch.alarm is not None]


def test_an_alarm_leaves_at_once_with_nothing_else_in_its_batch() -> None:
    world = _world(31)
    world.run(10)
    world.sensor.celsius = -10
    raised_at = world.now_us
    world.run(4, lambda: _alarms_of(world))
    assert world.now_us - raised_at < 2 * SECOND
    world.sensor.celsius = -15
    world.run(6)
    world.sensor.celsius = -16
    world.run(6)
    world.settle()
    found = _alarms_of(world)
    assert [kind for kind, _ in found] == [Alarm.RAISED, Alarm.ENDED]
    assert [[(each[0], each[3]) for each in readings] for _, readings in found] == [
        [("freezer/a", -10)],
        [("freezer/a", -16)],
    ]
    numbers = sorted(number for number, _ in _batches(world))
    assert numbers == list(range(1, len(numbers) + 1))
    readings = sum(batch.count for _, batch in _batches(world))
    assert readings == 3 * world.sensor.count == world.board.counters["readings"], "each reading is in one batch"


def test_an_alarm_that_goes_again_is_not_urgent() -> None:
    """In an outage of the relay it would use up what its gateway grants."""
    world = _world(37)
    world.run(10)
    world.gateway.away = True
    world.sensor.celsius = -10
    world.run(300, lambda: any(each.times > 1 for each in world.board.outbox.entries if each.keep == 2))
    assert [each.times for each in world.board.outbox.entries if each.keep == 2] == [2]
    assert world.gateway.urgent == 1
    world.gateway.away = False
    world.run(10)
    world.settle(400)
    assert [kind for kind, _ in _alarms_of(world)] == [Alarm.RAISED]


def test_an_alarm_overtakes_a_backlog() -> None:
    world = _world(36, outbox_bytes=20_000)
    world.run(10)
    before = len(_batches(world))
    world.absent = True
    world.run(60)
    world.sensor.celsius = -10
    world.run(10)
    assert not world.board.outbox.thinned
    world.absent = False
    world.run(30)
    world.settle(400)
    after = [batch.alarm for _, batch in _batches(world)][before:]
    assert len(after) > 10
    assert Alarm.RAISED in after[:2], "behind what was under way when the line went"


@pytest.mark.slow
def test_after_an_absence_alarms_leave_first_and_none_was_dropped() -> None:
    world = _world(32, outbox_bytes=2_500)
    world.run(10)
    before = len(_batches(world))
    world.absent = True
    for celsius in (-18, -10, -18, -18, -10):
        world.sensor.celsius = celsius
        world.run(20)
    world.run(60)
    assert world.board.outbox.thinned
    world.absent = False
    world.run(60)
    world.settle(400)
    after = [batch.alarm for _, batch in _batches(world)][before:]
    expected = [Alarm.RAISED, Alarm.ENDED, Alarm.RAISED]
    assert [kind for kind in after if kind is not None] == expected
    first = after.index(Alarm.RAISED)
    assert first <= 1, "what was under way when the line went, then alarms"
    assert after[first : first + 3] == expected
    lost = set(world.collector.summarised(world.board._incarnation))
    came = {number for number, _ in _batches(world)}
    assert not lost & came
    assert lost | came == set(range(1, len(lost) + len(came) + 1)), "every batch came or is thinned"


@pytest.mark.slow
def test_alarms_have_half_of_the_outbox_at_most() -> None:
    world = _world(33, outbox_bytes=1_200)
    world.run(10)
    world.absent = True
    for number in range(40):
        world.sensor.celsius = -10 if number % 2 else -18
        world.run(5)
        assert _untaken_bytes(world) < 600 + 500
    assert world.board.counters["alarms_suppressed"] > 5
    assert not world.board.outbox.drop_oldest() or _untaken_bytes(world)
    world.absent = False
    world.run(60)
    world.settle(400)
    came = [kind for kind, _ in _alarms_of(world)]
    assert len(came) == world.board.counters["alarms"]
    assert came == ([Alarm.RAISED, Alarm.ENDED] * len(came))[: len(came)]


def test_a_restart_raises_what_is_still_in_alarm() -> None:
    world = _world(34)
    world.sensor.celsius = -10
    world.run(10)
    world.boot()
    world.run(10)
    assert [kind for kind, _ in _alarms_of(world)] == [Alarm.RAISED, Alarm.RAISED]


def test_other_rules_forget_alarms_but_not_those_that_wait() -> None:
    world = _world(35)
    world.run(5)
    world.absent = True
    world.sensor.celsius = -10
    judge = world.board._sampling.alarms
    world.run(30, lambda: judge.waiting)
    series_rules.follow(world.board, ["freezer/* alarm > -15 hysteresis 1"])
    assert judge.judged
    series_rules.follow(world.board, [])
    assert not judge.judged
    world.absent = False
    world.run(20)
    assert [kind for kind, _ in _alarms_of(world)] == [Alarm.RAISED]
    with pytest.raises(ValueError, match="what of"):
        series_rules.follow(world.board, ["x"])


def test_a_heap_that_ends_in_an_alarm_raises_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = _alarms(["* alarm > 1"])

    def full(_: int) -> SimpleNamespace:
        raise MemoryError

    monkeypatch.setattr(alarms, "Batch", full)
    with pytest.raises(MemoryError):
        judge.take("a", "", 0, 5, 0)
    monkeypatch.undo()
    assert judge.take("a", "", 0, 5, SECOND)


def test_a_heap_that_stays_full_costs_the_alarms_and_not_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start leaves those rules out, and others count again."""
    rules = ["*counter alarm > 9", "*half keep newest"]
    world = simulation.World(74, rules=rules, **QUICK)
    world.run(3)
    for expected in (True, True, False):
        world.board.out_of_memory()
        assert (world.board._sampling.alarms is not None) is expected
    world.run(10)
    assert "series: no alarms" in world.board.reporting.lasting
    assert not world.board.restart_wanted
    world.settle()
    files = world.files
    monkeypatch.setattr(opening, "wants_prompt", lambda *_fields: False)

    def starts(texts: list[str]) -> tuple[object, list[str]]:
        files.write("covey.json", json.dumps({"series": texts}).encode())
        _, _, settings, wrong = opening.start(files, lambda _mtu: SimpleNamespace(), None)
        return settings["series"], wrong

    assert starts(rules) == (["*half keep newest"], ["series: too little heap for alarms"])
    assert starts(rules[:1]) == (rules[:1], [])


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize(("deep", "memory_bytes"), [(True, 2_048), (True, 0), (False, 0)])
def test_an_alarm_is_raised_once_through_sleeps_and_ends_the_quiet(deep: bool, memory_bytes: int, absent: bool) -> None:
    minutes = sleep_simulation.MINUTES_US
    settings = {"interval_us": 2 * minutes, "batch_us": 40 * minutes, "outbox_bytes": 8_192}
    rules = ["sim:half alarm > 5", "sim:counter alarm change > 1"]
    world = sleep_simulation.World(64, deep, memory_bytes, rules=rules, **settings)
    world.run(20 * 60)
    world.absent = absent
    world.run(130, lambda: world.sensor.count == 11)
    world.run(50)
    assert [kind for kind, _ in _alarms_of(world)] == ([] if absent else [Alarm.RAISED])
    world.absent = False
    world.run(3_600)
    found = _alarms_of(world)
    assert [kind for kind, _ in found] == [Alarm.RAISED]
    assert [(each[0], each[3]) for each in found[0][1]] == [("sim:half", 5.5)]
    assert len(world.collector.links) == 1, "one incarnation"


def test_alarms_that_wait_outlast_a_sleep() -> None:
    minutes = sleep_simulation.MINUTES_US
    rules = ["sim:counter alarm change > 0"]
    settings = {"interval_us": 2 * minutes, "batch_us": 40 * minutes, "outbox_bytes": 700}
    world = sleep_simulation.World(65, True, 2_048, rules=rules, **settings)
    world.run(500)
    world.absent = True
    world.run(3_000)
    assert world.board._sampling.alarms.waiting
    world.absent = False
    world.run(7_200)
    values = [each[3] for _, readings in _alarms_of(world) for each in readings if each[0] == "sim:counter"]
    assert values == sorted(set(values))
    assert len(values) >= world.board.counters["alarms"] - 1
    assert world.board.counters["alarms_suppressed"]
