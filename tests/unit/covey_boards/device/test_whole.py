"""Series of `keep whole` on a board: never thinned, refused where there is no room, and a ledger that balances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.telemetry.batch import Batch
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.summaries import read_summary
from covey_boards.device import alarms, opening, series_rules
from covey_boards.device.outbox import Outbox, with_range
from covey_boards.device.whole import Whole
from covey_boards.shared import messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from hil.on_board import sleep_simulation

SECOND, MINUTE = 1_000_000, 60_000_000
RULES = ["*counter keep whole"]
LONG: dict[str, Any] = {"interval_us": 5 * SECOND, "batch_us": 60 * SECOND, "outbox_bytes": 4_096, "batch_bytes": 640}


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


def _bodies(world: simulation.World, kind: int) -> list[bytes]:
    taken = [each for taken in world.collector.links.values() for each in taken.values() if each]
    return [body for of, body in taken if of == kind]


def _batches(world: simulation.World) -> dict[int, Batch]:
    return dict(read_telemetry(body) for body in _bodies(world, messages.TELEMETRY))


def _values(world: simulation.World, name: str) -> list[int]:
    readings = [each for batch in _batches(world).values() for each in batch.readings() if each[0] == name]
    return sorted(int(each[3] * (10 if name == "sim:half" else 1)) for each in readings)


def _windows(world: simulation.World, name: str) -> list[Any]:
    series = [each for body in _bodies(world, messages.SUMMARY) for each in read_summary(body)[1].series]
    return [window for each in series if each.name == name for window in each.windows]


def _numbers(spans: Any) -> list[int]:
    return [number for first, last in spans for number in range(first, last + 1)]


def _ledger(world: simulation.World) -> tuple[set[int], set[int], set[int]]:
    """Return which batches came, are in a summary, and are reported as lost: no two of them have one in common."""
    summarised = [number for body in _bodies(world, messages.SUMMARY) for number in _numbers(read_summary(body)[0])]
    came, lost = set(_batches(world)), set(_numbers(world.collector.lost))
    assert len(summarised) == len(set(summarised))
    assert not came & set(summarised)
    assert not lost & (came | set(summarised))
    return came, set(summarised), lost


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "minutes"), [(81, 25), (82, 35)])
def test_a_series_is_whole_after_an_outage_in_which_others_are_thinned(seed: int, minutes: int) -> None:
    world = simulation.World(seed, rules=RULES, **LONG)
    world.run(100)
    world.absent = True
    world.run(60 * minutes, step_us=1_000_000)
    assert world.board.outbox.thinned > 10
    world.absent = False
    world.run(60)
    world.settle(900)
    came, summarised, lost = _ledger(world)
    assert not lost
    assert came | summarised == set(range(1, len(came | summarised) + 1))
    assert _values(world, "sim:counter") == list(range(1, world.sensor.count + 1)), "each reading"
    assert not _windows(world, "sim:counter")
    assert _windows(world, "sim:half")
    assert not world.board.counters["refused_readings"]
    assert world.board.counters["readings"] == 2 * world.sensor.count


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "hours"), [(83, 5), (84, 30)])
def test_without_room_the_oldest_stay_and_refused_readings_are_reported(seed: int, hours: int) -> None:
    world = simulation.World(seed, rules=RULES, **LONG)
    world.run(100)
    world.absent = True
    world.run(hours * 3_600, step_us=1_000_000)
    held = [len(each.message) for each in world.board.outbox.entries if each.keep == 1]
    assert LONG["outbox_bytes"] // 2 <= sum(held) < LONG["outbox_bytes"] // 2 + max(held), "half, and one more"
    assert world.board.counters["refused_readings"] > 100
    world.absent = False
    world.run(60)
    refused = world.board.counters["refused_readings"]
    assert "series: no room for all that is kept whole" in world.gateway.troubles
    world.settle(900)
    came, summarised, lost = _ledger(world)
    assert len(lost) == 1, "one batch, however much was refused"
    assert came | summarised | lost == set(range(1, len(came | summarised | lost) + 1)), "whole + thinned + lost"
    values = _values(world, "sim:counter")
    assert len(values) + refused == world.sensor.count, "each reading came, or is counted"
    first = values.index(next(each for each in values if each + 1 not in values))
    assert values[: first + 1] == list(range(1, first + 2)), "the oldest"
    assert first > 100
    assert not _windows(world, "sim:counter")
    windows = _windows(world, "sim:half")
    count = len(_values(world, "sim:half")) + sum(each.readings for each in windows)
    assert count == world.sensor.count, "the other series is thinned meanwhile, and lacks nothing"


@pytest.mark.slow
def test_a_second_outage_is_another_loss() -> None:
    world = simulation.World(85, rules=RULES, **LONG)
    world.run(100)
    for _ in range(2):
        world.absent = True
        world.run(4 * 3_600, step_us=1_000_000)
        world.absent = False
        world.run(120)
    world.settle(900)
    came, summarised, lost = _ledger(world)
    assert len(lost) == 2
    assert came | summarised | lost == set(range(1, len(came | summarised | lost) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("cut_after", [0.0, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("hours", [1, 4])
def test_a_power_cut_tells_what_was_kept_as_lost(cut_after: float, hours: int) -> None:
    """In the outage, or while it is on its way: each batch came, is in a summary, or is reported."""
    world = simulation.World(86, rules=RULES, **LONG)
    world.run(100)
    (incarnation,) = world.collector.links
    world.absent = True
    world.run(hours * 3_600, step_us=1_000_000)
    closed = world.board.outbox.next_number - 1
    if cut_after:
        world.absent = False
        world.run(cut_after)
    world.boot()
    world.absent = False
    world.run(90)
    world.settle(900)
    known = set(_numbers(world.collector.lost))
    for of, spans in world.collector.lost_earlier:
        known |= set(_numbers(spans)) if of == incarnation else set()
    for kind, body in filter(None, world.collector.links[incarnation].values()):
        if kind == messages.TELEMETRY:
            known.add(read_telemetry(body)[0])
        if kind == messages.SUMMARY:
            known |= set(_numbers(read_summary(body)[0]))
    assert known == set(range(1, max(known) + 1)), "no hole"
    assert 3 * (len(known) - 1) >= 2 * closed - 3, "two thirds of an outage are noted at least"


@pytest.mark.slow
@pytest.mark.parametrize("memory_bytes", [4_096, 0])
def test_what_is_kept_whole_outlasts_a_deep_sleep(memory_bytes: int) -> None:
    settings = {"interval_us": 2 * MINUTE, "batch_us": 10 * MINUTE, "outbox_bytes": 2_000, "batch_bytes": 320}
    world = sleep_simulation.World(87, True, memory_bytes, rules=RULES, **settings)
    world.run(1_500)
    world.absent = True
    world.run(20 * 3_600)
    assert world.board.counters["refused_readings"]
    world.absent = False
    world.run(7_200)
    refused = world.board.counters["refused_readings"]
    came, summarised, lost = _ledger(world)
    assert 1 <= len(lost) <= 2, "a record may have been written before the board knew that nobody was there"
    assert came | summarised | lost == set(range(1, len(came | summarised | lost) + 1))
    assert len(world.collector.links) == 1, "one incarnation"
    values = _values(world, "sim:counter")
    assert 0 <= world.sensor.count - len(values) - refused <= 10, "what is not sent yet"
    assert not _windows(world, "sim:counter")


@pytest.mark.slow
def test_an_ordered_restart_without_a_gateway_tells_what_had_no_room() -> None:
    world = simulation.World(88, rules=RULES, **LONG)
    world.run(100)
    (incarnation,) = world.collector.links
    world.absent = True
    world.run(4 * 3_600, step_us=1_000_000)
    world.board.restart(world.now_us)
    world.run(10, lambda: world.board.restart_wanted)
    assert world.board.restart_wanted
    last = world.board.outbox.next_number - 1
    world.boot()
    world.absent = False
    world.run(90)
    world.settle(900)
    reported = [number for of, spans in world.collector.lost_earlier if of == incarnation for number in _numbers(spans)]
    came = {
        read_telemetry(body)[0] for kind, body in filter(None, world.collector.links[incarnation].values()) if kind == 9
    }
    assert came | set(reported) == set(range(1, last + 1))


@pytest.mark.slow
def test_other_rules_free_what_is_kept_and_lose_nothing() -> None:
    world = simulation.World(89, rules=RULES, **LONG)
    world.run(130)
    series_rules.follow(world.board, ["*half keep whole"])
    world.run(200)
    series_rules.follow(world.board, [])
    world.run(70)
    world.settle(900)
    assert _values(world, "sim:counter") == list(range(1, world.sensor.count + 1))
    assert _values(world, "sim:half") == [5 * each for each in range(1, world.sensor.count + 1)]


@pytest.mark.slow
def test_a_heap_that_ends_while_a_batch_is_closed_loses_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulation.World(90, rules=RULES, **LONG)
    world.run(100)
    count = 0
    add = Outbox.add

    def starved(self: Outbox, *fields: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count % 3:
            raise MemoryError
        return add(self, *fields, **named)

    monkeypatch.setattr(Outbox, "add", starved)
    world.run(400)
    monkeypatch.undo()
    assert world.board.counters["out_of_memory"]
    world.settle(900)
    assert _values(world, "sim:counter") == list(range(1, world.sensor.count + 1))


def test_what_is_kept_stays_until_a_gateway_has_it() -> None:
    held = Outbox(600, lambda low, _high: low, lambda _message, _seq: True)
    for _ in range(5):
        held.add(bytes(200), keep=1)
    held.add(bytes(200))
    held.add(bytes(200), keep=2)
    assert (held.thinned, held.dropped) == (1, 0), "the ordinary one"
    assert [each.link_seq for each in held.entries] == [1, 2, 3, 4, 5, 7]
    for entry in held.entries:
        held.taken(entry, 0)
    held.add(bytes(200))
    assert [each.link_seq for each in held.entries] == [5, 7, 8], "alarms last"
    assert (held.thinned, held.dropped) == (1, 4), "which its gateway has"


DEEDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["ordinary", "whole", "alarm"]), st.integers(20, 200)),
        st.tuples(st.sampled_from(["taken", "acknowledged"]), st.integers(0, 40)),
        st.tuples(st.sampled_from(["refused", "reported", "emptied"]), st.just(0)),
    ),
    max_size=120,
)


@given(DEEDS, st.booleans())
def test_each_number_is_held_thinned_told_or_acknowledged(deeds: list[tuple[str, int]], thins: bool) -> None:
    """Whatever the order; and what no gateway has of alarms and of what is kept whole never goes."""
    held = Outbox(600, lambda low, _high: low, lambda _message, _seq: thins)
    settings = SimpleNamespace(batch_bytes=320)
    refusing = Whole([], SimpleNamespace(outbox=held, counters={}, _settings=settings))
    whole: set[int] = set()
    acknowledged: list[tuple[int, int]] = []
    reported: list[tuple[int, int]] = []
    for deed, size in deeds:
        if deed in ("ordinary", "whole", "alarm"):
            entry = held.add(bytes(size), keep=("ordinary", "whole", "alarm").index(deed))
            whole |= {entry.link_seq} if deed != "ordinary" else set()
        elif deed == "taken":
            for entry in held.entries[:size]:
                held.taken(entry, 0)
        elif deed == "acknowledged":
            for entry in [each for each in held.entries if each.times][:size]:
                acknowledged = with_range(acknowledged, entry.link_seq, entry.link_seq)
            upto = acknowledged[0][1] if acknowledged and acknowledged[0][0] == 1 else 0
            held.receive_acknowledgement(upto, [each for each in acknowledged if each[0] > upto + 1], 0)
        elif deed == "refused":
            before = held.next_number
            assert refusing.refuse() is (held.next_number == before + 1)
        elif deed == "reported" and (lost := held.loss_to_write()):
            record = held.add(b"", False, lost)
            reported += lost
            held.taken(record, 0)
        elif deed == "emptied":
            held.drop_oldest()
        seqs = {each.link_seq for each in held.entries}
        gone = set(_numbers(held._thinned + held._lost + held._entrusted + reported + acknowledged))
        assert seqs | gone | set(held._records) == set(range(1, held.next_seq))
        assert not seqs & gone - set(_numbers(acknowledged))
        unsafe = whole - seqs - set(_numbers(acknowledged)) - set(_numbers(held._entrusted))
        assert not unsafe & set(_numbers(held._thinned + held._lost + reported))


@given(
    st.lists(st.tuples(st.sampled_from(["*", "a*", "*b", "a/b"]), st.integers(0, 2)), max_size=3),
    st.sampled_from(["a/b", "ab", "c"]),
)
def test_the_first_rule_that_names_a_series_says_what_is_kept(keeps: list[tuple[str, int]], name: str) -> None:
    found = [keep for pattern, keep in keeps if alarms.matches(pattern, name)]
    settings = SimpleNamespace(batch_bytes=320)
    assert Whole(keeps, SimpleNamespace(counters={}, _settings=settings)).names(name) is (found[:1] == [2])


def test_rules_without_their_alarms_keep_what_they_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start leaves alarms out that have filled the heap before."""
    files, rules = simulation.Files(), ["a alarm > 1 keep whole", "b alarm > 2", "c keep newest"]
    monkeypatch.setattr(opening, "wants_prompt", lambda *_fields: False)
    files.write("covey.json", b'{"series": ["a alarm > 1 keep whole", "b alarm > 2", "c keep newest"]}')
    files.write("ignored", str(opening.crc32(str(rules).encode())).encode())
    _, _, settings, _ = opening.start(files, lambda _mtu: object(), None)
    assert settings["series"] == ["a keep whole", "c keep newest"]
