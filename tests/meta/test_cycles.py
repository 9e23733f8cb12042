"""No two files import each other, nor do several in a circle: each can be read, and replaced, before those above it.

An import counts wherever it stands: one in a function, or for type checkers alone, needs the other file's words just as
well. What only a type wants belongs into a Protocol, or into a file below both.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.meta.source_tree import PRODUCT, sources


def _cycles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of files that reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        path.append(name)
        for other in imports[name]:
            if other not in order:
                visit(other)
            if other in path:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == order[name]:
            start = path.index(name)
            if len(path) - start > 1:
                found.append(sorted(path[start:]))
            del path[start:]

    for name in imports:
        if name not in order:
            visit(name)
    return found


def test_a_circle_is_found() -> None:
    assert _cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "c"}}) == [["b", "c"]]
    assert _cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_files_import_each_other() -> None:
    files = {source.module: source for source in sources(*PRODUCT)}
    imports = {name: {other for other in source.imports if other in files} - {name} for name, source in files.items()}
    assert not _cycles(imports)
