"""`covey.cli.grammar` and `covey.cli.main`: what is taken, what is refused and how, and what the help says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covey.app.wording import count
from covey.cli.command_tree import Command, commands, every_command
from covey.cli.commands.help import WORDS
from covey.cli.main import main
from tests.command import Here, covey

_EVERY = list(every_command())


@pytest.mark.parametrize("command", _EVERY, ids=lambda each: " ".join(each.path))
def test_help_says_everything(command: Command) -> None:
    for name in command.names:
        shown = covey(*command.path[:-1], name, "--help")
        assert (shown.code, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"usage: covey {' '.join(command.path)} ")
        text = " ".join(shown.stdout.split())
        assert f"{command.summary[0].upper()}{command.summary[1:]}." in text
        for argument in command.arguments:
            assert " ".join(argument.help.split()) in text
            assert all(each in text for each in argument.names)
        for action in command.actions:
            assert " ".join(action.summary.split()) in text


def test_the_first_screen_is_one_screen() -> None:
    shown = covey("--help").stdout
    lines = shown.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert covey("help").stdout == shown
    assert covey("--version").stdout.startswith("covey ")


@pytest.mark.slow
def test_every_command_is_in_the_list_of_all() -> None:
    shown = covey("help", "all").stdout
    for command in commands():
        assert " ".join(shown.split()).count(f" {command.name} {command.summary}") == 1
    assert max(map(len, shown.splitlines())) <= 80
    topics = [part.splitlines()[0] for part in shown.split("\n\n") if part.splitlines()[0].endswith(":")]
    assert (topics[0], len(topics)) == ("set up:", 7)


def test_help_explains_the_words_of_the_output() -> None:
    shown = covey("help", "words").stdout
    assert re.search("^vault +the encrypted store of readings", shown, re.MULTILINE)
    assert [line.partition(" ")[0] for line in shown.splitlines()] == sorted(WORDS)
    assert all(len(line) <= 90 for line in shown.splitlines())


@pytest.mark.slow
def test_help_explains_a_command_and_an_action() -> None:
    assert covey("help", "group") == covey("group", "--help")
    assert covey("help", "group", "ban") == covey("group", "ban", "--help")
    assert covey("help", "group", "frobnicate").code == 2
    assert "did you mean 'group'?" in covey("help", "gruop").stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "complaint", "hint"),
    [
        ("gruop leave", "covey has no command 'gruop'", "did you mean 'group'?"),
        ("frobnicate", "covey has no command 'frobnicate'", "covey --help"),
        ("", "missing: COMMAND", "covey --help"),
        ("mcu", "missing: ACTION", "covey mcu --help"),
        ("group laeve", "covey group has no action 'laeve'", "did you mean 'leave'?"),
        ("request acept", "covey request has no action 'acept'", "did you mean 'accept'?"),
        ("relay ad mqtt://x", "covey relay has no action 'ad'", "did you mean 'add'?"),
        ("message lst", "covey message has no action 'lst'", "did you mean 'list'?"),
        ("put x", "covey has no command 'put'", "did you mean 'covey file put'?"),
        ("get x", "covey has no command 'get'", "'covey setting get' or 'covey file get'?"),
        ("own pair", "covey own has no action 'pair'", "did you mean 'link'?"),
        ("message send --txt x", "covey message send has no option --txt", "did you mean '--text'?"),
        ("status --frobnicate=3", "covey status has no option --frobnicate", "covey status --help"),
        (
            "group leave --mode public --from 3",
            "covey group leave has no option --mode",
            "--mode is an option of 'covey group create'",
        ),
        (
            "group --mode public create",
            "covey group list has no option --mode",
            "--mode is an option of 'covey group create'",
        ),
        ("check device --repair", "covey check device has no option --repair", "an option of 'covey check database'"),
        ("vault push --grace", "covey vault push has no option --grace", "an option of 'covey vault compact'"),
        ("relay --ca-file x", "covey relay list has no option --ca-file", "an option of 'covey relay add'"),
        ("message --limit 3 list", "covey message list: 'list' is one argument too many", "covey message list --help"),
        (
            "tables report t --engine spark",
            "covey tables report has no option --engine",
            "an option of 'covey tables run'",
        ),
        ("group create --mode pubic", "--mode: 'pubic' is not a choice", "did you mean 'public'?"),
        ("completion tcsh", "SHELL: 'tcsh' is not a choice", "one of: bash, fish, zsh"),
        ("group members a", "covey group members: 'a' is one argument too many", "covey group members --help"),
        ("group remove", "missing: DEVICE", "covey group remove --help"),
        ("group add one", "missing: KEY", "covey group add --help"),
        ("config set label", "missing: VALUE", "covey config set --help"),
        ("key rotate one", "covey key rotate: 'one' is one argument too many", "covey key rotate --help"),
        ("message list --limit x", "error: --limit: 'x' is not a whole number", "covey message list --help"),
        ("top --interval soon", "error: --interval: 'soon' is not a quantity", "write it like 90, 90s, 10m or 1h"),
        (
            "message quarantine 3 --retry --delete",
            "--delete does not go with --retry",
            "covey message quarantine --help",
        ),
        ("publish /nowhere/at/all --format", "error: --format needs a value", "covey publish --help"),
    ],
)
def test_a_mistake_names_what_was_meant(line: str, complaint: str, hint: str) -> None:
    ended = covey(*line.split())
    assert ended.code == 2
    assert ended.stdout == ""
    first, second = ended.stderr.splitlines()
    assert first.startswith("error: ")
    assert complaint in first
    assert second.startswith("hint: ")
    assert hint in second


def test_state_options_stand_before_or_after_the_action(tmp_path: Path) -> None:
    state = str(tmp_path / "device")
    assert covey("init", "--state", state, "--label", "one").code == 0
    for words in (
        ["config", "--state", state, "get", "label"],
        ["config", "get", "label", "--state", state],
        ["config", "get", "--state", state, "label"],
        ["config", f"--state={state}", "get", "label"],
        ["config", "--state", "/nowhere", "get", "label", "--state", state],
    ):
        assert covey(*words).stdout == "one\n", words


def test_the_list_action_is_the_default(tmp_path: Path) -> None:
    state = str(tmp_path / "device")
    assert covey("init", "--state", state).code == 0
    assert covey("relay", "set", "mqtt://a", "--state", state).code == 0
    for words in (["relay", "--json"], ["relay", "list", "--json"], ["relay", "set", "--json"]):
        assert '"mqtt://a"' in covey(*words, "--state", state).stdout
    assert '"mqtt://b"' in covey("relay", "set", "mqtt://b", "--json", "--state", state).stdout
    assert covey("request", "--json", "--state", state) == covey("request", "list", "--json", "--state", state)


@pytest.mark.parametrize("command", ["message", "config", "relay", "request", "setting"])
def test_list_and_ls_are_one(command: str, tmp_path: Path) -> None:
    state = str(tmp_path / "device")
    assert covey("init", "--state", state).code == 0
    listed = covey(command, "list", "--state", state)
    assert listed.code == 0, listed
    assert covey(command, "ls", "--state", state) == listed


def test_the_help_names_its_parts() -> None:
    assert "\nactions:\n" in covey("group", "--help").stdout
    assert "\narguments:\n  KEY" in covey("group", "add", "--help").stdout


@pytest.mark.slow
def test_a_name_that_nobody_has_and_one_that_several_have(tmp_path: Path) -> None:
    here = Here(tmp_path, "gate")
    assert "this device is in no group" in here.fails("group", "show", code=1)
    here.ok("group", "create")
    here.ok("group", "create")
    first, second = (group["group_id"] for group in here.json("status")["groups"])
    assert f"one of: {first[:8]}, {second[:8]}" in here.fails("group", "show", code=1)
    assert "no group's id begins with 'x'" in here.fails("group", "show", "--group", "x", code=1)
    reported = here.fails("group", "remove", "nobody", "--group", first[:8], code=1)
    assert "no member matches 'nobody'" in reported
    assert "hint: 'covey group show' lists them\n" in reported
    assert "no message is given" in here.fails("message", "quarantine", "--delete", code=2)


def test_commands_without_a_table_have_json(tmp_path: Path) -> None:
    here = Here(tmp_path, "gate")
    group = here.json("group", "create")["group_id"]
    assert here.json("group", "leave", "--yes") == {"left": group}
    group = here.json("group", "create")["group_id"]
    assert here.json("group", "destroy", "--yes") == {"destroying": group}


def test_numbers_agree_with_what_they_count() -> None:
    assert [count(number, "message") for number in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
    assert count(2, "copy", "copies") == "2 copies"


@pytest.mark.slow
def test_main_never_ends_the_process() -> None:
    assert [main(["--version"]), main(["--help"]), main(["nonsense"])] == [0, 0, 2]
