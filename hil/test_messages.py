"""The protocol's vectors on every runtime: what a board writes is byte for byte what an agent writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hil import message_vectors
from hil.boards.firmware_files import DEVICE, board_modules
from hil.on_board import message_runner

if TYPE_CHECKING:
    from hil.boards.drivers import Driver

RUNNER = Path(__file__).parent / "on_board" / "message_runner.py"
PROGRAM = "import sys\nsys.path.append('.')\nimport message_runner\nmessage_runner.run('lines.txt')\n"


@pytest.mark.parametrize("source", message_vectors.SOURCES)
def test_on_a_board(board: Driver, source: str) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap do not hold the messages")
    lines = list(message_vectors.SOURCES[source]())
    files = {
        path.name: path.read_bytes()
        for path in (*board_modules(), DEVICE / "identity.py", DEVICE / "link_keys.py", RUNNER)
    }
    printed = board.run(PROGRAM, files | {"lines.txt": "\n".join(lines).encode() + b"\n"})
    assert printed.split("\n")[-2] == f"messages {len(lines)}/{len(lines)}", printed


@pytest.mark.parametrize("source", message_vectors.SOURCES)
def test_on_this_machine(source: str) -> None:
    lines = list(message_vectors.SOURCES[source]())
    assert len(lines) > 5
    for line in lines:
        function, *arguments, expected = line.split()
        assert message_runner.answer(function, arguments) == expected, line[:200]
