"""The heap of a board may end anywhere: no reading is lost in silence, none comes twice, and the line goes on."""

from __future__ import annotations

import ast
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from covey_boards.device import core, losses, outbox, reporting, thinning
from covey_boards.shared import batch, cbor, link_machine, messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from tests.examples import Share, shares

QUICK = {"interval_us": 500_000, "batch_us": 4_000_000}
FILES = [Path(each.__file__) for each in (batch, core, link_machine, losses, outbox, reporting, thinning)]
"""Where what a board has measured is held. A sample that the heap ends in is one that was not taken (`sampling`)."""

ASKS = {"append", "bytes", "bytearray", "decode", "encode", "from_bytes", "join", "list", "sorted", "to_bytes", "tuple"}


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


def _arrived(world: simulation.World) -> dict[int, list[int]]:
    """Return the readings of each batch by its number; each batch is there once or admitted as lost, and whole."""
    ((incarnation, taken),) = world.collector.links.items()
    bodies = [each[1] for each in taken.values() if each and each[0] == messages.TELEMETRY]
    batches = {cbor.decode(body, 4096)[0]: simulation.counters_of(body) for body in bodies}
    assert len(batches) == len(bodies), "a batch twice"
    lost = {number for first, last in world.collector.lost for number in range(first, last + 1)}
    summarised = set(world.collector.summarised(incarnation))
    assert not summarised & (lost | set(batches)), "a reading twice"
    lost |= summarised
    assert set(batches) | lost == set(range(1, world.board.outbox.next_number)), "a batch that nobody knows of"
    for number, values in batches.items():
        first = batches[number - 1][-1] + 1 if number - 1 in batches else values[0]
        assert values == list(range(first, first + len(values))), "a reading that lacks without a batch that does"
    for body in bodies:
        shape = cbor.decode(cbor.decode(body, 4096)[1][7], 4096)[0]
        assert len(shape) == 3, "one of two readings of a sample"
        assert shape[2] & 1, "as many as of the other series, at the same times"
    return batches


class _Starved:
    """Ends the heap of a board, and not of its gateway, at any place that asks for much of it."""

    PLACES = (
        (core.link_machine, ("encode", "Message", "Delivered", "LinkUp", "LinkDown")),
        (core.messages, ("encode", "decode", "record")),
        (core.batch, ("Batch",)),
        (outbox, ("Entry", "without", "with_range")),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: simulation.World, permille: int) -> None:
        self.permille, self._world, self._at_board = permille, world, False
        self._rng = random.Random(permille)
        for module, names in self.PLACES:
            for name in names:
                monkeypatch.setattr(module, name, self._at_times(getattr(module, name)))
        for name in ("feed", "tick"):
            monkeypatch.setattr(world.board, name, self._as_port(getattr(world.board, name)))

    def _ends(self) -> None:
        if self._at_board and self._rng.randrange(1000) < self.permille:
            raise MemoryError

    def _at_times(self, real: Any) -> object:
        def called(*arguments: Any) -> object:
            self._ends()
            return real(*arguments)

        def made(kind: Any, *arguments: Any) -> object:
            self._ends()
            return real.__new__(kind, *arguments)

        if isinstance(real, type) and issubclass(real, tuple):  # an event, whose type is asked for
            return type(real.__name__, (real,), {"__new__": made})
        return called

    def _as_port(self, real: Callable[..., bytes | None]) -> Callable[..., bytes]:
        def called(*arguments: Any) -> bytes:
            self._at_board = True
            try:
                return real(*arguments) or b""
            except MemoryError:
                self._world.board.out_of_memory()
                return b""
            finally:
                self._at_board = False

        return called


