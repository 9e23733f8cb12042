"""What people and programs are shown of a group."""

from __future__ import annotations

import json

import pytest

from covey.cli.output.group_view import show_members
from covey.core.group.manifest import BOARD, Member
from tests.fleet import identity


def test_the_list_of_members_says_who_gets_no_group_messages(  # accepts: 001.01
    capsys: pytest.CaptureFixture[str],
) -> None:
    gateway, board = Member(identity("ann").keys, "barn"), Member(identity("ben").keys, "pump", capabilities=(BOARD,))
    show_members([gateway, board], gateway.keys.signing_public, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [("barn" in line, "gets no group messages" in line) for line in lines[-2:]] == [(True, False), (False, True)]
    show_members([gateway, board], gateway.keys.signing_public, as_json=True)
    assert [each["group_messages"] for each in json.loads(capsys.readouterr().out)] == [True, False]
