"""The project's own Python, as syntax trees: what the house rules are checked on."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("agent", "spark_ingest", "firmware_bridge", "broker_conf", "demo", "bench", "hil")
"""Top folders with Python of ours, the tests aside."""

HOLDS_PACKAGES = ("agent", "spark_ingest", "firmware_bridge")
"""Top folders that are no packages themselves: what they ship lies in the packages below them."""

_PLACED = (
    *(ast.expr, ast.stmt, ast.arguments, ast.arg, ast.keyword, ast.alias, ast.comprehension),
    *(ast.excepthandler, ast.withitem, ast.match_case, ast.pattern),
)


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: Path
    module: str
    tree: ast.Module
    lines: int

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return every node of the tree, but no `ctx` or operator: these have no place in the file."""
        return tuple(_walk(self.tree))

    @cached_property
    def imports(self) -> set[str]:
        """Return every module named in an import, wherever it stands."""
        return set(self._imports(self.nodes))

    @cached_property
    def loads(self) -> set[str]:
        """Return every module that is imported when this one runs: not those that only annotations name."""
        named_only = {
            id(part)
            for node in self.nodes
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for statement in node.body
            for part in ast.walk(statement)
        }
        return set(self._imports(node for node in self.nodes if id(node) not in named_only))

    def _imports(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        package = self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    part = f"{base}.{alias.name}"
                    yield part if _is_ours(part) else base

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield (name, lines) of every function."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))


def _walk(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes in the order of `ast.walk`, three times as quickly: the house has a million."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # which grows
        for field in node._fields:
            part = getattr(node, field, None)
            if isinstance(part, list):
                nodes += [each for each in part if isinstance(each, _PLACED)]
            elif isinstance(part, _PLACED):
                nodes.append(part)
    return nodes


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Return every Python file below the folders."""
    found = []
    gc.disable()  # the trees are a million objects and no garbage: looking for some takes longer than all the rest
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if not any(part.startswith(".") for part in relative.parts):
                found.append(_source(relative))
                _ = found[-1].nodes
    gc.freeze()
    gc.enable()
    return tuple(found)


@cache
def _source(relative: Path) -> Source:
    parts = relative.with_suffix("").parts
    if parts[0] in HOLDS_PACKAGES:
        parts = parts[1:]
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = (ROOT / relative).read_text(encoding="utf-8")
    return Source(ROOT / relative, module, ast.parse(text, str(relative)), len(text.splitlines()))


@cache
def _is_ours(module: str) -> bool:
    roots = (ROOT, *(ROOT / folder for folder in HOLDS_PACKAGES))
    paths = [root.joinpath(*module.split(".")) for root in roots]
    return any(path.is_dir() or path.with_suffix(".py").is_file() for path in paths)


def within(module: str, package: str) -> bool:
    """Say whether a module is the package or lies in it."""
    return module == package or module.startswith(package + ".")
