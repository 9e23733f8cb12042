"""What people and programs are shown of a group."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from covey.cli.output.group_view import group_as_json, show_group, show_members
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import BOARD, Member, Mode, genesis, secret_id, sign_manifest
from covey.core.history.bodies import GroupProfile
from covey.core.ids import GroupId
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


@pytest.mark.parametrize(("left", "shown"), [(119, 99), (120, None), (5, 0)])
def test_a_member_that_can_change_little_more_is_named(
    capsys: pytest.CaptureFixture[str], left: int, shown: int | None
) -> None:
    ann = identity("ann")
    founder = Member(ann.keys, "barn", allowance=left)
    drafted = replace(genesis(GroupId(bytes(32)), founder, secret_id(b"1"), Mode.INVITES_ONLY), members=(founder,))
    group = sign_manifest(drafted, ann)
    labels = DeviceLabels([group])
    show_group(group, GroupProfile(), ann.signing_public, labels)
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note")]
    who = labels.named(ann.signing_public)
    said = f"note     {who} can make {shown} more changes to this group, then only remove members"
    assert notes == ([] if shown is None else [said])
    members = group_as_json(group, GroupProfile(), labels)["members"]
    assert isinstance(members, list)
    assert [member["changes_left"] for member in members] == [max(0, left - 20)]
