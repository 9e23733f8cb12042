"""`covey.core.actions.definition`: arguments become words of a command line, and nothing else."""

from __future__ import annotations

import pytest

from covey.core.actions.definition import ActionDefinition, Choice, Integer, LimitedText
from covey.core.actions.results import ARGUMENTS
from covey.errors import ActionError
from covey.limits.orders import MAXIMUM_ARGUMENT_BYTES

_SMALL = "abcdefghijklmnopqrstuvwxyz"
_SHOW = ActionDefinition(
    "show",
    "show some lines",
    ("/usr/bin/tail", "--lines={lines}", "{name}", "{unit}"),
    {
        "lines": Integer(-5, 100),
        "name": LimitedText(40, _SMALL + "$()`{}| -/;*"),
        "unit": Choice(("-v", "it's $HOME; a b")),
    },
)
_GOOD = {"lines": "7", "name": "a", "unit": "-v"}


def _code(**given: str) -> str:
    with pytest.raises(ActionError) as caught:
        _SHOW.invocation(_GOOD | given)
    return caught.value.code


def test_each_argument_stays_one_word_whatever_it_holds() -> None:
    given = {"lines": "-5", "name": "$(reboot) `x` {unit} | a; rm -rf /*", "unit": "it's $HOME; a b"}
    invocation = _SHOW.invocation(given)
    assert invocation.argv == ("/usr/bin/tail", "--lines=-5", given["name"], "it's $HOME; a b")
    assert (invocation.action, invocation.arguments, invocation.bounds) == ("show", given, _SHOW.bounds)


@pytest.mark.parametrize(
    "number", ["101", "-6", "07", "-0", "+7", " 7", "7\n", "7.0", "1e1", "1_0", "", "-", "\u0667", "9" * 400]
)
def test_a_whole_number_is_one_within_its_range(number: str) -> None:
    assert _code(lines=number) == ARGUMENTS


@pytest.mark.parametrize("name", ["", "A", "a\n", "a\0b", "\x1b[2J", "ä", "-rf", "--help", "a" * 41])
def test_a_text_holds_only_its_characters_and_is_no_option(name: str) -> None:
    assert _code(name=name) == ARGUMENTS


def test_a_text_of_the_greatest_length_is_looked_at_once() -> None:
    text = LimitedText(MAXIMUM_ARGUMENT_BYTES, "a")
    assert text.objection("a" * MAXIMUM_ARGUMENT_BYTES) is None
    assert text.objection("a" * (MAXIMUM_ARGUMENT_BYTES - 1) + "b")


def test_a_choice_is_one_of_them() -> None:
    assert _code(unit="-vv") == ARGUMENTS


def test_all_arguments_are_given_and_no_other() -> None:
    assert _code(further="1") == ARGUMENTS
    with pytest.raises(ActionError, match="needs lines"):
        _SHOW.invocation({"name": "a", "unit": "-v"})
