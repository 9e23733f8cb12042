"""A line of the log that names a device says what it is called as well: forty gateways are no forty hex strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.meta.source_tree import Source, sources

_LINES = {"report", "_report"}
_NAMED = {"labelled_name"}


def _by_key_alone(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of `device_name` that stand by themselves in what is said."""
    for child in ast.iter_child_nodes(node):
        called = child.func if isinstance(child, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in _NAMED:
            continue
        if isinstance(child, ast.Call) and isinstance(called, ast.Name) and called.id == "device_name":
            yield child
        yield from _by_key_alone(child)


def _lines(source: Source) -> Iterator[ast.Call]:
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _LINES:
                yield node


def test_no_line_of_the_log_names_a_device_by_its_key_alone() -> None:
    found = [
        f"{source.path}:{call.lineno}"
        for source in sources("agent", "firmware_bridge")
        for line in _lines(source)
        for call in _by_key_alone(line)
    ]
    assert found == []
