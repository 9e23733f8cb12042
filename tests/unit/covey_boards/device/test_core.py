"""The firmware's core, on this machine: lives through bad lines, restarts, absences and hostile bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from covey.core.ids import Incarnation
from covey_boards.device import core, identity
from covey_boards.shared import cbor, messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation

QUICK = {"interval_us": 500_000, "batch_us": 4_000_000}


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


@pytest.mark.parametrize("seed", range(1, 25))
def test_lives_on_damaged_lines_lose_and_double_nothing(seed: int) -> None:
    simulation.simulate(seed, (0, 10, 100, 250)[seed % 4], seconds=30, restarts=seed % 3)


def _backlog(seed: int, **settings: Any) -> simulation.World:
    """Return a world whose gateway comes back to a board that has a dozen batches."""
    world = simulation.World(seed, **QUICK, **settings)
    world.run(20)
    world.absent = True
    world.run(60)
    world.absent = False
    return world


@pytest.mark.slow
def test_a_backlog_goes_ahead_of_acknowledgements_as_far_as_there_is_room() -> None:
    most = {}
    for window_bytes in (0, 1_500, 8_000):
        world = _backlog(2, window_bytes=window_bytes)
        under_way = set()
        world.run(30, lambda world=world, under_way=under_way: under_way.add(len(world.board._carries)))
        most[window_bytes] = max(under_way)
        assert world.board.link.queued_bytes() <= max(window_bytes, 600)
        world.settle()
        assert world.collector.values() == list(range(1, world.sensor.count + 1))
    assert most[0] == 1 < most[1_500] < most[8_000]


def test_messages_to_a_restarted_gateway_go_again_in_order() -> None:
    world = _backlog(3, window_bytes=8_000)
    world.run(30, lambda: len(world.board._carries) > 3)
    assert len(world.board._carries) > 3
    world.gateway = simulation.Gateway(world.rng, world.collector)
    world.run(30)
    assert not world.board._carries
    world.settle()
    assert world.collector.values() == list(range(1, world.sensor.count + 1))


def test_repeated_messages_go_one_at_a_time() -> None:
    """One message for each retry time (section 18), however many the line would take."""
    world = simulation.World(4, **QUICK, window_bytes=8_000)
    world.run(5)
    world.gateway.away = True
    world.run(50)
    taken = [entry.times for entry in world.board.outbox.entries]
    assert taken.count(1) > 8
    assert sum(taken) - len(taken) <= 2, "repeated: one in thirty seconds"


class _Slow(simulation.Gateway):
    """Commits five times a second."""

    def turn(self, now_us: int) -> None:
        if now_us % 200_000 == 0:
            super().turn(now_us)


@pytest.mark.slow
def test_with_a_window_batches_go_while_others_wait_for_the_gateways_commit() -> None:
    sent = {}
    for window_bytes in (0, 8_000):
        world = simulation.World(5, interval_us=20_000, batch_us=40_000, window_bytes=window_bytes)
        world.gateway = _Slow(world.rng, world.collector)
        world.run(20)
        sent[window_bytes] = world.board.link.statistics.messages_sent
        world.settle()
        assert world.collector.values() == list(range(1, world.sensor.count + 1))
    assert sent[8_000] > 2.5 * sent[0]


def test_the_identity_is_drawn_once_and_stays() -> None:
    world = simulation.World(3, **QUICK)
    public = world.board.identity.signing_public
    stored = world.files.held[identity.IDENTITY_FILE]
    world.boot()
    assert world.board.identity.signing_public == public
    assert world.files.held[identity.IDENTITY_FILE] == stored
    world.files.write(identity.IDENTITY_FILE, stored[:-1])
    world.files.write(messages.COLLECTOR_FILE, b"\x01")
    world.boot()
    assert world.board.identity.signing_public != public
    assert world.files.held[messages.COLLECTOR_FILE] == b"", "a new device belongs to nobody"


def test_a_constant_random_source_draws_no_identity() -> None:
    nacl.set_randombytes(lambda count: b"\x2a" * count)
    with pytest.raises(nacl.CryptoError):
        identity.draw_secret()


def test_nothing_is_sampled_before_somebody_is_named_and_nobody_else_is_taken() -> None:
    world = simulation.World(4, **QUICK)
    world.gateway.deaf = True
    world.run(0.01)
    assert world.sensor.count == 0
    world.run(5)
    assert world.sensor.count > 0
    held = dict(world.files.held)
    world.gateway.link.send(messages.to_line(messages.ENROL, bytes(32), b"\x01" * 32, b"\x02" * 32))
    world.run(5)
    assert world.files.held == held


def test_time_is_the_gateways_word_for_an_hour() -> None:
    world = simulation.World(5, **QUICK)
    world.run(20)
    world.now_us += core._SYNCHRONISED_US  # the gateway says no more
    world.run(20)
    bodies = [body for taken in world.collector.links.values() for _, body in taken.values()]
    clocks = [cbor.decode(body, 4096)[1][2] for body in bodies]
    assert clocks[0] == 0
    assert clocks[-1] == 1
    batch = cbor.decode(bodies[0], 4096)[1]
    assert abs(batch[4] - simulation.WALL_US - batch[3]) < 1_000_000


def test_a_long_absence_of_the_gateway_ends_in_a_record_of_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.mem_free", lambda: 4_000, raising=False)  # or batches would be thinned
    world = simulation.World(6, outbox_bytes=1_500, interval_us=500_000, batch_us=4_000_000)
    world.run(10)
    world.absent = True
    world.run(60)
    world.absent = False
    world.run(30)
    world.settle(400)
    assert world.board.outbox.dropped > 3
    [taken] = world.collector.links.values()
    assert sorted(taken) == list(range(1, len(taken) + 1)), "every sequence is accounted for"
    lost = {number for first, last in world.collector.lost for number in range(first, last + 1)}
    assert len(lost) == world.board.outbox.dropped
    came = [cbor.decode(entry[1], 4096)[0] for entry in taken.values() if entry and entry[0] == messages.TELEMETRY]
    assert sorted([*came, *lost]) == list(range(1, len(came) + len(lost) + 1)), "every batch came or is told"


@pytest.mark.slow
def test_a_long_absence_of_the_relay_is_the_gateways_to_wait_out() -> None:
    world = simulation.World(7, outbox_bytes=1_500, **QUICK)
    world.run(5)
    world.gateway.away = True
    world.run(120)
    assert world.board.outbox.dropped > 3
    world.gateway.away = False
    world.settle()
    assert world.collector.values() == list(range(1, world.sensor.count + 1))


def test_a_collector_that_lost_its_vaults_state_goes_on() -> None:
    world = simulation.World(8, **QUICK)
    world.run(15)
    had = world.collector.values()
    assert had
    world.collector.links.clear()
    world.run(15)
    world.settle()
    assert world.collector.resumed
    assert world.collector.values() == list(range(had[-1] + 1, world.sensor.count + 1))


def test_an_acknowledgement_of_somebody_else_frees_nothing() -> None:
    world = simulation.World(9, **QUICK)
    world.run(1)
    real = world.collector.acknowledgement
    world.collector.identity, keep = identity.Identity(b"\x55" * 32, b"\x56" * 32), world.collector.identity
    forger = world.collector.identity

    def forged(incarnation: Incarnation) -> bytes:
        world.collector.identity = forger
        try:
            return bytes(real(incarnation))
        finally:
            world.collector.identity = keep

    world.collector.identity = keep
    world.collector.acknowledgement = forged
    world.run(20)
    assert len(world.board.outbox.entries) >= 3
    assert world.board.counters["refused"] >= 3
    assert world.board.counters["acknowledgements"] == 0


def test_a_restart_is_acknowledged_first() -> None:
    world = simulation.World(10, **QUICK)
    world.run(2)
    sent = world.gateway.link.statistics.messages_sent
    world.gateway.link.send(messages.to_line(messages.RESTART))
    world.run(2, lambda: world.board.restart_wanted)
    world.run(0.01)
    assert world.gateway.link.statistics.messages_sent > sent


def test_a_planned_restart_takes_nothing_that_was_measured_along() -> None:
    world = simulation.World(31, batch_us=60_000_000, interval_us=500_000)
    world.run(20)
    assert world.collector.values() == [], "still in the batch"
    world.gateway.link.send(messages.to_line(messages.RESTART))
    world.run(30, lambda: world.board.restart_wanted)
    measured = world.sensor.count
    world.run(1)
    world.boot()
    world.run(2)
    assert world.collector.values()[:measured] == list(range(1, measured + 1))


def test_a_gateway_that_takes_nothing_keeps_no_board_from_its_restart() -> None:
    world = simulation.World(32, **QUICK)
    world.run(5)
    world.gateway.link.send(messages.to_line(messages.RESTART))
    world.run(0.1)
    world.absent = True
    world.run(10, lambda: world.board.restart_wanted)
    assert world.board.restart_wanted


def test_a_restart_that_waits_puts_off_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulation.World(37, **QUICK)
    world.run(6)

    def starved(_now_us: int) -> None:
        raise MemoryError

    monkeypatch.setattr(world.board, "_next_job", lambda _now_us: starved)
    world.absent = True
    world.board._stumbles = 9
    world.board.restart(world.now_us)
    world.run(0.1, lambda: world.board.restart_wanted)
    assert world.board.restart_wanted, "the heap has ended for the tenth time"


def test_new_settings_hold_at_once_and_cost_no_reading() -> None:
    world = simulation.World(33, interval_us=10_000_000, batch_us=60_000_000)
    world.run(25)
    world.board._settings.interval_us, world.board._settings.batch_us = 500_000, 2_000_000
    world.board._sampling.sample_now()
    world.run(10)
    world.settle()
    assert world.sensor.count > 15
    assert world.collector.values() == list(range(1, world.sensor.count + 1))
    assert len(world.collector.links) == 1, "the board never restarted"


def test_a_full_flash_stops_nothing_but_what_needs_it_(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulation.World(34, **QUICK)
    real = world.files.write

    def full(_name: str, _data: bytes) -> None:
        raise OSError(28)

    monkeypatch.setattr(world.files, "write", full)
    world.run(3)
    assert world.board.counters["errors"] == 1
    world.run(9)
    assert world.gateway.troubles == ["firmware: OSError (28)"]
    assert world.sensor.count == 0, "nobody is named"
    monkeypatch.setattr(world.files, "write", real)
    keys = world.collector.identity
    world.gateway.link.send(messages.to_line(messages.ENROL, simulation.GROUP, keys.signing_public, keys.noise_public))
    world.run(10)
    assert world.collector.values()


def test_an_error_in_each_turn_restarts_the_board_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulation.World(35, **QUICK)
    world.run(5)

    def broken(_now_us: int) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(world.board, "_sample", broken)
    world.run(60, lambda: world.board.restart_wanted)
    assert world.board.restart_wanted
    assert world.board.counters["errors"] >= 10
    assert world.board.restart_wanted == "firmware: ValueError (odd)"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_hostile_bytes_and_messages_leave_the_board_in_step(seed: int) -> None:
    rng = random.Random(seed)
    world = simulation.World(20 + seed, **QUICK)
    world.run(3)
    for _ in range(40):
        world.board.feed(rng.randbytes(rng.randrange(600)), world.now_us)
        content = rng.randbytes(rng.randrange(1, 300))
        hostile = [content, messages.to_line(messages.DELIVER, content), cbor.encode([rng.randrange(32), content])]
        world.gateway.link.send(rng.choice(hostile))
        world.run(0.5)
    world.run(5)
    world.settle()
    assert world.collector.values() == list(range(1, world.sensor.count + 1))


@pytest.mark.slow
def test_a_trouble_is_reported_until_it_ends_and_a_permanent_one_always() -> None:
    class Loose:
        connected = True

        def read(self) -> list[object]:
            if not self.connected:
                raise OSError(19)
            return []

    loose = Loose()
    world = simulation.World(12, report_us=30_000_000, **QUICK)
    world.board._sampling.sensors = [loose, world.sensor]
    world.board.reporting.lasting = "covey.json: what of mtv?"
    world.run(50)
    loose.connected = False
    world.run(60)
    loose.connected = True
    world.run(90)
    lasting, passing = "covey.json: what of mtv?", "Loose: OSError (19)"
    assert world.gateway.troubles == [lasting, passing, lasting]
    world.gateway.link = simulation.Gateway(world.rng, world.collector).link
    world.run(5)
    assert world.gateway.troubles == [lasting, passing, lasting, lasting], "another session"
    assert not world.board.restart_wanted


def test_troubles_that_alternate_fill_no_line() -> None:
    world = simulation.World(13, **QUICK)
    world.run(5)
    for number in range(1_000):
        world.board.reporting.trouble = f"trouble {number}"
        world.run(0.1)
    assert 5 < len(world.gateway.troubles) < 15


def test_a_sensor_that_fails_stops_no_other() -> None:
    class Broken:
        def read(self) -> list[object]:
            raise OSError(5)

    class Nonsense:
        def read(self) -> list[object]:
            return [("x", "", 0, float("nan")), ("", "", 0, 1), ("y", "", 99, 1), (b"z", "", 0, 1), ("x", "", 0, 2.5)]

    world = simulation.World(11, **QUICK)
    world.board._sampling.sensors = [Broken(), Nonsense(), world.sensor]
    world.run(10)
    world.settle()
    assert world.collector.values() == list(range(1, world.sensor.count + 1))
    assert world.board.counters["sensor_errors"] == 6 * world.sensor.count


def _slowly(world: simulation.World, job: Callable[[int], None]) -> Callable[[int], None]:
    def done(now_us: int) -> None:
        job(now_us)
        world.now_us += 300_000

    return done


def test_a_board_that_cannot_keep_up_samples_less_and_drops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every computation takes 300 ms, and a batch would be due each time."""
    world = simulation.World(80, interval_us=50_000, batch_us=100_000, outbox_bytes=1_600)
    for name in ("_close_batch", "_write_loss", "_send_reply", "_send_due", "_open"):
        monkeypatch.setattr(world.board, name, _slowly(world, getattr(world.board, name)))
    writing = world.board._links.writing
    monkeypatch.setattr(world.board._links, "writing", lambda board: _slowly(world, writing(board)))
    world.run(60)
    world.settle()
    assert world.board.outbox.dropped == 0
    assert world.sensor.count > 100
    assert world.collector.values() == list(range(1, world.sensor.count + 1))


