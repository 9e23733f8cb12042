"""`covey.core.actions.definition`: arguments become words of a command line, and nothing else."""

from __future__ import annotations

import pytest

from covey.core.actions.definition import ActionDefinition, Choice, Integer, LimitedText
from covey.core.actions.results import ARGUMENTS, NOT_SECRET
from covey.errors import ActionError
from covey.limits.actions import MAXIMUM_ACTION_INPUT_BYTES
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
        _SHOW.invocation(_GOOD | given, {})
    return caught.value.code


def test_each_argument_stays_one_word_whatever_it_holds() -> None:
    given = {"lines": "-5", "name": "$(reboot) `x` {unit} | a; rm -rf /*", "unit": "it's $HOME; a b"}
    invocation = _SHOW.invocation(given, {})
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
        _SHOW.invocation({"name": "a", "unit": "-v"}, {})


_WORD = LimitedText(MAXIMUM_ARGUMENT_BYTES, _SMALL + "{}-", dash=True)
_JOIN = ActionDefinition(
    "join",
    "join a network",
    ("/usr/bin/join", "{ssid}"),
    {"ssid": _WORD, "key": _WORD, "pin": Integer(0, 9999)},
    stdin='{"key": "{key}", "ssid": "{ssid}"}\n{pin}',
)


def test_a_secret_is_read_by_the_program_and_by_nobody_else() -> None:
    secrets = {"key": "-{ssid}", "pin": "7"}
    found = _JOIN.invocation({"ssid": "barn"}, secrets)
    assert (found.argv, found.arguments) == (("/usr/bin/join", "barn"), {"ssid": "barn"})
    assert found.stdin == b'{"key": "-{ssid}", "ssid": "barn"}\n7', "what it holds is not looked at for further ones"
    assert "{ssid}" not in repr(found)
    assert _JOIN.invocation({"ssid": "barn", **secrets}, {}).stdin == found.stdin, "it need not be given as one"


@pytest.mark.parametrize(
    ("secrets", "code", "why"),
    [
        ({"key": "k", "pin": "7", "ssid": "barn"}, NOT_SECRET, "ssid is on its command line"),
        ({"key": "k", "pin": "7"}, ARGUMENTS, "needs ssid"),
        ({"key": "k", "pin": "secretpin"}, ARGUMENTS, "pin has to be"),
        ({"key": "k\n", "pin": "7"}, ARGUMENTS, "key may hold only"),
        ({"key": "k", "pin": "7", "hush": "hush"}, ARGUMENTS, "takes no secret argument of another name"),
    ],
)
def test_a_secret_that_is_not_taken_is_not_named(secrets: dict[str, str], code: str, why: str) -> None:
    given = {} if "ssid" in secrets or why.endswith("ssid") else {"ssid": "barn"}
    with pytest.raises(ActionError) as caught:
        _JOIN.invocation(given, secrets)
    assert caught.value.code == code
    assert why in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "secretpin" not in str(caught.value)


def test_an_argument_is_given_openly_or_as_a_secret() -> None:
    with pytest.raises(ActionError, match="key is given both openly and as a secret"):
        _JOIN.invocation({"ssid": "barn", "key": "k", "pin": "7"}, {"key": "k"})


def test_an_installer_takes_no_secret() -> None:
    file = {"group": "a" * 64, "file": "b" * 64}
    arguments = {name: LimitedText(64, _SMALL) for name in file}
    installer = ActionDefinition("put", "put a file there", ("/bin/put",), arguments, trial_us=1)
    assert installer.invocation(file, {}).arguments == file
    with pytest.raises(ActionError, match="put does not accept secret arguments"):
        installer.invocation({"group": file["group"]}, {"file": file["file"]})


def test_a_programs_input_is_bounded() -> None:
    often = ActionDefinition("often", "often", ("/bin/often",), {"key": _WORD}, stdin="{key}" * 4)
    word = "k" * MAXIMUM_ARGUMENT_BYTES
    assert len(often.invocation({}, {"key": word}).stdin) == MAXIMUM_ACTION_INPUT_BYTES
    with pytest.raises(ActionError, match="reads at most"):
        ActionDefinition("often", "often", ("/bin/often",), {"key": _WORD}, stdin="{key}" * 4 + "\n").invocation(
            {}, {"key": word}
        )
