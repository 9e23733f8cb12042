"""The whole firmware: the same seeded lives on every runtime, and live on a line that goes wrong in every way."""

from __future__ import annotations

import io
import random
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covey.core.telemetry.summaries import Summary, read_summary
from covey_boards.shared import cbor, messages
from hil.boards.drivers import Driver, SerialBoard, UnixPort
from hil.boards.emulated_board import EmulatedBoard
from hil.boards.firmware_files import sources
from hil.boards.live_gateway import LiveGateway
from hil.boards.real_board import RealBoard
from hil.conftest import cross_compile
from hil.on_board import firmware_simulation, link_simulation
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEEDS, SECONDS = 3, 25  # long enough for link keys
PROGRAM = f"""
import sys
sys.path.append('.')
import firmware_simulation
firmware_simulation.run({SEEDS}, {SECONDS})
firmware_simulation.outage()
firmware_simulation.alarmed()
firmware_simulation.trial()
"""
BANNER = b"rst:0x1 (POWERON_RESET),boot:0x13\r\n\r\nMicroPython v1.25.0 on 2025\r\n>>> \x00\x03\x03"
_SAMPLES = 300
ALARMS_KIB = 66  # in which alarms have room beside files
QUICK = {"interval_seconds": 0.1, "batch_seconds": 0.5, "sensors": [["counter", {}]]}


def test_seeded_lives_are_the_same_everywhere(board: Driver) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap: frames only")
    simulations = [Path(module.__file__) for module in (firmware_simulation, link_simulation)]
    files = sources() | {path.name: path.read_bytes() for path in simulations}
    printed = board.run(PROGRAM, files)
    with redirect_stdout(io.StringIO()) as here:
        firmware_simulation.run(SEEDS, SECONDS)
        firmware_simulation.outage()
        firmware_simulation.alarmed()
        firmware_simulation.trial()
    assert printed.split() == here.getvalue().split()


