"""Every setting is read: what its owner writes into a file changes something.

A setting is a field of one of the schema's dataclasses. It is read where its attribute is taken from a value of that
class: from `….SECTION` (`config.relay.url`), or from a name that the same file annotates with the class, or assigns
such a value (`settings: RelayConfig`, then `settings.url`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields

import pytest

from covey.config import doors, sensors
from covey.config.schema import SECTIONS, Config
from tests.meta.source_tree import Source, sources

_PARTS = (sensors.Topic, sensors.Register, doors.Common)
"""Of entries; what is called so in small letters is one."""

_KINDS: list[type] = [each.settings for each in sensors.KINDS.values()]
_KINDS += [each.settings for each in doors.KINDS.values()]
_CLASSES = (Config, *SECTIONS.values(), *_KINDS, *_PARTS)
_OF_SECTION = {section: kind.__name__ for section, kind in SECTIONS.items()}
_CLASS_NAMES = {kind.__name__ for kind in _CLASSES}

_SETTINGS = [
    f"{kind.__name__}.{each.name}" for kind in _CLASSES for each in fields(kind) if each.name not in _OF_SECTION
]


def _name(node: ast.expr) -> str:
    """Return the last name of `a`, `a.b`, `self._b`."""
    found = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return found.lstrip("_")


def _names(node: ast.AST) -> set[str]:
    """Return all names in an expression, without what they are attributes of."""
    return {_name(part) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)}


def _annotated(source: Source) -> Iterator[tuple[str, str]]:
    """Yield (name, class) where a file says of which class a name's value is, or the members of it."""
    for node in source.nodes:
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                yield from ((name, each) for each in _names(annotation) & _CLASS_NAMES)
            case ast.AnnAssign(target=target, annotation=annotation):
                yield from ((_name(target), each) for each in _names(annotation) & _CLASS_NAMES)
            case ast.MatchAs(name=str(name), pattern=ast.MatchClass(cls=kind)):
                yield from ((name, each) for each in _names(kind) & _CLASS_NAMES)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                yield from _assigned(targets, values)
            case ast.Assign(targets=targets, value=value):
                yield from _assigned(targets, [value])


def _assigned(targets: list[ast.expr], values: list[ast.expr]) -> Iterator[tuple[str, str]]:
    for target, value in zip(targets, values, strict=False):
        if isinstance(value, ast.Attribute) and value.attr in _OF_SECTION:
            yield _name(target), _OF_SECTION[value.attr]


def _read(source: Source) -> Iterator[str]:
    """Yield `Class.field` of what a file reads."""
    known = {name: {kind} for name, kind in _OF_SECTION.items()}
    known |= {kind.__name__.lower(): {kind.__name__} for kind in _PARTS}
    for name, kind in _annotated(source):
        known.setdefault(name.lstrip("_"), set()).add(kind)
    for node in source.nodes:
        if isinstance(node, ast.comprehension | ast.For):
            of_members = set[str]().union(*(known.get(name, set()) for name in _names(node.iter)))
            known.setdefault(_name(node.target), set()).update(of_members & {kind.__name__ for kind in _PARTS})
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from (f"{kind}.{node.attr}" for kind in known.get(_name(node.value), ()))
        elif isinstance(node, ast.ClassDef) and node.name in _CLASS_NAMES:
            own = (part for part in ast.walk(node) if isinstance(part, ast.Attribute) and _name(part.value) == "self")
            yield from (f"{node.name}.{part.attr}" for part in own)


_READ = {found for source in sources("agent", "firmware_bridge") for found in _read(source)}


@pytest.mark.parametrize("setting", _SETTINGS)
def test_every_setting_is_read(setting: str) -> None:
    assert setting in _READ, f"nothing reads {setting}: remove it, or read it"
