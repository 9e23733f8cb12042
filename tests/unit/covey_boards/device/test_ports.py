"""The loop, the clock and the line of a board, on this machine: the port's own modules are told what hardware does."""

from __future__ import annotations

import importlib.util
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from covey_boards.device import opening, storage

_DEVICE = Path(opening.__file__).parent
_WRAP = 1 << 30
"""Microseconds after which MicroPython's `ticks_us` begins anew: eighteen minutes."""


class Ticks:
    """MicroPython's counter."""

    def __init__(self, start: int) -> None:
        self.now = start

    def us(self) -> int:
        """Return it."""
        return self.now % _WRAP

    @staticmethod
    def diff(later: int, earlier: int) -> int:
        """Return how far two readings are apart, as MicroPython does."""
        return (later - earlier + _WRAP // 2) % _WRAP - _WRAP // 2


class Wire:
    """MicroPython's UART: it takes as much as its buffer has room for, and says how much that was."""

    def __init__(self, number: int, baud: int, rxbuf: int, **_pins: object) -> None:
        self.settings = number, baud, rxbuf
        self.sent = b""
        self.rooms = [5, None, 0, 100]

    def write(self, raw: bytes | memoryview) -> int | None:
        """Take some."""
        room = self.rooms.pop(0)
        self.sent += bytes(raw[: room or 0])
        return room if room is None else min(room, len(raw))


Loader = Callable[[str], ModuleType]


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> Loader:
    """Give a function that loads a file of a board as a board does: beside all others."""
    return flat_loader(monkeypatch)


def flat_loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    """Return what the fixture gives."""
    monkeypatch.setitem(sys.modules, "micropython", SimpleNamespace(const=int))
    monkeypatch.setitem(sys.modules, "storage", storage)
    machine = SimpleNamespace(UART=Wire, Pin=lambda number: number)
    monkeypatch.setitem(sys.modules, "machine", machine)

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"flat_{name}", _DEVICE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


class Line:
    """A line on which bytes come one reading after the other, and then nobody is there."""

    def __init__(self, *readings: bytes) -> None:
        self.readings = list(readings)
        self.waits: list[int] = []
        self.written: list[bytes] = []

    def read(self, wait_ms: int) -> bytes:
        """Return what comes next."""
        self.waits.append(wait_ms)
        if not self.readings:
            raise EOFError
        return self.readings.pop(0)

    def write(self, raw: bytes) -> None:
        """Keep it."""
        self.written.append(raw)


class Echo:
    """What `ports.run` turns: it says back what it hears, one burst in a turn; `fails` are raised in its turns."""

    sleeping = None

    def __init__(self, *fails: BaseException | None) -> None:
        self.restart_wanted = False
        self.fails = list(fails)
        self.bursts: list[bytes] = []
        self.reported: list[object] = []

    def feed(self, raw: bytes, _now_us: int) -> None:
        """Hear."""
        self.bursts.append(raw)

    def tick(self, _now_us: int) -> bytes:
        """Say something, or fail."""
        fault = self.fails.pop(0) if self.fails else None
        if fault is not None:
            raise fault
        return self.bursts.pop(0) if self.bursts else b""

    def out_of_memory(self) -> None:
        """Be told."""
        self.reported.append("memory")

    def failed(self, reason: object) -> None:
        """Be told."""
        self.reported.append(reason)


class Watchdog:
    """Counts."""

    fed = 0

    def feed(self) -> None:
        """Be fed."""
        self.fed += 1


def test_the_clock_continues_when_its_counter_wraps(monkeypatch: pytest.MonkeyPatch, flat: Loader) -> None:
    ticks = Ticks(_WRAP - 10)
    monkeypatch.setattr(time, "ticks_us", ticks.us, raising=False)
    monkeypatch.setattr(time, "ticks_diff", ticks.diff, raising=False)
    clock = flat("ports").Clock()
    seen = []
    for step in (4, 4, 4, 300_000_000, 500_000_000, 500_000_000):
        ticks.now += step
        seen.append(clock.now_us())
    assert seen == [4, 8, 12, 300_000_012, 800_000_012, 1_300_000_012]


def test_a_uart_is_given_what_it_did_not_take_yet(flat: Loader) -> None:
    line = flat("uart").Uart(256, id=1, tx=4, rx=5)
    line.write(b"a frame of the line")
    assert line._uart.sent == b"a frame of the line"
    assert line._uart.settings == (1, 115_200, 512), "two frames may come while the board computes"


def test_the_loop_feeds_writes_and_keeps_the_watchdog_quiet(flat: Loader) -> None:
    line, board, watchdog = Line(b"one", b"", b"two"), Echo(), Watchdog()
    with pytest.raises(EOFError):
        flat("ports").run(board, line, SimpleNamespace(now_us=lambda: 0), watchdog)
    assert line.written == [b"one", b"two"]
    assert watchdog.fed == 3, "once in each turn"
    assert line.waits == [10, 0, 10, 0], "no waiting while there may be more to write"


def test_an_error_does_not_end_the_loop_and_reaches_the_board(flat: Loader) -> None:
    fault, line, watchdog = ValueError("what"), Line(b"one", b"two", b""), Watchdog()
    board = Echo(MemoryError(), fault)
    with pytest.raises(EOFError):
        flat("ports").run(board, line, SimpleNamespace(now_us=lambda: 0), watchdog)
    assert board.reported == ["memory", fault]
    assert watchdog.fed == 3


def test_a_board_that_sleeps_is_asked_after_each_turn(flat: Loader) -> None:
    asked = []
    board, line = Echo(), Line(b"one", b"two")
    board.sleeping = SimpleNamespace(sleep=lambda *given: asked.append((given, list(line.written))))  # type: ignore[assignment]
    with pytest.raises(EOFError):
        flat("ports").run(board, line, clock := SimpleNamespace(now_us=lambda: 0))
    assert asked == [((clock, None), [b"one"]), ((clock, None), [b"one", b"two"])], "after what was to be written"


def test_the_loop_ends_when_a_restart_is_asked_for(flat: Loader) -> None:
    board = Echo()
    board.restart_wanted = True
    flat("ports").run(board, Line(), SimpleNamespace(now_us=lambda: 0))


@pytest.mark.slow
def test_an_order_that_needs_the_heap_is_dealt_with_in_the_place_of_all_else(
    monkeypatch: pytest.MonkeyPatch, flat: Loader
) -> None:
    ports, given = flat("ports"), []

    def starts(name: str, wanted: object) -> None:
        def start(*fields: object) -> Echo:
            given.append((name, *fields[-2:]))
            if isinstance(wanted, Exception):
                raise wanted
            board = Echo()
            board.restart_wanted = wanted  # type: ignore[assignment]
            return board

        monkeypatch.setitem(sys.modules, name, SimpleNamespace(start=start))

    opened = Line(), None, {"rest_seconds": 3}, []
    clock = SimpleNamespace(now_us=lambda: 7)
    monkeypatch.setattr(ports, "_MODULES", ())
    monkeypatch.setattr(ports, "Clock", lambda: clock)
    starts("starting", ("time", b"order"))
    starts("attending", OSError(5))
    starts("failing", True)
    monkeypatch.setitem(sys.modules, "opening", SimpleNamespace(start=lambda *_fields: opened))
    ports.main(seconds=1)
    assert given == [("starting", [], clock), ("attending", "time", b"order"), ("failing", 7, 3)]


@pytest.mark.slow
def test_an_order_deferred_by_a_restart_is_taken_once(
    monkeypatch: pytest.MonkeyPatch, flat: Loader, tmp_path: Path
) -> None:
    ports, given = flat("ports"), []
    files = ports.Files(f"{tmp_path}/")

    def starts(name: str) -> None:
        def start(*fields: object) -> Echo:
            given.append((name, files.read("room.cbor")))
            board = Echo()
            board.restart_wanted = True
            return board

        monkeypatch.setitem(sys.modules, name, SimpleNamespace(start=start))

    monkeypatch.setattr(ports, "_MODULES", ())
    monkeypatch.setattr(ports, "Files", lambda: files)
    monkeypatch.setattr(ports, "Clock", lambda: SimpleNamespace(now_us=lambda: 7))
    opening = SimpleNamespace(start=lambda *_fields: (Line(), None, {}, []))
    files.write("room.cbor", b"\x16")
    for name in ("attending", "starting"):
        monkeypatch.setitem(sys.modules, "opening", opening)
        starts("attending")
        starts("starting")
        ports.main(seconds=1)
        assert given.pop() == (name, b""), "and never again, whatever comes of it"


def test_the_console_reads_what_is_available_up_to_its_buffer(monkeypatch: pytest.MonkeyPatch, flat: Loader) -> None:
    """Without a byte that the line has, nothing waits; with the line gone, it is told."""
    ports = flat("ports")
    console = ports.Console.__new__(ports.Console)
    console._buffer = bytearray(4)
    console._poll = SimpleNamespace(poll=lambda _wait_ms: True)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"abcdef")))
    assert console.read(10) == b"abcd"
    with pytest.raises(EOFError):
        console.read(10)
    console._poll = SimpleNamespace(poll=lambda _wait_ms: False)
    assert console.read(10) == b""


@pytest.mark.parametrize(
    ("readings", "asked"),
    [
        ([b"\3\3\3\3\3"], True),
        ([b"noise\3\3", b"\3\3\3"], True),
        ([b"\3\3\3\3"], False),
        ([b"\3" + b"x\3" * 40], False),
    ],
)
def test_the_prompt_is_for_who_asks_five_times_in_a_row(readings: list[bytes], asked: bool) -> None:
    times = iter(range(0, 10_000_000, 400_000))
    line = Line(*readings, b"", b"", b"", b"", b"")
    assert opening.wants_prompt(line, SimpleNamespace(now_us=lambda: next(times)), 1.5) is asked


def test_nobody_waits_for_the_prompt_beyond_its_seconds() -> None:
    times = iter(range(0, 10_000_000, 400_000))
    line = Line(b"", b"", b"", b"", b"\3\3\3\3\3")
    assert not opening.wants_prompt(line, SimpleNamespace(now_us=lambda: next(times)), 1.5)
    assert len(line.waits) == 4
