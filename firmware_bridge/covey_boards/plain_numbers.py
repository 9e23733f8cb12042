"""Firmware with numbers in the place of the names of public constants, where only the firmware needs them.

MicroPython compiles a constant away if its name begins with an underscore, and only in its own file. Others, which one
file gives to another, take a name, a place in the file's dictionary, and bytecode for each use: a kilobyte in all.

1. A constant is a name in capitals that a file binds to a whole number, once, at its top. What another file takes by
   `from ... import` stays.
2. Where the file itself, or `FILE.NAME` in another one, means it, its number stands; its definition goes. Lines stay.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PUBLIC = re.compile(r"[A-Z][A-Z0-9_]*")


def with_numbers(sources: Mapping[str, str]) -> dict[str, str]:
    """Return Python sources by file name, with numbers."""
    trees = {name: ast.parse(source) for name, source in sources.items()}
    taken = {each.name for tree in trees.values() for each in _imported(tree)}
    numbers = {name.removesuffix(".py"): _constants(tree, taken) for name, tree in trees.items()}
    return {name: _written(sources[name], tree, name.removesuffix(".py"), numbers) for name, tree in trees.items()}


def _imported(tree: ast.Module) -> list[ast.alias]:
    return [each for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names]


def _constants(tree: ast.Module, taken: set[str]) -> dict[str, int]:
    """Rule 1."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found.update({name: value for name, value in _bound(node).items() if name not in taken})
    bound = [each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    return {name: value for name, value in found.items() if bound.count(name) == 1}


def _bound(node: ast.Assign) -> dict[str, int]:
    """Return which constants an assignment binds, if it binds nothing else."""
    target = node.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    values = node.value.elts if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) else [node.value]
    found = {}
    for each, value in zip(targets, values, strict=False):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "const":
            value = value.args[0]  # noqa: PLW2901
        number = isinstance(value, ast.Constant) and type(value.value) is int
        if number and isinstance(each, ast.Name) and _PUBLIC.fullmatch(each.id):
            assert isinstance(value, ast.Constant)
            found[each.id] = int(value.value)  # type: ignore[arg-type]
    return found if len(found) == len(targets) else {}


def _written(source: str, tree: ast.Module, own: str, numbers: Mapping[str, Mapping[str, int]]) -> str:
    """Rule 2."""
    changes = []
    for node in ast.walk(tree):
        number = None
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        if isinstance(node, ast.Name):
            number = numbers[own].get(node.id) if isinstance(node.ctx, ast.Load) else None
        elif isinstance(node.value, ast.Name):
            number = numbers.get(node.value.id, {}).get(node.attr)
        if number is not None:
            changes.append((node.lineno, node.col_offset, node.end_col_offset, str(number)))
    for each in tree.body:
        if isinstance(each, ast.Assign) and _bound(each).keys() & numbers[own].keys():
            assert each.lineno == each.end_lineno
            changes.append((each.lineno, each.col_offset, each.end_col_offset, "pass"))
    lines = source.splitlines(keepends=True)
    for row, start, end, text in sorted(changes, reverse=True):
        line = lines[row - 1].encode()
        lines[row - 1] = (line[:start] + text.encode() + line[end:]).decode()
    return "".join(lines)
