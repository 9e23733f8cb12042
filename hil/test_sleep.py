"""Boards that sleep: the same seeded nights on every runtime, and the whole firmware that forgets its RAM."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hil.boards.drivers import Driver, UnixPort
from hil.boards.emulated_board import EmulatedBoard
from hil.boards.firmware_files import sources
from hil.boards.live_gateway import LiveGateway
from hil.on_board import firmware_simulation, link_simulation, sleep_simulation

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = "import sys\nsys.path.append('.')\nimport sleep_simulation\nsleep_simulation.run()\n"
NIGHT = {"interval_seconds": 0.6, "batch_seconds": 1.5, "sensors": [["counter", {}]]}
HEAP_KIB = 80  # what it keeps is encoded whole


def test_sleeps_are_the_same_everywhere(board: Driver) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap: frames only")
    simulations = [Path(str(each.__file__)) for each in (firmware_simulation, link_simulation, sleep_simulation)]
    printed = board.run(PROGRAM, sources() | {path.name: path.read_bytes() for path in simulations})
    with redirect_stdout(io.StringIO()) as here:
        sleep_simulation.run()
    assert printed.split() == here.getvalue().split()


class Sleeper:
    """An emulated board that is started anew whenever its deep sleep has ended it."""

    def __init__(self, folder: Path, board: UnixPort, modules: dict[str, bytes], sleep: str) -> None:
        seam = (Path(__file__).parent / "on_board" / "sleep_on_board.py").read_text(encoding="utf-8")
        settings = {**NIGHT, "sleep": sleep}
        self.emulated = EmulatedBoard(
            folder, tool=board.tool, modules=modules, settings=settings, heap_kib=HEAP_KIB, before=seam
        )
        self.memory = folder / "clock.memory"
        self.starts = 1
        self.emulated.start()
        self.gateway = LiveGateway(self.emulated)

    def serve(self, until: Callable[[], object]) -> None:
        """Do a gateway's work, through all sleeps, until something is so."""
        while True:
            try:
                return self.gateway.serve(until)
            except TimeoutError:
                if self.emulated.alive:
                    raise
                assert not self.emulated.said, self.emulated.said
                self.starts += 1
                self.emulated.start()

    def count(self) -> int:
        """Return how many readings have come."""
        return len(self.gateway.collector.values())


@pytest.mark.parametrize("sleep", ["deep", "light"])
def test_a_board_goes_on_after_each_sleep(
    board: Driver, artefacts: Callable[[str], dict[str, bytes]], tmp_path: Path, sleep: str
) -> None:
    """Outbox, time and line outlast it; a power cut in it begins a new lifetime, of which no sequence was used."""
    if not isinstance(board, UnixPort):
        pytest.skip(f"{board.name} has no standard input to serve as a line")
    sleeper = Sleeper(tmp_path, board, dict(artefacts(board.architecture)), sleep)
    try:
        sleeper.serve(lambda: sleeper.count() >= 8)
        values = sleeper.gateway.collector.values()
        assert values == list(range(1, len(values) + 1))
        assert len(sleeper.gateway.collector.links) == 1
        assert len(sleeper.gateway.identities) <= 3, "the line went on, too"
        assert not (sleeper.emulated.flash / "sleep.cbor").exists()
        if sleep == "deep":
            assert sleeper.starts > 3
            sleeper.serve(sleeper.memory.read_bytes)
            sleeper.emulated.kill()
            sleeper.memory.unlink()
            sleeper.emulated.start()
            sleeper.serve(lambda: len(sleeper.gateway.collector.links) == 2)
        assert not sleeper.emulated.said
    finally:
        sleeper.gateway.stop()
        sleeper.emulated.close()