@pytest.fixture
def plug(
    board: Driver, artefacts: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> Callable[..., EmulatedBoard | RealBoard]:
    """Give a function that puts the firmware, as a board would load it, on a line."""
    if not isinstance(board, UnixPort | SerialBoard):
        pytest.skip(f"{board.name} has no standard input to serve as a line")
    compiled = {**artefacts(board.architecture)}

    def make(settings: dict[str, object] | None = None, **options: Any) -> EmulatedBoard | RealBoard:
        reported = {**QUICK, **(settings or {})}
        if isinstance(board, SerialBoard):
            options = {name: value for name, value in options.items() if name not in {"baud", "heap_kib", "rom"}}
            return RealBoard(tmp_path, board, modules=compiled, settings=reported, **options)
        return EmulatedBoard(tmp_path, tool=board.tool, modules=compiled, settings=reported, **options)

    return make


@contextmanager
def _running(emulated: EmulatedBoard | RealBoard) -> Iterator[LiveGateway]:
    emulated.start()
    gateway = LiveGateway(emulated)
    try:
        yield gateway
        assert emulated.alive, emulated.state
        assert not emulated.said, emulated.said
    finally:
        gateway.stop()
        emulated.close()


def _counted(gateway: LiveGateway) -> list[int]:
    values: list[int] = gateway.collector.values()
    return values


def _more(gateway: LiveGateway, count: int) -> Callable[[], bool]:
    """Say that so many more readings than now are there."""
    wanted = len(_counted(gateway)) + count
    return lambda: len(_counted(gateway)) >= wanted


def _is_complete(values: list[int]) -> bool:
    return values == list(range(1, len(values) + 1))


def _summaries(gateway: LiveGateway) -> list[tuple[tuple[tuple[int, int], ...], Summary]]:
    taken = [each for taken in gateway.collector.links.values() for each in taken.values() if each]
    return [read_summary(body) for kind, body in taken if kind == messages.SUMMARY]


def _unaccounted(gateway: LiveGateway) -> set[int]:
    """Return the numbers of batches that neither arrived, nor are in a summary, nor were told as lost."""
    reported = {number for first, last in gateway.collector.lost for number in range(first, last + 1)}
    for taken in gateway.collector.links.values():
        reported |= {cbor.decode(each[1], 4096)[0] for each in taken.values() if each and each[0] == messages.TELEMETRY}
    for numbers, _ in _summaries(gateway):
        reported |= {number for first, last in numbers for number in range(first, last + 1)}
    return set(range(1, max(reported) + 1)) - reported


def test_a_board_enrols_measures_and_is_acknowledged(plug: Callable[..., EmulatedBoard | RealBoard]) -> None:
    emulated = plug()
    with _running(emulated) as gateway:
        gateway.serve(_more(gateway, 20))
    assert _is_complete(_counted(gateway))
    assert gateway.reports[0]["out_of_memory"] == 0
    assert len(emulated.file("identity.key")) == 70
    assert emulated.file("identity.key")[-32:] not in emulated.file("collector.cbor")


def test_a_board_restarts_as_itself_and_never_repeats_a_sequence(
    plug: Callable[..., EmulatedBoard | RealBoard],
) -> None:
    emulated = plug()
    with _running(emulated) as gateway:
        gateway.serve(_more(gateway, 5))
        emulated.kill()
        emulated.line.inject(BANNER, towards_board=False)
        emulated.start()
        gateway.serve(_more(gateway, 5))
    assert len({each.signing_public for each in gateway.identities}) == 1
    assert len(gateway.collector.links) == 2
    assert _counted(gateway)[:3] == [1, 2, 3]


def test_reset_in_mid_frame_replug_and_a_new_gateway(plug: Callable[..., EmulatedBoard | RealBoard]) -> None:
    emulated = plug()
    with _running(emulated) as gateway:
        gateway.serve(_more(gateway, 5))
        emulated.line.inject(b"\x00\x1f" + bytes(range(1, 30)), towards_board=False)  # a frame that ends nowhere
        gateway.serve(_more(gateway, 5))
        before, named = emulated.port.resolve(), len(gateway.identities)
        emulated.line.replug()
        assert emulated.port.resolve() != before
        gateway.serve(lambda: len(gateway.identities) > named)  # or the next gateway would hear what waits for this one
        gateway.serve(_more(gateway, 5))
        gateway.link.stop()
        other = LiveGateway(emulated, gateway.collector)
        more = _more(other, 5)
        other.serve(lambda: more() and _is_complete(_counted(other)))  # what the first had not read comes again later
        other.stop()
        assert len(other.identities) == 1
    assert len(gateway.collector.links) == 1, "the board never restarted"


@pytest.mark.parametrize("seed", range(1))
def test_any_bytes_at_any_time_leave_both_ends_in_step(
    plug: Callable[..., EmulatedBoard | RealBoard], seed: int
) -> None:
    emulated = plug()
    rng = random.Random(seed)  # noqa: S311 - a seeded world
    with _running(emulated) as gateway:
        for number in range(6):
            noise = rng.choice([rng.randbytes(rng.randrange(1, 700)), b"\x03" * 9, bytes(400), BANNER])
            emulated.line.inject(noise, towards_board=bool(number % 2))
            gateway.serve(_more(gateway, 2))
    assert _is_complete(_counted(gateway))
    assert len(gateway.collector.links) == 1


@pytest.mark.slow
def test_soak_at_115200_baud_with_damage_and_64_kib(plug: Callable[..., EmulatedBoard | RealBoard]) -> None:
    """One burst in a hundred is lost, cut, flipped, doubled or drowned in noise; the heap is the smallest promised.

    However slow the emulator is, and so whatever it has to drop: each batch arrives, or a record tells that it is lost.
    """
    pace = {"interval_seconds": 0.02, "batch_seconds": 0.3, "samples": _SAMPLES}
    emulated = plug(baud=115_200, permille=10, heap_kib=64, settings=pace)
    with _running(emulated) as gateway:
        gateway.serve(lambda: _counted(gateway)[-1:] == [_SAMPLES] and not _unaccounted(gateway))
        statistics = gateway.link.statistics()
    values = _counted(gateway)
    assert values == sorted(set(values))
    assert gateway.collector.lost or _is_complete(values)
    assert len(gateway.collector.links) == 1, "the board never restarted"
    assert statistics["damaged"] + statistics["repetitions"] + statistics["duplicates"] > 0


def test_an_outage_of_the_relay_with_64_kib(plug: Callable[..., EmulatedBoard | RealBoard]) -> None:
    """The outbox gets as full as it may; what is dropped from it was carried, and nothing else happens to the board."""
    emulated = plug(heap_kib=64, settings={"interval_seconds": 0.02, "batch_seconds": 0.3, "report_seconds": 0.3})
    with _running(emulated) as gateway:
        gateway.serve(_more(gateway, 1))
        gateway.acknowledges = False
        gateway.serve(lambda: gateway.reports[-1]["dropped"] >= 3)
        received = gateway.reports[-1]["acknowledgements"]
        gateway.acknowledges = True
        gateway.serve(lambda: gateway.reports[-1]["acknowledgements"] > received)
    assert _is_complete(_counted(gateway))
    assert gateway.reports[-1]["out_of_memory"] == 0


def _leave_alone(gateway: LiveGateway, emulated: EmulatedBoard, batches: int) -> None:
    """Take the gateway away until the board has noted that so many batches are untaken."""
    gateway.link.stop()

    def count() -> int:
        path = emulated.flash / messages.LOSSES_FILE
        raw = path.read_bytes() if path.exists() else b""
        return sum(note[4] - note[3] + 1 for note in cbor.decode(raw, 1024)[1]) if raw else 0

    wait_until(lambda: count() >= batches, f"{batches} batches are untaken")


def test_an_alarm_in_an_outage_with_64_kib_and_rom(plug: Callable[..., EmulatedBoard | RealBoard]) -> None:
    """Other batches are thinned meanwhile; the alarm is the first that comes, and each batch is accounted for."""
    pace = {"interval_seconds": 0.05, "batch_seconds": 0.4, "report_seconds": 0.3, "outbox_bytes": 1500}
    emulated = plug(heap_kib=64, rom=True, settings={**pace, "series": ["*counter alarm > 80"]})
    if not isinstance(emulated, EmulatedBoard):
        pytest.skip("nobody reads the notes of a real board")
    with _running(emulated) as gateway:
        gateway.serve(_more(gateway, 1))
        assert max(_counted(gateway)) < 80
        _leave_alone(gateway, emulated, 16)
        other = LiveGateway(emulated, gateway.collector)
        other.serve(gateway.collector.alarms)
        other.serve(lambda: not _unaccounted(gateway))
        other.serve(lambda: other.reports)
        other.stop()
    assert gateway.collector.alarms() == [(1, [81])]
    assert _summaries(gateway)
    assert (other.reports[-1]["alarms"], other.reports[-1]["out_of_memory"]) == (1, 0)


@pytest.mark.parametrize("heap_kib", [64, 65, 66, 68])
def test_rules_never_end_a_heap_for_files(plug: Callable[..., EmulatedBoard | RealBoard], heap_kib: int) -> None:
    """A board measures and sends in the heaps in which it does without rules; where alarms have no room it says so."""
    pace = {"interval_seconds": 0.05, "batch_seconds": 0.3, "report_seconds": 0.3}
    emulated = plug(heap_kib=heap_kib, settings={**pace, "series": ["*counter alarm > 20", "cpu/* keep newest"]})
    if not isinstance(emulated, EmulatedBoard):
        pytest.skip("a real board has the heap that it has")
    with _running(emulated) as gateway:
        gateway.serve(_more(gateway, 60))
        gateway.serve(lambda: gateway.reports and gateway.reports[-1]["acknowledgements"] > 3)
        refused = [str(each) for each in gateway.troubles if str(each).startswith("series: ")]
        assert bool(refused) != bool(gateway.collector.alarms())
        assert not refused or heap_kib < ALARMS_KIB, refused
        gateway.acknowledges = False
        gateway.serve(lambda: gateway.reports[-1]["dropped"] >= 3)
        received = gateway.reports[-1]["acknowledgements"]
        gateway.acknowledges = True
        gateway.serve(lambda: gateway.reports[-1]["acknowledgements"] > received)
    assert len(gateway.collector.links) == 1, "it never restarted"
    assert gateway.reports[-1]["out_of_memory"] == 0
    assert sorted(_counted(gateway)) == list(range(1, len(_counted(gateway)) + 1))


def test_a_backlog_is_thinned_with_64_kib_and_rom(plug: Callable[..., EmulatedBoard | RealBoard]) -> None:
    """In an outage without a gateway. The power goes in another one: what was thinned is told as lost."""
    pace = {"interval_seconds": 0.05, "batch_seconds": 0.4, "report_seconds": 0.3, "outbox_bytes": 1500}
    emulated = plug(heap_kib=64, rom=True, settings=pace)
    if not isinstance(emulated, EmulatedBoard):
        pytest.skip("nobody reads the notes of a real board")
    with _running(emulated) as gateway:
        gateway.serve(_more(gateway, 1))
        _leave_alone(gateway, emulated, 16)
        second = LiveGateway(emulated, gateway.collector)
        second.serve(lambda: _summaries(second))
        second.serve(lambda: not _unaccounted(second))
        assert not second.collector.lost
        values = _counted(second)
        windows = [each for _, summary in _summaries(second) for series in summary.series for each in series.windows]
        count = len(values) + sum(window.readings for window in windows)
        assert sum(values) + sum(window.total for window in windows) == count * (count + 1) // 2
        second.serve(lambda: second.reports and second.reports[-1]["thinned"])
        assert second.reports[-1]["out_of_memory"] == 0
        _leave_alone(second, emulated, 16)
        emulated.kill()
        emulated.start()
        third = LiveGateway(emulated, gateway.collector)
        third.serve(lambda: gateway.collector.lost_earlier and len(gateway.collector.links) == 2)
        third.stop()
    lost = sum(last - first + 1 for _, spans in gateway.collector.lost_earlier for first, last in spans)
    assert lost >= 16


def test_main_is_the_firmware(board: Driver) -> None:
    """What boards start with compiles, and starts what `ports` says."""
    if not isinstance(board, UnixPort):
        pytest.skip("the others start no file")
    main = (Path(__file__).parent.parent / "firmware_bridge" / "covey_boards" / "device" / "main.py").read_bytes()
    ports = b"def main():\n    print('started')\n"
    program = "import sys\nsys.path.append('.')\nexec(open('main.py').read())\n"
    assert board.run(program, {"main.py": main, "ports.py": ports}).split() == ["started"]
    assert cross_compile("", Path(__file__).parent.parent / "firmware_bridge" / "covey_boards" / "device" / "main.py")


@pytest.mark.parametrize("text", ['{"interval_seconds": "ten", "intervall": 1}', "{", '{"sensors": [["scd41", {}]]}'])
def test_a_mistake_in_covey_json_is_seen(plug: Callable[..., EmulatedBoard | RealBoard], text: str) -> None:
    """The line is served, with what is usual, whatever the file says."""
    emulated = plug()
    if not isinstance(emulated, EmulatedBoard):
        pytest.skip("the file of a real board is written with its firmware")
    (emulated.flash / "covey.json").write_text(text)
    with _running(emulated) as gateway:
        gateway.serve(lambda: gateway.reports and gateway.troubles)
    assert str(gateway.troubles[0]).startswith("['scd41'" if "scd41" in text else "covey.json")


def test_a_board_that_cannot_start_says_why(plug: Callable[..., EmulatedBoard | RealBoard]) -> None:
    """Its flash is full at its first start: there is no room for an identity."""
    emulated = plug()
    if not isinstance(emulated, EmulatedBoard):
        pytest.skip("a real board's flash is not filled")
    (emulated.flash / "identity.key.new").mkdir()
    with _running(emulated) as gateway:
        gateway.serve(lambda: gateway.troubles)
    assert str(gateway.troubles[0]).startswith("the start: OSError")
    assert not gateway.identities
