"""On a processor without an operating system: vectors through the native module and viper, and the whole firmware."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey.limits.board import BOARD_PART_BYTES
from covey_boards.images import BoardImage, read_image, write_image
from covey_boards.shared import cbor, messages
from covey_boards.updates import RECEIVING, TRIED
from hil import vectors
from hil.boards import bare_metal
from hil.boards.firmware_files import board_modules, written
from hil.boards.live_gateway import LiveGateway
from hil.boards.runtimes import MissingError
from hil.conftest import cross_compile, missing_device
from hil.on_board.firmware_simulation import Collector, counters_of
from tests.fleet import identity

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNER = Path(__file__).parent / "on_board" / "vector_runner.py"
PROGRAM = "import vector_runner\nvector_runner.run('vectors.txt')\n"
FALLBACK = "import sys\nimport tweetnacl_soft\nsys.modules['_tweetnacl'] = tweetnacl_soft\n"
OPERATOR = identity("operator")
SMALL_HEAP_BYTES = 64 * 1024
QUICK = {"interval_seconds": 0.1, "report_seconds": 2, "batch_seconds": 0.5, "sensors": [["counter", {}]]}


@pytest.fixture(autouse=True)
def _built(request: pytest.FixtureRequest) -> None:
    try:
        bare_metal.build()
    except MissingError as error:
        missing_device(request.config, "mps2", error)


@pytest.mark.parametrize(
    ("before", "implementation", "sources"),
    [("", "native", vectors.SOURCES), (FALLBACK, "viper", ("published", "pynacl"))],
    ids=["native", "viper"],
)
def test_vectors(before: str, implementation: str, sources: tuple[str, ...], tmp_path: Path) -> None:
    lines = [line for source in sources for line in vectors.lines(source) if not line.startswith("#")]
    files = {path.name: path.read_bytes() for path in (*board_modules(), RUNNER)}
    printed = bare_metal.Machine(tmp_path).run(
        before + PROGRAM, {**files, "vectors.txt": ("\n".join(lines) + "\n").encode()}
    )
    assert printed == f"{implementation} {len(lines)}/{len(lines)}\n"


def _newer(modules: dict[str, bytes], folder: Path) -> BoardImage:
    """Return an image of the same firmware with another name of itself."""
    (folder / "sources").mkdir()
    changed = dict(modules)
    for source in written(folder / "sources"):
        if source.stem == "messages":
            source.write_bytes(source.read_bytes().replace(b"covey-board 0.2.0", b"covey-board 9.0.0"))
            changed["messages.mpy"] = cross_compile("", source)
    return read_image(write_image(changed, bare_metal.ARCHITECTURE, SMALL_HEAP_BYTES, OPERATOR))


def _gaps(collector: Collector) -> list[tuple[int, int]]:
    """Return the last reading of a batch and the first one of the next, of any start, where some lack in between."""
    found = []
    for taken in collector.links.values():
        bodies = [each[1] for each in taken.values() if each and each[0] == messages.TELEMETRY]
        batches = {cbor.decode(body, 4096)[0]: counters_of(body) for body in bodies}
        ends = [(batches[number - 1][-1], values[0]) for number, values in batches.items() if number - 1 in batches]
        found += [(last, first) for last, first in ends if first != last + 1]
    return found


def test_the_whole_firmware_on_a_line_with_faults(artefacts: Callable[[str], dict[str, bytes]], tmp_path: Path) -> None:
    """As `covey mcu flash` writes it, without the native module: UART, LittleFS, and a power cut.

    After that it starts from a ROM file system, in half of the heap: native code is all of the code that lies there.
    There it takes a firmware, of which the line brings what is not in ROM.
    """
    board = bare_metal.BareMetalBoard(
        tmp_path, modules=artefacts(bare_metal.ARCHITECTURE), settings=QUICK, permille=10, before=FALLBACK
    )
    board.start()
    gateway = LiveGateway(board)
    gateway.operators = [OPERATOR.signing_public]
    try:
        gateway.serve(lambda: gateway.reports and len(gateway.collector.values()) >= 10)
        assert gateway.reports[0]["out_of_memory"] == 0
        board.kill()
        board.flash_rom(artefacts(bare_metal.ARCHITECTURE), SMALL_HEAP_BYTES, FALLBACK)
        board.start()
        gateway.serve(lambda: len(gateway.collector.links) == 2 and len(gateway.collector.runs()[1]) >= 10)
        assert len({each.signing_public for each in gateway.identities}) == 1, "it has lost its flash"
        reports = len(gateway.reports)
        gateway.serve(lambda: len(gateway.reports) > reports)
        assert gateway.reports[-1]["out_of_memory"] == 0
        gateway.image = _newer(artefacts(bare_metal.ARCHITECTURE), tmp_path)
        gateway.announce()
        gateway.live(lambda: gateway.progress and gateway.progress[-1][0] != RECEIVING)
        assert gateway.progress[-1] == (TRIED, len(gateway.image.contents), "")
        assert len(gateway.progress) * BOARD_PART_BYTES < 10_000 < len(gateway.image.contents)
        for values in gateway.collector.runs():
            assert values[:1] == [1][: len(values)], "from the first reading on"
        assert not _gaps(gateway.collector), "what a starved board drops is whole batches, and shows by their numbers"
        assert not gateway.troubles
    finally:
        gateway.stop()
        board.close()
