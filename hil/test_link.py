"""Framing and link on the runtimes themselves: the same seeded lives as on CPython, and no byte more or less."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey_boards.shared import framing
from hil.boards.excerpt import excerpt
from hil.boards.firmware_files import board_modules
from hil.on_board import link_simulation

if TYPE_CHECKING:
    from hil.boards.drivers import Driver

SEEDS, RESETS = 12, 2
PROGRAM = f"import sys\nsys.path.append('.')\nimport link_simulation\nlink_simulation.run({SEEDS}, {RESETS})\n"


def test_seeded_lives_are_the_same_everywhere(board: Driver) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap: frames only")
    modules = {path.name: path.read_bytes() for path in board_modules() if not path.stem.startswith("tweetnacl")}
    simulation = Path(link_simulation.__file__)
    printed = board.run(PROGRAM, {**modules, simulation.name: simulation.read_bytes()}, heap_kib=256)
    with redirect_stdout(io.StringIO()) as here:
        link_simulation.run(SEEDS, RESETS)
    assert printed.split() == here.getvalue().split()


def test_frames_on_the_smallest_board(board: Driver) -> None:
    if board.name != "microbit":
        pytest.skip("the others run everything")
    program = excerpt("framing", "encode", "Decoder")
    frame = framing.encode(b"\0reading\0")
    program += f"frame = encode(b'\\0reading\\0')\nassert frame == {frame!r}\n"
    program += "decoder = Decoder(48)\nassert decoder.receive_bytes(b'noise' + frame[:5]) == []\n"
    program += "assert decoder.receive_bytes(frame) == [b'\\0reading\\0']\nprint('ok')\n"
    assert board.run(program).split() == ["ok"]
