"""Parts are joined by composition: no class is cut into mixins."""

from __future__ import annotations

import ast
import builtins
from functools import cache

from tests.meta.source_tree import PRODUCT, Source, sources

_Class = tuple[Source, ast.ClassDef]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _classes() -> tuple[_Class, ...]:
    return tuple(
        (source, node) for source in sources(*PRODUCT) for node in source.nodes if isinstance(node, ast.ClassDef)
    )


@cache
def _by_name() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for _, node in _classes():
        found.setdefault(node.name, []).append(node)
    return found


def _base_names(node: ast.ClassDef) -> list[str]:
    names = []
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        names.append(plain.attr if isinstance(plain, ast.Attribute) else getattr(plain, "id", ""))
    return names


def _methods(node: ast.ClassDef) -> list[_Function]:
    return [part for part in node.body if isinstance(part, _Function)]


def test_no_class_calls_itself_a_part_of_another() -> None:
    slices = [
        f"{source}: {node.name}"
        for source, node in _classes()
        if (ast.get_docstring(node) or "").startswith("Part of ") or node.name.endswith("Mixin")
    ]
    assert not slices


@cache
def _sets(node: ast.ClassDef) -> set[str]:
    """Return the names that a class itself gives to its instances; a bare annotation gives none, but to a dataclass."""
    names = {each.name for each in _methods(node)}
    holds = bool(node.decorator_list) or {"NamedTuple", "Protocol", "TypedDict"} & set(_base_names(node))
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store | ast.Del) and _is_self(part.value):
            names.add(part.attr)
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            targets = (each for target in statement.targets for each in ast.walk(target))
            names |= {each.id for each in targets if isinstance(each, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if holds or statement.value is not None:
                names.add(statement.target.id)
        elif isinstance(statement, ast.ClassDef):
            names.add(statement.name)
    return names


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _known(node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> set[str] | None:
    """Return what a class and its bases set; None where a base is none of ours, so that nobody can say."""
    names = _sets(node)
    for base in _base_names(node):
        if base in {"Protocol", "object", "ABC", "Generic"} or base in seen:
            continue
        ours = _by_name().get(base)
        if ours is None:
            if not isinstance(getattr(builtins, base, None), type):
                return None
            names |= set(dir(getattr(builtins, base)))
            continue
        for each in ours:
            above = _known(each, seen | {node.name})
            if above is None:
                return None
            names |= above
    return names | set(dir(object))


def test_a_class_uses_only_what_it_or_its_bases_set() -> None:
    """A slice of a class uses fields that its siblings set: it cannot be read, tested or replaced alone."""
    foreign = []
    for source, node in _classes():
        known = _known(node)
        if known is None:
            continue
        used = {
            part.attr
            for method in _methods(node)
            for part in ast.walk(method)
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and _is_self(part.value)
        }
        foreign += [f"{source}: {node.name}.{name}" for name in sorted(used - known - {"__class__", "__dict__"})]
    assert not foreign
