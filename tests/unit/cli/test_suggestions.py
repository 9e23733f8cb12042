"""`covey.cli.suggestions`: what was meant is proposed, by its meaning before its letters."""

from __future__ import annotations

import pytest

from covey.cli.command_tree import Command, commands
from covey.cli.suggestions import did_you_mean

_BY_NAME = {each.name: each for each in commands()}


def _known(command: str) -> list[str]:
    below: list[Command] = _BY_NAME[command].actions if command else list(_BY_NAME.values())  # type: ignore[assignment]
    return [name for each in below for name in each.names]


@pytest.mark.parametrize(
    ("command", "word", "meant"),
    [
        ("history", "list", "log"),
        ("own", "pair", "link"),
        ("own", "new", "create"),
        ("own", "remove", "retire"),
        ("file", "drop", "delete"),
        ("relay", "del", "remove"),
        ("request", "reject", "decline"),
        ("release", "stop", "abort"),
        ("release", "halt", "pause"),
        ("group", "delete", "destroy"),
        ("group", "rm", "remove"),
        ("vault", "check", "verify"),
        ("config", "change", "set"),
        ("config", "verify", "check"),
        ("mcu", "watch", "monitor"),
        ("", "start", "run"),
        ("", "devices", "fleet"),
        ("", "doctor", "check"),
        ("", "logs", "history"),
        ("", "exec", "order"),
        ("", "statsu", "status"),
    ],
)
def test_a_hint_names_the_word_that_was_meant(command: str, word: str, meant: str) -> None:
    assert did_you_mean(word, _known(command)) == f"did you mean '{meant}'?"


def test_nothing_is_proposed_where_nothing_is_near() -> None:
    assert did_you_mean("frobnicate", _known("")) == ""
