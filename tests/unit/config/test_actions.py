"""`covey.config.actions`: a definition is read whole, or refused with what is wrong in it."""

from __future__ import annotations

import pytest

from covey.config.actions import read_action
from covey.core.actions.definition import Ends, ProgramBounds, UnitRights
from covey.errors import ConfigurationError
from covey.limits.units import KIB, MIB

_WHOLE = """
summary = "restart a service"
argv = ["/usr/bin/systemctl", "restart", "{unit}", "--lines={lines}", "{name}"]
idempotent = true
ends = "machine"
seconds = 30
memory_mib = 64
output_kib = 16

[arguments.unit]
choice = ["grafana.service", "telegraf.service"]

[arguments.lines]
integer = [-1, 100]

[arguments.name]
text = 8
characters = "abc-"
"""
_CHOICE = 'choice = ["grafana.service", "telegraf.service"]'
_INTEGER = "integer = [-1, 100]"
_TEXT = 'text = 8\ncharacters = "abc-"'
_NO_SHAPE = "integer = [low, high], or choice, or text"


def _refused(text: str, name: str = "restart-service") -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_action(name, text, "restart-service.toml")
    return f"{caught.value} {caught.value.hint}"


def test_a_definition_is_read() -> None:
    action = read_action("restart-service", _WHOLE, "restart-service.toml")
    assert action.bounds == ProgramBounds(30_000_000, 64 * MIB, 16 * KIB)
    assert (action.idempotent, action.ends) == (True, Ends.MACHINE)
    given = {"unit": "grafana.service", "lines": "7", "name": "abc"}
    assert action.invocation(given, {}).argv[2:] == ("grafana.service", "--lines=7", "abc")


def test_an_argument_is_on_the_command_line_or_in_the_input() -> None:
    moved = _WHOLE.replace(', "{name}"]', "]").replace("seconds = 30", 'seconds = 30\ninput = "{name}\\n"')
    action = read_action("restart-service", moved, "restart-service.toml")
    found = action.invocation({"unit": "grafana.service", "lines": "7"}, {"name": "abc"})
    assert (found.argv[2:], found.stdin) == (("grafana.service", "--lines=7"), b"abc\n")


@pytest.mark.parametrize("first", ["covey", "agent"])
def test_covey_itself_reads_nothing(first: str) -> None:
    assert "cannot read input" in _refused(f'summary = "a"\nargv = ["{first}", "restart"]\ninput = "a"')


def test_without_more_an_action_has_bounds_and_is_not_repeated() -> None:
    action = read_action("beep", 'summary = "beep"\nargv = ["/usr/bin/beep"]', "beep.toml")
    assert (action.bounds, action.idempotent, dict(action.arguments)) == (ProgramBounds(), False, {})
    assert action.ends is Ends.NOTHING


def test_a_text_begins_with_a_dash_only_where_that_is_said() -> None:
    shapes = [
        read_action("a", _WHOLE.replace(_TEXT, text), "a.toml").arguments["name"]
        for text in (_TEXT, f"{_TEXT}\ndash = true")
    ]
    assert [shape.objection("-a") is None for shape in shapes] == [False, True]


