"""The list of checks, how verdicts add up, and what a person gets for bad input."""

from __future__ import annotations

import json
import re

import pytest

from covey.app.conformance.checks import MEMBER, ROLES, SENSOR, RequirementResults, RequirementVerdict
from covey.app.conformance.testing import STEPS, steps_for
from tests.command import covey
from tests.meta.source_tree import ROOT

_HEADING = re.compile(r"^## (\d+\. .+)$", re.MULTILINE)


def test_each_check_names_a_section_of_the_protocol() -> None:
    sections = {
        found.replace(". ", " ", 1)
        for page in (ROOT / "docs/protocol").glob("*.md")
        for found in _HEADING.findall(page.read_text(encoding="utf-8"))
    }
    assert not {each.section for role in ROLES.values() for each in role} - sections


def test_names_are_distinct_and_a_member_does_all_that_a_sensor_does() -> None:
    for role in ROLES.values():
        names = [each.name for each in role]
        assert len(names) == len(set(names))
    assert MEMBER[: len(SENSOR)] == SENSOR


@pytest.mark.parametrize("role", ROLES)
def test_steps_decide_only_checks_of_their_role_and_need_what_earlier_steps_decide(role: str) -> None:
    names, decided = {each.name for each in MEMBER + ROLES[role]}, set[str]()
    for step in STEPS[role]:
        assert names >= set(step.checks)
        assert decided >= set(step.needs), step.about
        decided |= set(step.checks)


def test_a_named_check_takes_its_steps_and_those_that_they_need() -> None:
    def taken(role: str, *only: str) -> list[str]:
        return [each.about for each in steps_for(role, only)]

    assert taken("gateway", "commits") == [
        "adding another member",
        "meeting the gateway on its line",
        "letting the board into the group",
        "killing the gateway after an acknowledgement on the line",
    ]
    assert taken("sensor", "killed") == ["killing the device while a batch waits"]
    assert taken("sensor", "session") == [], "a device shows this while it joins"
    assert steps_for("sensor") == list(STEPS["sensor"])


def test_a_test_of_named_checks_lists_these_and_what_failed() -> None:
    results = RequirementResults(SENSOR)
    results.passes("stops")
    results.passes("session")
    results.fails("mqtt", "it broke MQTT 5")
    assert [each.check.name for each in results.of(["stops"])] == ["mqtt", "stops"]


def test_a_failed_check_keeps_its_first_sentence() -> None:
    results = RequirementResults(SENSOR)
    results.passes("stops")
    results.fails("stops", "first")
    results.passes("stops")
    results.fails("stops", "second")
    [stops] = [each for each in results.all() if each.check.name == "stops"]
    assert (stops.verdict, stops.sentence, stops.sound) == (RequirementVerdict.FAILED, "first", False)


def test_an_unseen_check_is_sound_only_if_optional() -> None:
    unsound = {each.check.name for each in RequirementResults(MEMBER).all() if not each.sound}
    assert unsound == {each.name for each in MEMBER if each.mandatory}


@pytest.mark.parametrize("role", ROLES)
def test_the_checks_of_a_role_are_listed(role: str) -> None:
    listed = json.loads(covey("conformance", "--role", role, "--list", "--json").stdout)
    assert [each["check"] for each in listed] == [each.name for each in ROLES[role]]
    shown = covey("conformance", "--role", role, "--list").stdout
    assert all(each.rule in shown for each in ROLES[role])


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (("--listen", "nowhere"), "'nowhere' is no address", "--listen HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), "'127.0.0.1:99999' is no address", "--listen HOST:PORT"),
        (("--timeout", "1"), "--timeout 1 is too short", "10 s at least"),
        (("--line", "/dev/ttyS0"), "a device of role sensor is not tested at a line", "--line goes with"),
        (("--only", "kiled"), "role sensor has no check 'kiled'", "did you mean 'killed'?"),
        (("--only", "heads"), "role sensor has no check 'heads'", "--list shows the checks of a role"),
        (("--role", "toaster"), "--role: 'toaster' is not a choice", "one of: sensor, member, collector"),
    ],
)
def test_bad_input_is_an_error_with_a_hint(words: tuple[str, ...], error: str, hint: str) -> None:
    ended = covey("conformance", *words)
    assert ended.code == 2, ended
    assert f"error: {error}" in ended.stderr
    assert hint in ended.stderr
