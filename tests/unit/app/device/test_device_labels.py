"""Wherever a device is named by its key, what it is called stands beside it: harmless, and also when it is gone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from covey.app.loop.deliveries import DroppedLines
from covey.app.loop.runtime import describe
from covey.core.events import EnvelopeDropped
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.policy import Action
from covey.core.ids import DeviceKey, GroupId
from covey.core.membership.events import GroupDestroyed, VoteCast
from covey.limits.rate import DROPPED_LINE_US
from tests.command import Here

_HOSTILE = "pump\x1b[31m\n\u202e; 'covey group destroy'"
_SHOWN = "pump\ufffd[31m\ufffd\ufffd; 'covey group destr\N{HORIZONTAL ELLIPSIS}"


@pytest.fixture
def hub(tmp_path: Path) -> Here:
    """A device in a group with another one, whose label is hostile."""
    hub, pump = Here(tmp_path, "hub"), Here(tmp_path, "pump")
    hub.ok("group", "create")
    keys = pump.json("key", "show")
    hub.ok("group", "add", keys["signing_key"], keys["noise_key"], "--label", _HOSTILE)
    return hub


def _members(hub: Here) -> tuple[dict[str, str], dict[str, str]]:
    """Return the device's own entry, and the other one's."""
    own, other = sorted(hub.json("group", "show")["members"], key=lambda member: member["label"] != "hub")
    return own, other


@pytest.mark.slow
def test_waiting_messages_name_their_recipient(hub: Here) -> None:
    _, pump = _members(hub)
    first = hub.json("message", "list")["shown"][0]
    assert (first["recipient"], first["label"]) == (pump["name"], pump["label"])
    assert f"{pump['name']} {_SHOWN}  " in hub.ok("message", "list")


@pytest.mark.slow
def test_a_group_shows_who_changed_which_member(hub: Here) -> None:
    own, pump = _members(hub)
    by = f"by {own['name']} hub: "
    assert f"{by}added {pump['name']} {_SHOWN}\n" in hub.ok("group", "diff")
    hub.ok("group", "ban", pump["name"], "--yes")
    shown = hub.ok("group", "show")
    assert f"issued by {own['name']} hub\n" in shown
    assert f"banned   {pump['name']} {_SHOWN}\n" in shown
    assert f"banned {pump['name']} {_SHOWN}" in hub.ok("group", "log").splitlines()[-1]


@pytest.mark.slow
def test_programs_get_the_key_and_the_label_as_it_is(hub: Here) -> None:
    own, pump = _members(hub)
    hub.ok("group", "ban", pump["name"], "--yes")
    labels = hub.json("group", "show")["labels"]
    assert labels == {own["signing_public"]: "hub", pump["signing_public"]: pump["label"]}
    assert hub.json("group", "diff")["labels"] == {own["name"]: "hub", pump["name"]: pump["label"]}


def _manifest(hub: Here) -> GroupManifest:
    with closing(sqlite3.connect(hub.state / "state.sqlite")) as database:
        return read_manifest(database.execute("SELECT raw FROM group_manifest ORDER BY version DESC").fetchone()[0])


def test_the_log_names_voter_and_target_of_a_ban(hub: Here) -> None:
    manifest = _manifest(hub)
    own, pump = (DeviceKey(bytes.fromhex(each["signing_public"])) for each in _members(hub))
    stranger = DeviceKey(bytes(32))
    labels = DeviceLabels([manifest])
    _, line = describe(VoteCast(GroupId(bytes(32)), Action.BAN, pump, own, 1, 2), labels)
    name = pump.hex()[:8]
    assert line == (
        f"group 00000000: {own.hex()[:8]} hub votes to ban {name} {_SHOWN}; to agree: covey group ban {name}"
    )
    _, line = describe(VoteCast(GroupId(bytes(32)), Action.KEEP_OUT, stranger, own, 1, 2), labels)
    assert f"votes to ban {stranger.hex()}; to agree: covey group ban 0" in line
    _, line = describe(GroupDestroyed(manifest, own), DeviceLabels(()))
    assert f"destroyed by {own.hex()[:8]} hub; " in line


def test_the_log_says_whose_envelopes_were_dropped(hub: Here) -> None:
    """And looks nobody up for those that have no line."""
    _, pump = _members(hub)
    key, asked = DeviceKey(bytes.fromhex(pump["signing_public"])), list[DeviceKey]()

    def named(device: DeviceKey) -> str:
        asked.append(device)
        return DeviceLabels((_manifest(hub),)).named(device)

    lines, dropped = DroppedLines(named), EnvelopeDropped("malformed", "a message of another type", key)
    assert lines.dropped(dropped, 0) == f"dropped an envelope from {pump['name']} {_SHOWN}: malformed: {dropped.reason}"
    assert [lines.dropped(dropped, each) for each in range(100)] == [None] * 100
    assert len(asked) == 1
    [rest] = lines.due(DROPPED_LINE_US)
    assert rest.startswith(f"dropped 100 more envelopes from {pump['name']} {_SHOWN}; ")
