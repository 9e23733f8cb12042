"""An order that the heap has no room for beside what measures: dealt with in its place, and once."""

# ruff: noqa: F401, F811 - fixtures of another file

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.crypto import Identity
from covey.core.history.orders import SettingOrder
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.wire import cbor
from covey_boards.device import attending, core, identity, orders, setting_orders
from covey_boards.shared import line_orders, link_machine, messages
from hil import firmware_simulation as simulation
from tests.unit.covey_boards.device.test_orders import (
    Site,
    Valve,
    _random_source,
    operator,
    valve,
)


class Small(Site):
    """A board with little heap; a gateway hands orders down, to whatever is on the line."""

    def __init__(self, operators: tuple[Identity, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(operators)
        heap = SimpleNamespace(collect=lambda: None, mem_free=lambda: 4_000)
        monkeypatch.setattr(core, "gc", heap)
        self.lines: list[list[Any]] = []

    def errand(self, *raws: bytes) -> attending.Attending:
        """Hand an order down, and return what deals with it, once the board wants to make room for that."""
        world = self.world
        world.gateway.link.send(messages.to_line(line_orders.ORDER, list(raws)))
        world.run(10, lambda: world.board.restart_wanted)
        assert isinstance(world.board.restart_wanted, tuple)
        return attending.start(world.files, world.now_us, *world.board.restart_wanted)

    def attend(self, board: attending.Attending, until: Callable[[], object] = bool) -> OrderResult | None:
        """Let it do its work; return what became of the first order."""
        link, now_us = self.world.gateway.link, self.world.now_us
        for _ in range(4_000):
            now_us += 10_000
            link.receive_bytes(board.tick(now_us), now_us // 1000)
            deadline = link.next_deadline()
            if deadline is not None and now_us // 1000 >= deadline:
                link.handle_deadline(now_us // 1000)
            while (event := link.next_event()) is not None:
                if isinstance(event, link_machine.Message):
                    self.lines.append(line_orders.from_line(event.data))
                    link.acknowledge(event.token)
            board.feed(link.bytes_to_send(now_us // 1000), now_us)
            if board.restart_wanted or until():
                break
        self.world.now_us = now_us
        return next(iter(self.answers()), None)

    def answers(self) -> list[OrderResult]:
        return [
            OrderResult.from_wire(cbor.encode([line[1], self.board, line[2]]))
            for line in self.lines
            if line[0] == line_orders.RESULT
        ]


@pytest.fixture
def small(operator: Identity, monkeypatch: pytest.MonkeyPatch) -> Small:
    return Small((operator,), monkeypatch)


@pytest.mark.slow
def test_it_is_done_once_after_what_was_measured_has_gone(small: Small, operator: Identity, valve: Valve) -> None:
    raw = small.command(operator)
    board = small.errand(raw)
    assert all(entry.times for entry in small.world.board.outbox.entries), "the gateway has it"
    done = small.attend(board)
    assert board.restart_wanted, "it measures again"
    assert done is not None
    assert (done.state, done.output) == (CommandState.DONE, b"3 litres")
    kinds = [line[0] for line in small.lines]
    assert kinds == [messages.IDENTIFY, line_orders.RESULT], "it says first who it is"
    small.cut_power()
    small.attend(small.errand(raw))
    assert small.answers() == [done, done]
    assert valve.opened == ["3"]


@pytest.mark.slow
def test_the_next_order_finds_it_there(small: Small, operator: Identity, valve: Valve) -> None:
    board = small.errand(small.command(operator))
    small.attend(board, lambda: bool(small.answers()))
    assert not board.restart_wanted
    small.world.gateway.link.send(messages.to_line(line_orders.ORDER, [small.command(operator)]))
    small.attend(board)
    assert [each.output for each in small.answers()] == [b"3 litres", b"3 litres"]
    assert valve.opened == ["3", "3"]


@pytest.mark.slow
def test_a_deadline_is_judged_by_the_time_that_was_told_before(small: Small, operator: Identity, valve: Valve) -> None:
    late = small.attend(small.errand(small.command(operator, deadline_us=simulation.WALL_US)))
    assert late is not None
    assert late.code == "action_late"
    assert not valve.opened


@pytest.mark.slow
def test_a_setting_holds_from_the_next_start_on(small: Small, operator: Identity) -> None:
    selector = Selector(SelectorKind.DEVICES, devices=(small.board,))
    order = small.operation(SettingOrder(selector, "board.interval_seconds", "7"), operator)
    done = small.attend(small.errand(order))
    assert done is not None
    assert (done.state, done.setting) == (CommandState.DONE, "board.interval_seconds")
    assert b'"interval_seconds": 7' in (small.world.files.read(setting_orders.ORDERED_FILE) or b"")


@pytest.mark.slow
def test_what_the_heap_ends_in_is_refused_by_a_signature(
    small: Small,
    operator: Identity,
    valve: Valve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ends(*_given: object) -> None:
        raise MemoryError

    board = small.errand(small.command(operator))
    monkeypatch.setattr(orders, "_operation", ends)
    refused = small.attend(board)
    assert refused is not None
    assert (refused.state, refused.code) == (CommandState.REFUSED, "action_not_started")
    assert not valve.opened


@pytest.mark.slow
def test_where_the_heap_ends_after_the_deed_nobody_says_that_it_was_not_done(
    small: Small,
    operator: Identity,
    valve: Valve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = orders.OrderTaking._result

    def ends(self: object, order: bytes, state: int, *more: object) -> bytes:
        if state == orders._DONE:
            raise MemoryError
        body: bytes = result(self, order, state, *more)
        return body

    monkeypatch.setattr(orders.OrderTaking, "_result", ends)
    unknown = small.attend(small.errand(small.command(operator)))
    assert unknown is not None
    assert (unknown.state, unknown.code) == (CommandState.UNKNOWN, "action_went_down")
    assert valve.opened == ["3"]


@pytest.mark.slow
def test_what_is_no_order_and_what_else_comes_change_nothing(small: Small, operator: Identity, valve: Valve) -> None:
    damaged = bytearray(small.command(operator))
    damaged[-1] ^= 1
    board = small.errand(bytes(damaged))
    clock = messages.to_line(messages.TIME, simulation.WALL_US, True)
    for line in (b"noise", clock, messages.to_line(messages.RESTART)):
        small.world.gateway.link.send(line)
    assert small.attend(board) is None
    assert board.restart_wanted
    assert not valve.opened


@pytest.mark.slow
def test_without_a_gateway_it_measures_again_after_a_while(small: Small, operator: Identity, valve: Valve) -> None:
    board = small.errand(small.command(operator))
    begun_us = now_us = small.world.now_us
    while not board.restart_wanted:
        now_us += 100_000
        board.tick(now_us)
    assert now_us - begun_us <= 21_000_000
    assert valve.opened == ["3"], "what became of it is on flash"


def test_an_error_starts_the_board_anew() -> None:
    for end in (lambda board: board.out_of_memory(), lambda board: board.failed(OSError(5))):
        files = simulation.Files()
        board = attending.Attending(identity.load_identity(files), files, None, b"", 0)
        end(board)
        assert board.restart_wanted


def test_a_board_on_trial_is_not_restarted_for_an_order(small: Small, operator: Identity) -> None:
    small.world.board.trial = SimpleNamespace(turn=lambda *_given: None)
    small.world.gateway.link.send(messages.to_line(line_orders.ORDER, [small.command(operator)]))
    small.world.run(6)
    assert not small.world.board.restart_wanted


def test_a_firmware_is_not_taken_in_so_little_heap(small: Small) -> None:
    small.world.gateway.link.send(messages.to_line(line_orders.FIRMWARE, b"x"))
    small.world.run(3, lambda: small.world.board.reporting.trouble)
    assert small.world.board.reporting.trouble == "no heap for a firmware"
