"""A board that sleeps between its samples: what it keeps, what it says, and what wakes it."""

from __future__ import annotations

from typing import Any

import pytest

from covey_boards.device import series_rules
from covey_boards.shared import messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation, sleep_simulation

MINUTES_US = sleep_simulation.MINUTES_US
HOURLY: dict[str, Any] = {"interval_us": 2 * MINUTES_US, "batch_us": 10 * MINUTES_US}
DAY_WRITES = 576
LIGHT, CLOCK, SMALL_CLOCK, FLASH = (False, 0), (True, 2_048), (True, 1_100), (True, 0)


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


@pytest.mark.slow
@pytest.mark.parametrize("manner", [LIGHT, CLOCK, SMALL_CLOCK, FLASH])
@pytest.mark.parametrize("permille", [0, 100])
def test_each_reading_comes_once_through_sleeps_and_an_outage(manner: tuple[bool, int], permille: int) -> None:
    """The same incarnation all along, on a good line and on a bad one."""
    world = sleep_simulation.simulate(60, *manner, permille=permille)
    power = world.power
    assert (power.deeps > 0) is manner[0]
    assert (power.flash_writes > 0) is (manner in (SMALL_CLOCK, FLASH))
    assert power.flash_writes <= DAY_WRITES * world.now_us // (24 * 60 * MINUTES_US) + 2


def test_a_link_key_lasts_in_the_clocks_memory_and_never_lies_on_flash(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    world = sleep_simulation.World(61, True, **{**HOURLY, "batch_us": 2 * MINUTES_US})
    monkeypatch.setattr(world.power, "write", seen.append)
    world.run(3_600)
    versions = world.collector.versions
    assert firmware_simulation.LINKED in versions[-4:]
    world.power.memory_bytes = 0
    world.run(1_200, lambda: seen)
    tag, key, *_ = world.board._links._used
    assert key
    assert tag not in seen[0]
    assert key not in seen[0]


@pytest.mark.parametrize("rules", [[], ["*/* keep whole"]])
def test_the_line_goes_on_where_it_was_after_a_sleep(rules: list[str]) -> None:
    world = sleep_simulation.World(68, True, **HOURLY)
    series_rules.follow(world.board, rules)
    world.run(1_500)
    line, deeps = world.board.link.boot_id, world.power.deeps
    world.run(3_600)
    assert world.power.deeps >= deeps + 10
    assert world.board.link.boot_id == line
    assert not world.board.counters["errors"]


def test_of_a_state_that_was_kept_once_nothing_comes_twice() -> None:
    """The power goes while it is awake, or asleep: what was kept is gone, and another incarnation begins."""
    for cut_asleep in (True, False):
        world = sleep_simulation.World(62, True, **HOURLY)
        world.run(1_500)
        world.run(600, lambda world=world: not world.board.sleeping.is_quiet)
        kept = world.power.memory
        assert kept == b"", "taken as it woke"
        if cut_asleep:
            world.run(600, lambda world=world, deeps=world.power.deeps: world.power.deeps > deeps)
        world.power.memory = b""
        world.boot()
        world.run(1_500)
        assert len(world.collector.links) == 2
        values = world.collector.values()
        assert len(set(values)) == len(values)


@pytest.mark.parametrize("damaged", [b"x", bytes(200)])
def test_unreadable_sleep_memory_is_forgotten(damaged: bytes) -> None:
    world = sleep_simulation.World(63, True, **HOURLY)
    world.run(900)
    world.power.memory = damaged
    world.boot()
    world.run(1_500)
    assert len(world.collector.links) == 2
    assert not world.board.counters["errors"]


@pytest.mark.parametrize("manner", [LIGHT, CLOCK])
def test_a_pin_wakes_it_and_what_it_measures_then_is_sent_at_once(manner: tuple[bool, int]) -> None:
    world = sleep_simulation.World(64, *manner, **HOURLY)
    world.run(130)
    came = len(world.collector.values())
    world.power.pin_after_us = 3_000_000
    world.run(120, lambda: world.power.pin_after_us is None)
    count = world.sensor.count
    world.run(3)
    assert world.sensor.count == count + 1 or manner == CLOCK
    assert world.collector.values()[came:][-1] == world.sensor.count


def test_a_waking_board_reads_before_it_repeats() -> None:
    """Its gateway has the collector's acknowledgement; without it the board would seal its batches once more."""
    world = sleep_simulation.World(65, True, **HOURLY)
    world.run(2_400)
    sent = len(world.collector.versions)
    world.run(3_600)
    batches = sum(1 for taken in world.collector.links.values() for each in taken.values() if each)
    assert len(world.collector.versions) - sent <= 7
    assert batches >= len(world.collector.versions)


def test_batches_say_that_the_clock_is_right_once_it_has_been_told() -> None:
    from covey_boards.shared import batch, cbor

    world = sleep_simulation.World(66, True, **HOURLY)
    world.run(3_600)
    bodies = [
        body for taken in world.collector.links.values() for kind, body in taken.values() if kind == messages.TELEMETRY
    ]
    assert {cbor.decode(body, 4_096)[1][2] for body in bodies} == {batch.SYNCHRONISED}


def test_without_a_collector_it_stays_awake() -> None:
    world = sleep_simulation.World(67, True, **HOURLY)
    world.absent = True
    world.run(120)
    assert not world.power.deeps
