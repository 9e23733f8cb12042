"""The field machine's programs never overflow a word: bounds of limbs, followed through each program to the end.

The machine itself is viper, which CPython does not run; `hil/test_vectors.py` shows that it computes the right values.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from covey_boards.shared import tweetnacl_plain

SHARED = Path(inspect.getfile(tweetnacl_plain)).parent
LOADED = 2**13 - 1
REDUCED = 2**12 + 2
A24 = 121665
FOLD = 608
# What a carry brings from the limb below, what the high half brings back, and the bias that rounds.
ON_TOP = 2**18 + FOLD * LOADED + 2**12
WORD = 2**31


def _programs() -> dict[str, bytes]:
    """Return the constants of `tweetnacl_curve` that are programs, and those that stand inside of its functions."""
    tree = ast.parse((SHARED / "tweetnacl_curve.py").read_text(encoding="utf-8"))
    named = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bytes)
    }
    return {name: program for name, program in named.items() if name not in ("_ONE", "_D", "_SQRT_M1")}


PROGRAMS = _programs()


def _run(registers: dict[str, int], program: bytes) -> None:
    """Follow a program over bounds of registers, and fail where a sum may not fit into a word."""
    for i in range(0, len(program), 4):
        operation, out, a, b = map(chr, program[i : i + 4])
        x = registers[a]
        y = x if operation == "^" else registers[b]
        step = program[i : i + 4]
        if operation in "*^":
            assert 20 * x * y + ON_TOP < WORD, step
        elif operation == "#":
            assert x + A24 * y + ON_TOP < WORD, step
        elif operation == "=":
            registers[chr(ord(out) + 1)] = x + y
        else:
            assert operation in "+-", step
        registers[out] = x + y if operation == "=" else REDUCED


def test_ladder() -> None:
    # x2, z2 = 1, 0 and x3, z3 = the point, 1, either of which may be the other after a swap.
    registers = dict(zip("HIJKL", (LOADED, 1, LOADED, 1, LOADED), strict=True))
    _run(registers, PROGRAMS["_LADDER_STEP"])
    assert [registers[name] for name in "HIJKL"] == [REDUCED] * 4 + [LOADED]
    _run(registers, PROGRAMS["_LADDER_STEP"])


@pytest.mark.parametrize("added", [LOADED, REDUCED])
@pytest.mark.parametrize("start", [(0, 1, 1, 0), (REDUCED, REDUCED, 1, REDUCED)])
def test_points(start: tuple[int, ...], added: int) -> None:
    """The identity, or a point that was decoded, is doubled; then something is added; and all results are carried."""
    registers = dict(zip("HIJK", start, strict=True)) | dict.fromkeys("LMN", added)
    for program in ("_DOUBLE", "_ADD_POINT", "_ADD_POINT", "_DOUBLE"):
        _run(registers, PROGRAMS[program])
        assert [registers[name] for name in "HIJK"] == [REDUCED] * 4


def test_powers() -> None:
    registers = {"A": REDUCED}
    for name in ("_POWER_250", "_FINISH_INVERSE", "_POWER_250", "_FINISH_ROOT"):
        _run(registers, PROGRAMS[name])


@pytest.mark.parametrize("program", [b"=CAB=CCA*DCC", b"=CAL*DCC"])
def test_more_than_one_sum_of_carried_elements_is_found(program: bytes) -> None:
    with pytest.raises(AssertionError):
        _run({"A": REDUCED, "B": REDUCED, "L": LOADED}, program)