@pytest.mark.parametrize("first", ["covey", "agent"])
def test_the_first_word_may_mean_covey_or_the_agent(first: str) -> None:
    action = read_action("a", f'summary = "a"\nargv = ["{first}", "restart"]', "a.toml")
    assert action.argv == (first, "restart")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("summary =", "sumary =", "did you mean 'summary'"),
        ('"restart a service"', '"a\\nb"', "summary must be"),
        ('"restart a service"', '""', "summary must be"),
        ('"/usr/bin/systemctl"', '"systemctl"', "whole path"),
        ('"/usr/bin/systemctl"', '"/usr/bin/{unit}"', "whole path"),
        ('"/usr/bin/systemctl", "restart", "{unit}", "--lines={lines}", "{name}"', "", "whole path"),
        ('"/usr/bin/systemctl", "restart", "{unit}", "--lines={lines}", "{name}"', '"agent"', "whole path"),
        ('"restart", "{unit}"', '"restart\\u0000", "{unit}"', "whole path"),
        ('"restart", "{unit}"', '"restart"', "argv and input do not use"),
        ("seconds = 30", 'input = "{other}"', "{other} is not an argument"),
        ("seconds = 30", 'input = "a\\u0000"', "input must be"),
        ("seconds = 30", "input = 1", "input must be"),
        ("seconds = 30", f'input = "{"a" * 4_097}"', "input must be"),
        ('"{unit}"', '"{unit}", "{other}"', "not an argument"),
        ("idempotent = true", "idempotent = 1", "true or false"),
        ('ends = "machine"', 'ends = "world"', "agent or machine"),
        ('ends = "machine"', "ends = []", "agent or machine"),
        ("seconds = 30", "seconds = 0", "between 1 and"),
        ("seconds = 30", "seconds = 3601", "between 1 and"),
        ("seconds = 30", "seconds = true", "between 1 and"),
        ("output_kib = 16", "output_kib = 65", "between 1 and"),
        (_CHOICE, "choice = []", _NO_SHAPE),
        (_CHOICE, "choice = [1]", _NO_SHAPE),
        (_CHOICE, 'choices = ["a"]', "did you mean 'choice'"),
        (_CHOICE, 'pattern = "(a+)+"', "is unknown"),
        (_INTEGER, "integer = [2, 1]", _NO_SHAPE),
        (_INTEGER, "integer = [false, true]", _NO_SHAPE),
        (_INTEGER, 'integer = [1, 2]\ncharacters = "a"', _NO_SHAPE),
        (_TEXT, "text = 8", _NO_SHAPE),
        (_TEXT, 'text = 8\ncharacters = ""', _NO_SHAPE),
        (_TEXT, 'text = 8\ncharacters = "a\\n"', _NO_SHAPE),
        (_TEXT, 'text = 0\ncharacters = "a"', _NO_SHAPE),
        (_TEXT, 'text = true\ncharacters = "a"', _NO_SHAPE),
        (_TEXT, f'{_TEXT}\ndash = "yes"', _NO_SHAPE),
        ("[arguments.unit]", "[arguments.Unit]", "a name must be"),
    ],
)
def test_a_mistake_is_named(before: str, after: str, says: str) -> None:
    assert before in _WHOLE
    assert says in _refused(_WHOLE.replace(before, after))


_INSTALLER = 'summary = "a"\nargv = ["/bin/pump"]\n[installer]\n'


def test_an_installer_may_have_a_program_that_chooses_the_moment() -> None:
    action = read_action("pump", _INSTALLER + 'when = ["/bin/is-idle", "--now"]', "pump.toml")
    assert action.when == ("/bin/is-idle", "--now")
    assert read_action("pump", _INSTALLER, "pump.toml").when == ()


@pytest.mark.parametrize("when", ['"/bin/is-idle"', '["is-idle"]', '["agent", "restart"]', "[1]"])
def test_a_program_that_chooses_the_moment_is_a_command_line(when: str) -> None:
    assert "when must be a list of words" in _refused(f"{_INSTALLER}when = {when}", "pump")


def test_a_file_has_an_actions_name_and_is_toml() -> None:
    assert "a name must be" in _refused(_WHOLE, "Restart Service")
    assert "restart-service.toml" in _refused("argv = [")


_UNIT = """
[unit]
user = "pump"
groups = ["dialout"]
writes = ["/var/lib/pump", "/run/pump-1.2"]
devices = ["/dev/ttyUSB0"]
capabilities = ["CAP_SYS_TIME"]
network = true
"""


def test_a_unit_has_no_rights_but_those_that_are_named() -> None:
    assert read_action("a", _WHOLE, "a.toml").rights == UnitRights()
    paths = ("/var/lib/pump", "/run/pump-1.2")
    expected = UnitRights("pump", ("dialout",), paths, ("/dev/ttyUSB0",), ("CAP_SYS_TIME",), network=True)
    assert read_action("a", _WHOLE + _UNIT, "a.toml").rights == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("user", "usr"),
        ('"pump"', '"0"'),
        ('"pump"', '"pump\\nGroup=root"'),
        ('"pump"', '"%n"'),
        ('["dialout"]', '"dialout"'),
        ('["dialout"]', "[1]"),
        ('["dialout"]', '["di alout"]'),
        ('["dialout"]', str(["a"] * 17)),
        ('"/var/lib/pump"', '"var"'),
        ('"/var/lib/pump"', '"/var/../etc"'),
        ('"/var/lib/pump"', '"-/etc"'),
        ('"/var/lib/pump"', '"/var/lib/%i"'),
        ('"/var/lib/pump"', '"/var/a b"'),
        ('"/dev/ttyUSB0"', '"/etc/passwd"'),
        ('"/dev/ttyUSB0"', '"/dev/../etc"'),
        ('"CAP_SYS_TIME"', '"~CAP_SYS_TIME"'),
        ("true", "1"),
        ('user = "pump"', 'user = ["pump"]'),
    ],
)
def test_a_right_is_a_plain_name_or_path(before: str, after: str) -> None:
    assert before in _UNIT
    assert "[unit]" in _refused(_WHOLE + _UNIT.replace(before, after))
