"""The drivers of chips under real MicroPython say what they say under CPython; the chips are emulated, buses are not.

What an interrupt or a wire does on a microcontroller is not shown here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hil.boards.firmware_files import DEVICE, sources

if TYPE_CHECKING:
    from hil.boards.drivers import Driver

HERE = Path(__file__).parent
WITHOUT_A_BOARD = f"""
import sys, time
sys.path[:0] = {[str(DEVICE), str(HERE.parent)]!r}  # PYTHONSAFEPATH may be set: Spark's tests
time.sleep_ms, time.ticks_ms, time.ticks_diff = int, int, int.__sub__
from hil.on_board import driver_runner
driver_runner.main()
"""
PROGRAM = "import sys\nsys.path.append('.')\nimport driver_runner\ndriver_runner.main()\n"
LINES = 20  # one of them a refusal


def test_drivers_say_the_same_on_a_board(board: Driver) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap hold single primitives only: test_microbit.py")
    files = {
        **sources(),
        **{name: (HERE / "on_board" / name).read_bytes() for name in ("chips_on_board.py", "driver_runner.py")},
    }
    printed = board.run(PROGRAM, files).split("\n")
    assert len([line for line in printed if line]) == LINES, printed
    command = [sys.executable, "-c", WITHOUT_A_BOARD]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in printed] == [line.strip() for line in done.stdout.split("\n")]