def test_a_gateway_that_takes_nothing_stops_no_sampling() -> None:
    world = simulation.World(81, interval_us=100_000, batch_us=300_000, outbox_bytes=1_600)
    world.run(5)
    take, world.gateway.link.acknowledge = world.gateway.link.acknowledge, lambda _token: None
    counted = world.sensor.count
    world.run(60)
    assert world.sensor.count > counted + 5
    world.gateway.link.acknowledge = take


def test_derived_keys_are_computed_once() -> None:
    files = simulation.Files()
    first = identity.load_identity(files)
    assert identity.load_identity(files).proof == first.proof
    found, computed = files.writes, nacl.crypto_scalarmult_base
    nacl.crypto_scalarmult_base = None  # not asked again
    try:
        second = identity.load_identity(files)
    finally:
        nacl.crypto_scalarmult_base = computed
    assert vars(second) == vars(first)
    assert files.writes == found
    other = simulation.Files()
    other_identity = identity.load_identity(other)
    files.held[identity.IDENTITY_FILE] = other.held[identity.IDENTITY_FILE]
    assert vars(identity.load_identity(files)) == vars(other_identity)
    for damaged in (b"", b"\xff", files.held["identity.pub"][:-1]):
        files.held["identity.pub"] = damaged
        assert vars(identity.load_identity(files)) == vars(other_identity)
