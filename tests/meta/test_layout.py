"""Names and words: rules of the house that a syntax tree shows."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.meta.source_tree import PRODUCT, ROOT, Source, sources, within

_VAGUE = re.compile(r"(Manager|Helper|Util|Utils|Handler)$")


def test_classes_are_named_for_what_they_are() -> None:
    assert not [
        f"{source}: {node.name}"
        for source in sources(*PRODUCT)
        for node in source.nodes
        if isinstance(node, ast.ClassDef) and _VAGUE.search(node.name)
    ]


@cache
def _interfaces() -> dict[str, frozenset[str]]:
    """Return the methods that each interface documents, so that whoever implements it need not."""
    return {
        node.name: frozenset(
            part.name for part in node.body if isinstance(part, ast.FunctionDef) and ast.get_docstring(part)
        )
        for source in sources(*PRODUCT)
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
    }


@cache
def _of_the_store() -> frozenset[str]:
    """Return what the interfaces of the store and of the outside world document: adapters implement them all."""
    named = {
        node.name
        for source in sources("agent/covey/core/records", "agent/covey/ports.py")
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }
    return frozenset(method for name, methods in _interfaces().items() if name in named for method in methods)


def _is_documented_elsewhere(source: Source, owner: ast.ClassDef, method: ast.FunctionDef) -> bool:
    """Say whether a method implements an interface, or only names a part of one: its type says what that is."""
    if within(source.module, "covey.core.records"):
        return bool(method.decorator_list)
    if within(source.module, "covey.adapters") and method.name in _of_the_store():
        return True
    said = ast.get_docstring(owner) or ""
    implemented = re.findall(r"`(?:\w+\.)*(\w+)`", said) if re.search(r"\b[Ii]mplements\b", said) else []
    return any(method.name in _interfaces().get(name, ()) for name in implemented)


def _unexplained(source: Source) -> list[str]:
    """Name the module, public classes, functions and methods without a docstring."""
    found = [] if ast.get_docstring(source.tree) else [str(source)]
    for node in source.tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        in_cli = within(source.module, "covey.cli")
        if isinstance(node, ast.FunctionDef) and (in_cli or within(source.module, "covey.adapters")):
            continue  # many words in the core's rules, few elsewhere
        methods = node.body if isinstance(node, ast.ClassDef) and not in_cli else []
        parts = [node, *(part for part in methods if isinstance(part, ast.FunctionDef))]
        found += [
            f"{source}: {node.name}.{part.name}"
            for part in parts
            if not part.name.startswith("_") and not ast.get_docstring(part)
            if isinstance(node, ast.FunctionDef)
            or isinstance(part, ast.ClassDef)
            or not _is_documented_elsewhere(source, node, part)
        ]
    return found


def test_modules_classes_and_public_functions_say_what_they_are_for() -> None:
    found = [source for source in sources("agent", "spark_ingest", "broker_conf") if source.lines]
    assert not [name for source in found for name in _unexplained(source)]


def _sleeps(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "sleep" and isinstance(node.value, ast.Name) and node.value.id == "time"
    return (
        isinstance(node, ast.ImportFrom) and node.module == "time" and any(each.name == "sleep" for each in node.names)
    )


def test_no_test_sleeps_but_to_look_again() -> None:
    """Tests wait on a condition with a deadline. A pause stands only in a loop that asks for the condition."""
    for source in sources("tests", "hil"):
        sleeps = [node for node in source.nodes if _sleeps(node)]
        if not sleeps:
            continue
        polls = [
            inner
            for loop in source.nodes
            if isinstance(loop, ast.While | ast.For)
            for inner in ast.walk(loop)
            if _sleeps(inner)
        ]
        assert {id(node) for node in sleeps} <= {id(node) for node in polls}, source


def test_acceptance_ids_are_well_formed() -> None:
    said = [
        (str(source), each.strip())
        for source in sources("tests", "hil")
        for line in re.findall(
            r"^(?:.*:)?\s*# accepts:?\s+(.*)$", source.path.read_text(encoding="utf-8"), re.MULTILINE
        )
        for each in line.split(",")
    ]
    assert said
    assert not [pair for pair in said if not re.fullmatch(r"00[0-4]\.\d\d", pair[1])]


def test_every_package_folder_is_one() -> None:
    folders = {source.path.parent for source in sources("agent", "spark_ingest", "broker_conf")}
    assert not [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()]
