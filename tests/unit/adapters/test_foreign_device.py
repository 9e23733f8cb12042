"""A device's program: it is told lines, killed, and its last words are kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from covey.adapters.foreign_device import ForeignDevice
from tests.waiting import wait_until

_ECHO = "import sys; [print('told', line.strip(), flush=True) for line in sys.stdin]"


@pytest.mark.processes
def test_lines_reach_its_standard_input_and_again_after_a_restart(tmp_path: Path) -> None:
    program = ForeignDevice([sys.executable, "-c", _ECHO], tmp_path / "log")
    program.start()
    program.write_line("set app.conformance eco")
    wait_until(lambda: program.last_words() == "told set app.conformance eco")
    program.kill()
    assert program.ended
    program.start()
    program.write_line("run conformance-check")
    wait_until(lambda: program.last_words().endswith("told run conformance-check"))
    program.stop()


@pytest.mark.processes
def test_a_program_that_has_ended_misses_its_lines(tmp_path: Path) -> None:
    program = ForeignDevice([sys.executable, "-c", "pass"], tmp_path / "log")
    program.start()
    wait_until(lambda: program.ended)
    program.write_line("set app.conformance eco")
    program.stop()
