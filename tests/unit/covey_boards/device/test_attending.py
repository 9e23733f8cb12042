"""An order, or a firmware, that the heap has no room for beside what measures: dealt with in its place, and once."""

# ruff: noqa: F401, F811 - fixtures of another file

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.crypto import Identity
from covey.core.history.orders import SettingOrder
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.wire import cbor
from covey_boards.device import attending, core, identity, orders, setting_orders, slot_state, slots, standing, updating
from covey_boards.device.storage import Files
from covey_boards.images import BoardImage, read_image, write_image
from covey_boards.shared import line_orders, link_machine, messages
from hil.on_board import firmware_simulation as simulation
from tests.fleet import identity as identity_of
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

    def announce(self, image: BoardImage) -> None:
        """Announce a firmware to the board, which makes room for it or knows it."""
        self.world.gateway.link.send(messages.to_line(line_orders.FIRMWARE, image.announced))
        self.world.run(10, lambda: self.world.board.restart_wanted)

    def room(self, flash: Files) -> attending.Attending:
        """Return what takes a firmware, once the board wants to make room for one."""
        assert self.world.board.restart_wanted is True
        return attending.start(flash, self.world.now_us, None, self.world.files.held["room.cbor"])

    def bring(self, board: attending.Attending, image: BoardImage, parts: int = 1_000) -> list[tuple[int, str]]:
        """Bring a firmware as a gateway does, or so many parts of it; return what the board said of it and why."""
        link, seen, left = self.world.gateway.link, len(self.lines), parts

        def answer() -> bool:
            nonlocal seen, left
            for kind, *fields in self.lines[seen:]:
                if kind == messages.IDENTIFY:
                    link.send(messages.to_line(line_orders.FIRMWARE, image.announced))
                elif kind == line_orders.PROGRESS and fields[1] == updating.RECEIVING:
                    link.send(messages.to_line(line_orders.PART, fields[2], image.contents[fields[2] :][:512]))
                    left -= 1
            seen = len(self.lines)
            return left < 0

        self.attend(board, answer)
        return [(line[2], line[4]) for line in self.lines if line[0] == line_orders.PROGRESS]

    def listen(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
        """Return what the board says of firmware from now on."""
        said: list[tuple[Any, ...]] = []
        say = self.world.board.reporting.say

        def heard(*fields: Any) -> Any:
            if fields[0] != line_orders.PROGRESS:
                return say(*fields)
            said.append(fields)
            return None

        monkeypatch.setattr(self.world.board.reporting, "say", heard)
        return said

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
def test_an_order_that_exhausts_the_heap_is_refused(
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
def test_an_exhausted_heap_after_the_action_reports_unknown(
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
def test_damaged_orders_change_nothing(small: Small, operator: Identity, valve: Valve) -> None:
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


def test_an_error_restarts_the_board() -> None:
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


@pytest.fixture
def flash(small: Small, tmp_path: Path) -> Files:
    """What the board has on its flash, in a folder."""
    found = Files(f"{tmp_path}/")
    for name, content in small.world.files.held.items():
        found.write(name, content)
    return found


def _image(operator: Identity) -> BoardImage:
    return read_image(write_image({"core.py": b"another core " * 200}, "", 0, operator))


@pytest.mark.slow
def test_a_firmware_is_taken_after_what_was_measured_has_gone(small: Small, operator: Identity, flash: Files) -> None:
    image = _image(operator)
    small.announce(image)
    assert all(entry.times for entry in small.world.board.outbox.entries), "the gateway has it"
    said = small.bring(small.room(flash), image)
    assert [state for state, _ in said] == [updating.RECEIVING] * (len(said) - 1) + [updating.TRIED]
    assert len(said) > 3, "part by part"
    assert slots.choose(flash) == "slot_a"


@pytest.mark.slow
def test_an_interrupted_firmware_transfer_continues(small: Small, operator: Identity, flash: Files) -> None:
    image = _image(operator)
    small.announce(image)
    small.bring(small.room(flash), image, parts=2)
    came = len(small.lines)
    small.cut_power()
    small.announce(image)
    small.bring(small.room(flash), image)
    (first, *_) = [line for line in small.lines[came:] if line[0] == line_orders.PROGRESS]
    assert first[3] > 0


@pytest.mark.parametrize(("place", "state"), [(3, updating.RUNS), (4, updating.TRIED), (5, updating.FAILED)])
@pytest.mark.parametrize("free", [4_000, 40_000])
def test_the_state_of_a_known_firmware_is_reported_during_normal_work(
    small: Small, operator: Identity, monkeypatch: pytest.MonkeyPatch, place: int, state: int, free: int
) -> None:
    monkeypatch.setattr(core.gc, "mem_free", lambda: free)
    monkeypatch.setattr(core, "_late", {}.__getitem__)  # nothing is loaded: it would scatter the heap for good
    image, said = _image(operator), small.listen(monkeypatch)
    record: list[Any] = ["", "slot_a", 1, b"", b"", b""]
    record[place] = image.digest
    small.world.files.held[slot_state.FILE] = cbor.encode(record)
    small.world.board.known = standing.known(small.world.files)
    small.announce(image)
    assert not small.world.board.restart_wanted
    assert said == [(line_orders.PROGRESS, image.digest, state, 0, "")]


def test_one_that_is_refused_is_refused_again_without_a_restart(
    small: Small, flash: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = _image(identity_of("somebody"))
    small.announce(image)
    said = small.bring(small.room(flash), image)
    why = "it is signed by none of the operators that this board has pinned"
    assert said == [(updating.REFUSED, why)]
    small.cut_power()
    small.world.files.held[standing.FILE] = flash.read(standing.FILE) or b""
    small.world.board.known = standing.known(small.world.files)
    heard = small.listen(monkeypatch)
    small.announce(image)
    assert not small.world.board.restart_wanted
    assert heard == [(line_orders.PROGRESS, image.digest, updating.REFUSED, 0, why)]


@pytest.mark.slow
def test_one_that_the_heap_ends_in_is_refused(
    small: Small, operator: Identity, flash: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_given: object) -> None:
        raise MemoryError

    image = _image(operator)
    small.announce(image)
    board = small.room(flash)
    monkeypatch.setattr(updating.Update, "take", ends)
    assert small.bring(board, image)[-1] == (updating.REFUSED, "no heap for it")
    assert standing.known(flash)[3:] == [image.digest, "no heap for it"]


@pytest.mark.slow
def test_one_that_is_refused_is_looked_at_again_at_three_later_starts(
    small: Small, operator: Identity, flash: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the start that follows the refusal, or a board would do nothing else; later there may be room."""

    def ends(*_given: object) -> None:
        raise MemoryError

    image, take, looked = _image(operator), updating.Update.take, []
    monkeypatch.setattr(updating.Update, "take", ends)
    for start in range(12):
        small.world.board.known = standing.known(flash)
        small.listen(monkeypatch)
        small.announce(image)
        if small.world.board.restart_wanted:
            looked.append(start)
            small.bring(small.room(flash), image)
        small.cut_power()
    assert looked == [0, 2, 4, 6]
    monkeypatch.setattr(updating.Update, "take", take)
    standing.remember(flash, bytes(32), "another one")
    small.world.board.known = standing.known(flash)
    small.announce(image)
    small.bring(small.room(flash), image)
    assert slots.choose(flash) == "slot_a", "there is room for it now"


def test_a_part_alone_makes_no_room(small: Small) -> None:
    small.world.gateway.link.send(messages.to_line(line_orders.PART, 0, b"x"))
    small.world.run(6)
    assert not small.world.board.restart_wanted
