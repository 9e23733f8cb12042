"""A board and a gateway that both come to run late, for seconds on end: what is lost is told, across restarts, too."""

from __future__ import annotations

import random

import pytest

from covey_boards.device import core
from covey_boards.shared import cbor, messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation

STARVED_US = 150_000_000
PAUSES_US = (
    (5_000, 5_000),
    (300_000, 5_000),
    (5_000, 500_000),
    (1_500_000, 1_500_000),
    (5_000, 4_000_000),
    (200_000, 20_000_000),
)
"""Of the board and of the gateway, between two turns."""


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


class _Starved:
    """A world whose ends take turns of their own, and whose board is restarted by its gateway now and then."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        choose = self._rng.choice
        self.world = simulation.World(
            seed,
            choose([0, 10, 50]),
            interval_us=100_000,
            batch_us=500_000,
            batch_bytes=320,
            outbox_bytes=choose([1_200, 1_600, 2_500]),
            window_bytes=choose([0, 0, 1_500]),
        )
        read = self.world.sensor.read
        self.world.sensor.read = lambda: read()[:1]  # or a batch might end between the two of a sample
        self.boards = [self.world.board]

    def run(self) -> None:
        """Starve them, and then let them settle."""
        world, between = self.world, self._rng.uniform
        board_us = gateway_us = phase_us = 0.0
        restart_us, pauses = between(30e6, 60e6), PAUSES_US[0]
        while world.now_us < STARVED_US:
            if world.now_us >= phase_us:
                pauses, phase_us = self._rng.choice(PAUSES_US), world.now_us + between(2e6, 15e6)
            if world.now_us >= board_us:
                board_us = world.now_us + pauses[0] * between(0.5, 1.5)
                self._turn_board()
            if world.now_us >= gateway_us:
                gateway_us = world.now_us + pauses[1] * between(0.5, 1.5)
                self._turn_gateway()
            if world.now_us >= restart_us:
                restart_us = world.now_us + between(30e6, 60e6)
                world.board.restart(world.now_us - world.booted_us)
            if world.board.restart_wanted:
                assert world.board.restart_wanted is True
                world.boot()
                self.boards.append(world.board)
            world.now_us += simulation.STEP_US
        world.permille = 0
        world.settle(1_200)
        world.run(400, lambda: not world.files.held.get(messages.LOSSES_FILE))

    def _turn_board(self) -> None:
        world = self.world
        raw = world.board.tick(world.now_us - world.booted_us)
        world.gateway.link.receive_bytes(simulation.damage(world.rng, raw, world.permille), world.now_us // 1000)

    def _turn_gateway(self) -> None:
        world = self.world
        world.gateway.turn(world.now_us)
        raw = world.gateway.link.bytes_to_send(world.now_us // 1000)
        world.board.feed(simulation.damage(world.rng, raw, world.permille), world.now_us - world.booted_us)

    def unreported(self, board: core.Core) -> set[int]:
        """Return the batches of a start that neither came, nor are in a summary, nor are admitted by a record."""
        incarnation, collector = board._incarnation, self.world.collector
        taken = collector.links.get(incarnation, {}).values()
        bodies = [each[1] for each in taken if each and each[0] == messages.TELEMETRY]
        came = {cbor.decode(body, 4096)[0]: simulation.counters_of(body) for body in bodies}
        assert len(came) == len(bodies), "a batch twice"
        for number, values in came.items():
            first = came[number - 1][-1] + 1 if number - 1 in came else values[0]
            assert values == list(range(first, first + len(values))), "a reading that lacks without a batch that does"
        spans = [span for whose, numbers in collector.lost_earlier if whose == incarnation for span in numbers]
        for each in taken:
            spans += cbor.decode(each[1], 2_560)[2] if each and each[0] == messages.LOSS else []
        reported = {number for first, last in spans for number in range(first, last + 1)}
        return set(range(1, board.outbox.next_number)) - set(came) - reported - set(collector.summarised(incarnation))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1000, 1003, 1004, 1005])
def test_losses_of_boards_without_memory_are_reported(seed: int) -> None:
    """At each of these a restart comes while a record of loss waits; what that named has to be in another."""
    starved = _Starved(seed)
    starved.run()
    assert len(starved.boards) > 2
    assert [starved.unreported(board) for board in starved.boards] == [set()] * len(starved.boards)
    assert starved.world.collector.lost_earlier
