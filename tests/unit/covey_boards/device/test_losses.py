"""What a power cut, or a restart, takes along of what no gateway has: the next life admits it."""

from __future__ import annotations

import pytest

from covey_boards.shared import cbor, messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation

MINUTES = {"interval_us": 1_000_000, "batch_us": 10_000_000}


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


def _numbers(world: simulation.World) -> tuple[set[int], set[int]]:
    """Return the numbers of batches that came of the first life, and those that the next ones admit."""
    first, *_ = world.collector.links
    came = {
        cbor.decode(each[1], 4096)[0]
        for each in world.collector.links[first].values()
        if each and each[0] == messages.TELEMETRY
    }
    lost = {
        number
        for incarnation, ranges in world.collector.lost_earlier
        for low, high in ranges
        for number in range(low, high + 1)
        if incarnation == first
    }
    return came, lost


def _without_a_gateway(world: simulation.World, seconds: float) -> None:
    world.absent = True
    world.run(seconds)
    world.absent = False


@pytest.mark.slow
def test_losses_of_a_power_cut_are_reported() -> None:
    world = simulation.World(40, **MINUTES)
    world.run(60)
    writes = world.files.writes
    _without_a_gateway(world, 600)
    closed = world.board.outbox.next_number - 1
    assert 0 < world.files.writes - writes < 12
    world.boot()
    world.run(60)
    came, lost = _numbers(world)
    assert not came & lost
    assert came | lost == set(range(1, len(came | lost) + 1))
    assert 3 * (closed - len(came | lost)) <= closed - len(came), "two thirds of it at least"
    assert world.files.held[messages.LOSSES_FILE] == b""
    world.boot()
    world.run(30)
    assert len(world.collector.lost_earlier) == 1, "once"


def test_an_outage_is_on_flash_as_soon_as_the_line_is_silent() -> None:
    simulation.outage()


@pytest.mark.slow
def test_in_quiet_times_nothing_is_written() -> None:
    world = simulation.World(41, **MINUTES)
    world.run(20)
    writes = world.files.writes
    world.run(600)
    assert world.files.writes == writes


@pytest.mark.slow
def test_an_outage_that_ends_takes_its_note_along() -> None:
    world = simulation.World(42, **MINUTES)
    world.run(20)
    _without_a_gateway(world, 100)
    assert world.files.held[messages.LOSSES_FILE]
    world.run(60)
    assert world.files.held[messages.LOSSES_FILE] == b""
    world.boot()
    world.run(60)
    assert world.collector.lost_earlier == []


@pytest.mark.slow
def test_a_restart_in_an_outage_admits_everything() -> None:
    world = simulation.World(43, **MINUTES)
    world.run(20)
    world.absent = True
    world.run(145)
    world.board.restart(world.now_us - world.booted_us)
    world.run(20, lambda: world.board.restart_wanted)
    closed = world.board.outbox.next_number - 1
    world.boot()
    world.absent = False
    world.run(60)
    came, lost = _numbers(world)
    assert came | lost == set(range(1, closed + 1))
    assert not came & lost


@pytest.mark.slow
def test_several_lives_without_a_gateway_are_all_admitted_even_when_the_power_goes_in_between() -> None:
    world = simulation.World(44, **MINUTES)
    world.run(60)
    for _ in range(3):
        _without_a_gateway(world, 100)
        world.boot()
    world.collector.acknowledgement, acknowledge = (lambda _incarnation: None), world.collector.acknowledgement
    world.run(20)
    world.boot()
    world.collector.acknowledgement = acknowledge
    world.run(90)
    assert len({incarnation for incarnation, _ in world.collector.lost_earlier}) == 3
    assert world.files.held[messages.LOSSES_FILE] == b""


@pytest.mark.slow
def test_a_full_or_damaged_flash_stops_no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulation.World(45, **MINUTES)
    world.run(20)

    def full(_name: str, _data: bytes) -> None:
        raise OSError(28)

    monkeypatch.setattr(world.files, "write", full)
    _without_a_gateway(world, 120)
    assert not world.board.restart_wanted
    world.run(60)
    world.settle()
    assert world.collector.values() == list(range(1, world.sensor.count + 1))
    assert world.gateway.troubles == ["losses.cbor: OSError (28)"]
    for damaged in (b"\xff", cbor.encode([1, [[b"short", 1, 1, 1, 1]]]), cbor.encode([2, []])):
        world.files.held[messages.LOSSES_FILE] = damaged
        world.boot()
        world.run(20)
        assert world.collector.lost_earlier == []
