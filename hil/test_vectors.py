"""Every vector on every runtime: as source, and as the artefact that a board of the same architecture would load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hil import vectors
from hil.boards.excerpt import excerpt
from hil.boards.firmware_files import board_modules, device_modules

if TYPE_CHECKING:
    from collections.abc import Callable

    from hil.boards.drivers import Driver

RUNNER = Path(__file__).parent / "on_board" / "vector_runner.py"
PROGRAM = "import sys\nsys.path.append('.')\nimport vector_runner\nvector_runner.run('vectors.txt')\n"
ARCHITECTURES = ("armv6m", "armv7m", "armv7emsp", "xtensawin", "rv32imc")


def _files(modules: dict[str, bytes], source: str) -> dict[str, bytes]:
    text = "\n".join(vectors.lines(source)) + "\n"
    return {**modules, RUNNER.name: RUNNER.read_bytes(), "vectors.txt": text.encode()}


def _count(source: str) -> int:
    return sum(1 for line in vectors.lines(source) if not line.startswith("#"))


def _needs_files(board: Driver) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap hold single primitives only: test_microbit.py")


@pytest.mark.parametrize("source", vectors.SOURCES)
def test_from_source(board: Driver, source: str) -> None:
    _needs_files(board)
    modules = {path.name: path.read_bytes() for path in board_modules()}
    printed = board.run(PROGRAM, _files(modules, source))
    assert printed.split("\n")[-2].split()[1] == f"{_count(source)}/{_count(source)}", printed


@pytest.mark.parametrize("source", ["published", "pynacl"])
def test_from_artefact(board: Driver, artefacts: Callable[[str], dict[str, bytes]], source: str) -> None:
    _needs_files(board)
    printed = board.run(PROGRAM, _files(artefacts(board.architecture), source))
    implementation, passed = printed.split("\n")[-2].split()
    assert implementation == ("viper" if board.architecture else "plain")
    assert passed == f"{_count(source)}/{_count(source)}", printed


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_artefacts_for_boards(artefacts: Callable[[str], dict[str, bytes]], architecture: str) -> None:
    built = artefacts(architecture)
    assert {f"{path.stem}.mpy" for path in (*board_modules(), *device_modules())} == set(built)
    assert all(data[:2] == b"M\x06" for data in built.values())  # .mpy version 6, which 1.23 and later load


def test_plain_python(board: Driver) -> None:
    """The fallback, also on ports that would not choose it."""
    _needs_files(board)
    left_out = ("tweetnacl_viper", "tweetnacl_curve", "tweetnacl_field", "tweetnacl_limbs")
    modules = {path.name: path.read_bytes() for path in board_modules() if path.stem not in left_out}
    printed = board.run(PROGRAM, _files(modules, "published"))
    assert printed.split("\n")[-2] == f"plain {_count('published')}/{_count('published')}", printed


# "Cryptography in NaCl", section 8: the key of a box out of the secret that Alice and Bob share.
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
FIRST_KEY = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")


def test_single_primitives_on_the_smallest_board(board: Driver) -> None:
    if board.name != "microbit":
        pytest.skip("the others run everything")
    program = excerpt("tweetnacl_plain", "onetimeauth", "hsalsa20")
    program += f"assert hsalsa20({SHARED!r}, bytes(16)) == {FIRST_KEY!r}\n"
    for line in vectors.lines("published"):
        if line.startswith("onetimeauth"):
            message, key, tag = map(bytes.fromhex, line.split()[1:])
            program += f"assert onetimeauth({message!r}, {key!r}) == {tag!r}\n"
    assert board.run(program + "print('ok')\n").split() == ["ok"]
