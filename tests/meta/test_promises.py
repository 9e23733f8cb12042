"""SECURITY.md: each promise names its test, its mutant and its model, and all of these exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache

import pytest

from docs.internals.models.__main__ import HERE, MODELS
from tests.meta.source_tree import ROOT

_SECURITY = (ROOT / "SECURITY.md").read_text()
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _SECURITY.partition("## How each promise is proven")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| promise")
]
_NAMED = [
    (kind, cell.strip("`")) for row in _ROWS for kind, cell in zip(("test", "mutant", "model"), row[2:], strict=True)
]


@cache
def _mutants() -> frozenset[str]:
    tree = ast.parse((ROOT / "tests/sim/mutants.py").read_text())
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name))
    named = (each.args[0] for each in calls if each.func.id == "Mutant" and each.args)  # type: ignore[attr-defined]
    of_worlds = {
        f"sim: {each.value}" for each in named if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    rules = tomllib.loads((ROOT / "tests/rules/mutants.toml").read_text())["mutant"]
    return frozenset(of_worlds | {f"rules: {each['rule']}" for each in rules})


def _models() -> set[str]:
    return {f"{model.name}: {mutant[0]}" for model in MODELS for mutant in model.mutants}


def test_every_promise_is_in_the_table() -> None:
    promised = _SECURITY.partition("## What is promised")[2].partition("\n## ")[0]
    promises = set(re.findall(r"^\* \*\*(.+?)\*\*", promised, re.MULTILINE))
    assert promises
    assert {row[0] for row in _ROWS} == promises
    assert all(row[2] and row[3] for row in _ROWS), "each has a test and a mutant"


@pytest.mark.parametrize(("kind", "name"), sorted({each for each in _NAMED if each[1]}))
def test_each_promise_names_proofs_that_exist(kind: str, name: str) -> None:
    if kind == "test":
        path, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text()
    else:
        assert name in (_mutants() if kind == "mutant" else _models())


def test_every_mistake_of_a_model_is_made_in_it() -> None:
    for model in MODELS:
        source = (HERE / f"{model.name}.pml").read_text()
        for definition in {each for mutant in model.mutants for each in mutant}:
            assert re.search(rf"(ifdef|ifndef|defined\() ?{definition}\b", source), definition
