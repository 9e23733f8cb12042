"""Cut single functions out of a shared module, with what they use, for boards that cannot hold all of it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = Path(__file__).resolve().parents[2] / "firmware_bridge" / "covey_boards" / "shared"


def _named(node: ast.stmt) -> str | None:
    """Return the name that a statement at the top of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, and in place of an import that may fail what takes its place."""
    for node in body:
        if isinstance(node, ast.Try):
            yield from node.handlers[0].body
        else:
            yield node


def _without_docstrings(node: ast.AST) -> None:
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(inner) is not None:
            inner.body = inner.body[1:] or [ast.Pass()]


def excerpt(module: str, *names: str) -> str:
    """Return the source of `names` and of all that they refer to in the module, without docstrings."""
    tree = ast.parse((SHARED / f"{module}.py").read_text())
    statements = {name: node for node in _statements(tree.body) if (name := _named(node))}
    wanted: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            used = {node.id for node in ast.walk(statements[name]) if isinstance(node, ast.Name)}
            pending += used & statements.keys()
    chosen = [node for name, node in statements.items() if name in wanted]
    for node in chosen:
        _without_docstrings(node)
    return "\n".join(map(ast.unparse, chosen)) + "\n"
