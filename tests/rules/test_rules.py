"""Each rule of groups, histories, orders, settings, commands and checkpoints has a mistake that is noticed, as have
what the whole product promises: shared limits, relay accounts, restored vaults, times, terminals, erasure and notes.

The rules are those that docs/protocol/ numbers. Each mistake of `mutants.toml` is made by itself, and the test that
it names fails then. What several devices come to after many faults, the worlds of `tests/sim` show, which have mistakes
of their own.
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.meta.source_tree import ROOT
from tests.rules.mutation import Mutant, mistaken, run

MUTANTS = [Mutant(**each) for each in tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]]

_SECTIONS = ("Which manifests hold", "History", "Orders", "Settings", "Commands", "Checkpoints")
_UNNUMBERED = {"History: Which of them count", "History: Writing", "History: Spreading", "Orders: Attempts", "Settings"}
_PROMISES = {
    "Shares",
    "Vote shares",
    "Envelopes",
    "Heads 8",
    "Rotation",
    "Windows",
    "Connect windows",
    "Link budget",
    "Reported cost",
    "Relay accounts",
    "Restored vault",
    "Damaged vault",
    "Known time",
    "Whole chain",
    "Expiry",
    "Terminal",
    "No copies",
    "Notes",
    "Short telemetry",
    "Batches",
    "Thinning",
    "Series rules",
    "Receipts",
    "Forwarding",
    "Own devices",
    "Pacing",
}
"""What no list of the protocol numbers: a collector's, a relay's and a command's part, and every shared limit."""
_FAILED = 1
"""pytest's exit code."""


def _rules() -> set[str]:
    """Return the rules that the sections number, `section: list number`, and the functions of their pseudo-code."""
    found, section, listed = set(), "", ""
    pages = sorted((ROOT / "docs/protocol").glob("*.md"))
    for line in "\n".join(each.read_text(encoding="utf-8") for each in pages).splitlines():
        if heading := re.match(r"## \d+\. (.+)", line):
            section, listed = heading[1], ""
        elif bold := re.match(r"\*\*([^*]+?)\.?\*\*", line):
            listed = f": {bold[1]}"
        elif section in _SECTIONS and (number := re.match(r"(\d+)\. | ?\d+  (\w+)\([^)]*\):(?: +#.*)?$", line)):
            found.add(f"{section}{listed} {number[1] or number[2]}")
    return found


@pytest.fixture(scope="module")
def _warm() -> None:
    """Load the tests that are named, once for all the processes that are forked from this one."""
    for name in sorted({each.test.partition("::")[0] for each in MUTANTS}):
        import_module(name.removesuffix(".py").replace("/", "."))


@pytest.mark.proof
@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize("mutant", [pytest.param(each, id=f"{n}-{each.rule}") for n, each in enumerate(MUTANTS)])
def test_a_mistake_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    code = run(mutant, mutant.test, log=tmp_path / "log")
    said = (tmp_path / "log").read_text(errors="replace")
    assert code == _FAILED, f"{mutant.test} does not notice {mutant.after!r} in place of {mutant.before!r}:\n{said}"


@pytest.mark.proof
@pytest.mark.usefixtures("_warm")
def test_the_suite_has_the_tests_that_are_named(tmp_path: Path) -> None:
    """They pass without a mistake: the suite runs them."""
    tests = sorted({each.test for each in MUTANTS})
    assert all(each.startswith(("tests/unit/", "tests/property/")) for each in tests)
    assert run(None, "--collect-only", *tests, log=tmp_path / "log") == 0, (tmp_path / "log").read_text(
        errors="replace"
    )


def test_every_rule_has_a_mistake() -> None:
    rules = _rules()
    assert len(rules) > 70
    assert {each.rule for each in MUTANTS} == rules | _UNNUMBERED | _PROMISES


def test_every_mistake_fits_the_code() -> None:
    assert len(set(MUTANTS)) == len(MUTANTS)
    assert all(mistaken(each) for each in MUTANTS)
