"""What a gateway keeps for a board that sleeps between its samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey_boards.shared import line_orders, messages
from tests.unit.covey_boards.test_bridge import Gateway


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    made = Gateway(tmp_path)
    made.enrol()
    return made


def _sleep(gateway: Gateway, milliseconds: int) -> None:
    gateway.board.say(line_orders.SLEEP, milliseconds)
    gateway.run(0.5)


@pytest.mark.slow
def test_messages_for_a_sleeping_board_wait(gateway: Gateway) -> None:
    gateway.board.measure()
    gateway.run(0.5)
    _sleep(gateway, 60_000)
    sent = gateway.line.link.statistics.frames_sent
    gateway.land()
    gateway.run(30)
    assert gateway.line.link.statistics.frames_sent == sent, "no frame for who does not listen"
    assert gateway.device.store.boards.all()[0].up
    assert gateway.board.acknowledged_up_to == 0
    times = len(gateway.board.times)
    _sleep(gateway, 0)
    assert gateway.board.acknowledged_up_to == 1
    assert len(gateway.board.times) == times + 1, "and the time, at once"


@pytest.mark.slow
def test_a_board_that_does_not_wake_is_reported_once(gateway: Gateway) -> None:
    _sleep(gateway, 60_000)
    gateway.run(170)
    assert gateway.device.store.boards.all()[0].up
    gateway.run(20)
    assert not gateway.device.store.boards.all()[0].up
    assert [line for line in gateway.reports if "wake" in line] == [
        "warning: /dev/ttyTEST: the board did not wake from its sleep"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [line_orders.SLEEP, messages.REPORT])
def test_a_board_that_wakes_after_it_was_given_up_is_there_again(gateway: Gateway, kind: int) -> None:
    gateway.board.measure()
    gateway.run(0.5)
    gateway.land()
    _sleep(gateway, 60_000)
    gateway.run(190)
    assert not gateway.device.store.boards.all()[0].up
    times = len(gateway.board.times)
    gateway.board.say(kind, 0 if kind == line_orders.SLEEP else [])
    gateway.run(1)
    assert gateway.device.store.boards.all()[0].up
    assert len(gateway.board.times) == times + 1


def test_a_restart_that_is_wanted_waits_for_the_board_to_wake(gateway: Gateway) -> None:
    _sleep(gateway, 60_000)
    with gateway.device.store.transaction():
        gateway.device.store.boards.want_restart(gateway.line.port)
    gateway.run(5)
    assert gateway.board.boots == 1
    gateway.board.say(messages.REPORT, [])
    gateway.run(1)
    assert gateway.board.boots == 2
