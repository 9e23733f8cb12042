"""`tweetnacl` as a library of its own: its page's example runs on every runtime."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from hil.firmware_files import SHARED, board_modules

if TYPE_CHECKING:
    from hil.drivers import Driver

SAID = "21.53 Cel\nvalve 3 open\nrefused\n"


def _example() -> str:
    (example,) = re.findall(r"```python\n(.*?)```", (SHARED / "README.md").read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 20
    return str(example)


def _shim() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in board_modules() if path.stem.startswith("tweetnacl")}


def test_the_example_of_its_page(board: Driver) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap hold single primitives only")
    program = "import sys\nsys.path.append('.')\nimport example\n"
    without_a_source = "import tweetnacl\nif tweetnacl._urandom is None:\n    tweetnacl.set_randombytes(bytes)\n"
    example = {"example.py": (without_a_source + _example()).encode()}
    assert board.run(program, {**_shim(), **example}) == SAID