@pytest.mark.parametrize("seed", range(12))
def test_a_heap_that_ends_anywhere_stops_nothing_and_hides_no_loss(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    world = simulation.World(60 + seed, 10 * (seed % 2), **QUICK)
    starved = _Starved(monkeypatch, world, (20, 50, 100)[seed % 3])
    world.run(30)
    starved.permille = 0
    world.run(5)
    world.settle()
    assert world.board.counters["out_of_memory"] > 3
    batches = _arrived(world)
    lost = set(range(1, world.board.outbox.next_number)) - set(batches)
    assert lost or world.collector.values() == list(range(1, world.sensor.count + 1))


def _asks_for_heap(statement: ast.stmt) -> bool:
    """Say whether a statement, its block apart, asks MicroPython for room: for an object or a number beyond 30 bits."""
    body = {id(each) for name in ("body", "orelse", "finalbody", "handlers") for each in getattr(statement, name, [])}
    parts = [part for part in ast.iter_child_nodes(statement) if id(part) not in body]
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
        parts = statement.value.elts  # it goes by the stack
    for node in (node for part in parts for node in ast.walk(part)):
        if isinstance(node, (ast.ListComp, ast.List, ast.Dict, ast.JoinedStr, ast.Slice)):
            return True
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.BinOp) and any(isinstance(at, ast.Name) and "now" in at.id for at in ast.walk(node)):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ASKS or name[:1].isupper():
                return True
    return False


def _places() -> list[tuple[str, int]]:
    """Return the lines of functions that may find the heap at its end."""
    return [
        (str(path), statement.lineno)
        for path in FILES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.stmt) and statement is not function and _asks_for_heap(statement)
    ]


class _Ending:
    """Ends a board's heap once, at a line that is about to be run for the n-th time; counts lines until then."""

    def __init__(self, board: core.Core, place: tuple[str, int] | None = None, times: int = 1) -> None:
        self.counted: Counter[tuple[str, int]] = Counter()
        self.is_over = False
        self._board, self._place, self._times = board, place, times
        self._files = {str(path) for path in FILES} if place is None else {place[0]}
        for name in ("feed", "tick"):
            setattr(board, name, self._watched(getattr(board, name)))

    def _watched(self, real: Callable[..., bytes | None]) -> Callable[..., bytes]:
        def called(*arguments: Any) -> bytes:
            before = sys.gettrace()
            sys.settrace(before if self.is_over else self._enter)
            try:
                return real(*arguments) or b""
            except MemoryError:
                sys.settrace(before)
                self._board.out_of_memory()
                return b""
            finally:
                sys.settrace(before)

        return called

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and not self.is_over:
            at = frame.f_code.co_filename, frame.f_lineno
            self.counted[at] += 1
            if at == self._place and self.counted[at] == self._times:
                self.is_over = True
                raise MemoryError
        return self._line


def _lived(place: tuple[str, int] | None = None, times: int = 1) -> Counter[tuple[str, int]]:
    """Live through an absence that fills the outbox, and a gateway that starts anew; return which lines were run."""
    world = simulation.World(5, interval_us=400_000, batch_us=1_500_000, outbox_bytes=900, window_bytes=1_500)
    ending = _Ending(world.board, place, times)
    world.run(5, step_us=10_000)
    world.absent = True
    world.run(10, step_us=50_000)
    world.absent = False
    world.run(2, step_us=10_000)
    world.gateway = simulation.Gateway(world.rng, world.collector)
    world.run(3, step_us=10_000)
    ending.is_over = True
    world.run(1, step_us=10_000)
    world.settle(200)
    _arrived(world)
    return ending.counted


@pytest.mark.parametrize("share", shares(6, plain=1))
def test_the_heap_may_end_at_any_line(share: Share) -> None:
    counted = _lived()
    places = [place for place in _places() if counted[place]]
    assert len(places) > 100
    for path, line in share.of(places):
        for times in {1, (counted[path, line] + 1) // 2, (3 * counted[path, line] + 3) // 4}:
            try:
                _lived((path, line), times)
            except (AssertionError, LookupError, cbor.WireError) as error:
                raise AssertionError(f"{Path(path).name}:{line}, time {times}: {error}") from error
