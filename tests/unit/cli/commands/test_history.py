"""`covey history post` and `covey history` as a person uses them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.app.device.device import find_state, open_device
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.bodies import GroupProfile, Note
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.ids import Incarnation
from tests.command import Here
from tests.fleet import identity


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Here:
    device = Here(tmp_path_factory.mktemp("made"), "ann")
    device.ok("group", "create")
    return device


@pytest.fixture
def ann(tmp_path: Path, made: Here) -> Here:
    """A device in a group of its own."""
    return made.copied(tmp_path)


def _entries(device: Here, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in device.ok("history", "log", "--json", *words).splitlines()]


@pytest.mark.slow
def test_a_note_is_logged_shown_and_verified(  # accepts: 003.04, 003.24, 003.66, 003.68, 003.77, 003.78
    ann: Here,
) -> None:
    first = ann.json("history", "post", "pump 3 rattles")["id"]
    second = ann.json("history", "post", "oiled", "--react", first[:8])["id"]
    ann.ok("history", "post", "pump 4 rattles", "--edit", first[:8])
    ann.ok("history", "post", "oiled well", "--edit", second[:8])
    assert _entries(ann)[3]["about"] == first, "what it is about stays"
    assert [each["text"] for each in _entries(ann)] == ["pump 3 rattles", "oiled", "pump 4 rattles", "oiled well"]
    assert [each["about"] for each in _entries(ann)] == [None, first, None, first]
    assert _entries(ann)[2]["replaces"] == first
    assert [each["text"] for each in _entries(ann, "--last", "2")] == ["pump 4 rattles", "oiled well"]
    assert _entries(ann, "--type", "merge") == []
    assert len(_entries(ann, "--since", "1h", "--author", "ann")) == 4
    assert f"(about {first[:8]}) oiled" in ann.ok("history")
    assert ann.ok("history", "show", second[:8], "--raw") == "oiled"
    assert f"replaces      {first}" in ann.ok("history", "show", _entries(ann)[2]["id"])
    assert ann.ok("history", "verify").startswith("4 operations by 1 author, 1 group version from version ")
    assert ann.json("history", "verify")["complaints"] == []


@pytest.mark.slow
def test_a_checkpoint_is_proposed_shown_and_proved(ann: Here, tmp_path: Path) -> None:  # accepts: 003.22
    ann.ok("history", "post", "pump 3 rattles")
    alone = ann.ok("history", "checkpoint")
    assert "no device can sign it: the group has no admins, and no operator is pinned" in alone
    assert "checkpoint" not in ann.ok("history", "verify")
    admin = Here(tmp_path, "kim")
    admin.ok("group", "create", "--mode", "admin-invites")
    admin.ok("group", "profile", "--title", "Pumps")
    proposed = admin.json("history", "checkpoint")
    assert (proposed["counts"], proposed["code"], proposed["electors"], len(proposed["signers"])) == (True, "", 1, 1)
    line = f"checkpoint {proposed['id'][:8]} by {proposed['author']} {proposed['label']}: signed by 1 of 1"
    assert line in admin.ok("history", "verify")
    assert line in admin.ok("history", "checkpoint", "--list")
    assert admin.json("history", "verify")["checkpoint"]["id"] == proposed["id"]
    assert "part 1 of 1 of the state" in admin.ok("history", "show", proposed["id"])


def test_profile_without_arguments_shows_the_groups_and_this_devices(ann: Here) -> None:
    ann.ok("group", "profile", "--title", "Pumps", "--description", "north")
    shown = ann.ok("group", "profile").splitlines()
    assert [line.split()[-1] for line in shown[1:3]] == ["Pumps", "north"]
    assert "(this device)" in shown[-1]
    assert "Pumps" not in ann.ok("group", "profile", "--label", "mine")
    assert len(ann.json("group", "profile")) == 1


def test_a_peers_text_cannot_play_with_the_terminal(ann: Here) -> None:
    ann.ok("history", "post", "\x1b[31mred\nsecond line")
    line = ann.ok("history").splitlines()
    assert len(line) == 1
    assert "\x1b" not in line[0] + ann.ok("history", "show", _entries(ann)[0]["id"])


@pytest.mark.slow
def test_sessions_begin_and_end(ann: Here) -> None:  # accepts: 003.76, 003.79
    assert "no sessions" in ann.ok("history", "sessions")
    first = ann.json("history", "start-session", "https://meet.example/pumps")["id"]
    second = ann.json("history", "start-session", "geo:48.2,16.4")["id"]
    assert ann.ok("history", "end-session").startswith(f"ended session {second[:8]} after ")
    rows = ann.json("history", "sessions")
    assert [(each["id"], each["uri"], each["ended_at_us"] is None) for each in rows] == [
        (first, "https://meet.example/pumps", True),
        (second, "geo:48.2,16.4", False),
    ]
    assert "  open  " in ann.ok("history", "sessions")
    assert "no open session has that id" in ann.fails("history", "end-session", second[:8], code=1)
    ann.ok("history", "end-session", first[:8])
    assert "this device has no open session" in ann.fails("history", "end-session", code=1)
    assert f"session {first[:8]} ended: https://meet.example/pumps" in ann.ok("history", "--last", "1")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", "the shed", "the:shed behind", "https:", "a:" + "a" * 3_000])
def test_a_session_is_where_a_program_can_bring_people(ann: Here, place: str) -> None:
    assert "is not a URI of at most 2048 bytes" in ann.fails("history", "start-session", place, code=2)
    assert "no sessions" in ann.ok("history", "sessions")


@pytest.mark.slow
def test_a_group_has_a_title_a_description_and_a_picture(  # accepts: 003.59, 003.60, 003.63
    ann: Here, tmp_path: Path
) -> None:
    picture = tmp_path / "pump.png"
    picture.write_bytes(b"\x89PNG")
    ann.ok("group", "profile", "--title", "Pumps", "--description", "north field\nsouth field")
    shown = ann.json("group", "profile", "--avatar", str(picture))
    assert (shown["title"], shown["description"]) == ("Pumps", "north field\nsouth field")
    assert shown["avatar"] == {"mime": "image/png", "base64": "iVBORw=="}
    assert "title    Pumps\n         north field\n         south field\n" in ann.ok("group", "show")
    assert "avatar   image/png, 4 bytes\n" in ann.ok("group", "profile")
    ann.ok("group", "profile", "--description", "")
    assert ann.json("group", "show")["title"] == "Pumps"
    assert ann.json("group", "show")["mode"] == "invites-only"
    assert "--mode" in ann.fails("group", "profile", "--mode", "public", code=2), "which nobody can change"
    assert "named the group 'Pumps'" in ann.ok("history", "--last", "1")
    large = tmp_path / "large.png"
    large.write_bytes(bytes(50_000))
    assert "more than 49152 bytes" in ann.fails("group", "profile", "--avatar", str(large), code=2)
    assert "does not end like an image" in ann.fails("group", "profile", "--avatar", "pump.exe", code=2)
    assert "the title has 200 bytes" in ann.fails("group", "profile", "--title", "x" * 200, code=1)
    assert "cannot be changed together" in ann.fails("group", "profile", "--title", "x", "--label", "y", code=2)


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["history", "post", "x", "--mime", "plain"], 2, "is not a MIME type"),
        (["history", "post", "x", "--react", "beefbeef"], 1, "no operation's id begins with beefbeef"),
        (["history", "post", "x", "--react", "b"], 1, "is not the start of an id"),
        (["history", "post", ""], 2, "the note is empty"),
        (["history", "post", "hello", "--mime", "image/png"], 2, "a note of type image/png"),
        (["history", "post", "x" * 66_000], 1, "members would refuse that: 66019 bytes"),
        (["history", "show", "nothing"], 1, "is not the start of an id"),
        (["history", "log", "--author", "nobody"], 1, "no author matches 'nobody'"),
        (["history", "log", "--since", "yesterday"], 2, "is not a quantity"),
        (["history", "log", "--last", "-3"], 2, "--last: -3 is negative"),
        (["history", "verify", "--follow"], 2, "--follow is an option of 'covey history log'"),
        (["order", "show", "nothing"], 1, "'covey order' shows ids"),
        (["history", "end-session", "https://meet.example"], 1, "'covey history sessions' shows ids"),
    ],
)
def test_mistakes(ann: Here, words: list[str], code: int, complaint: str) -> None:
    assert complaint in ann.fails(*words, code=code)


def test_verify_finds_what_was_changed_in_the_file(ann: Here) -> None:  # accepts: 003.06, 003.66
    ann.ok("history", "post", "as it was")
    with closing(sqlite3.connect(ann.state / "state.sqlite")) as database, database:
        database.execute("UPDATE operation SET raw = zeroblob(10)")
    assert "is damaged" in ann.fails("history", "verify", code=1)


def _late(author: Identity, manifest: GroupManifest, body: GroupProfile | Note, number: int = 1) -> Operation:
    """Return an operation that a former member signs with a date from before its removal."""
    log = Log(author.signing_public, Incarnation(bytes([number]) * 8))
    made = Operation(manifest.group_id, log, 1, None, (), 1, manifest.hash, 0, int(body.kind), body.to_wire())
    return sign_operation(made, author)


@pytest.mark.slow
def test_late_entries_of_a_removed_member_are_void_and_change_nothing(  # accepts: 003.29
    ann: Here,
) -> None:
    ben = identity("ben")
    ann.ok("group", "profile", "--title", "Pumps")
    with open_device(find_state(str(ann.state))) as device, device.store.transaction():
        actions, manifest = device.node.actions, device.pick_group(None)
        actions.change(manifest.group_id, lambda draft, _: draft.adding(Member(ben.keys, "ben")), device.now())
        with_ben = device.pick_group(None)
        actions.change(manifest.group_id, lambda draft, epoch: draft.removing(ben.signing_public, epoch), device.now())
        late = [_late(ben, with_ben, GroupProfile("Mine")), _late(ben, with_ben, Note("text/plain", b"I was here"), 2)]
        device.node.history.take(manifest.group_id, [each.raw for each in late], device.now())
    assert {each["text"]: each["void"] for each in _entries(ann, "--type", "note")} == {"I was here": True}
    assert "(void) I was here" in ann.ok("history")
    assert len(_entries(ann, "--author", ben.signing_public.hex()[:8])) == 2, "who did that? it is no member any more"
    assert ann.ok("history", "verify").rstrip().endswith("all valid; 2 operations of removed members void")
    assert ann.json("group", "show")["title"] == "Pumps"
    ann.ok("history", "post", "goes on")
    assert not {each.id.hex() for each in late} & set(_entries(ann)[-1]["parents"])


def test_a_fork_is_shown_as_a_proof(ann: Here) -> None:
    with open_device(find_state(str(ann.state))) as device, device.store.transaction():
        manifest = device.pick_group(None)
        ben = identity("ben")
        device.node.actions.change(
            manifest.group_id, lambda draft, _: draft.adding(Member(ben.keys, "ben")), device.now()
        )
        rivals = [_late(ben, device.pick_group(None), Note("text/plain", text)) for text in (b"yes", b"no")]
        device.node.history.take(manifest.group_id, [each.raw for each in rivals], device.now())
    assert ann.ok("history").count("(fork) ") == 2
    assert f"1 fork by {ben.signing_public.hex()[:8]} ben, both branches kept" in ann.ok("history", "verify")
    assert ann.json("history", "verify")["forked"] == [ben.signing_public.hex()]
    assert "its author wrote two under one number" in ann.ok("history", "show", rivals[0].id.hex())


@pytest.mark.slow
def test_importing_a_fork_is_reported(ann: Here, tmp_path: Path) -> None:
    ben, file = identity("ben"), str(tmp_path / "stick")
    with open_device(find_state(str(ann.state))) as device, device.store.transaction():
        group_id = device.pick_group(None).group_id
        device.node.actions.change(group_id, lambda draft, _: draft.adding(Member(ben.keys, "ben")), device.now())
    elsewhere = shutil.copytree(ann.state, tmp_path / "elsewhere")
    for state, text in ((elsewhere, b"yes"), (ann.state, b"no")):
        with open_device(find_state(str(state))) as device, device.store.transaction():
            manifest = device.pick_group(None)
            device.node.history.take(group_id, [_late(ben, manifest, Note("text/plain", text)).raw], device.now())
    ann.ok("history", "export", file, "--state", str(elsewhere))
    ended = ann.covey("history", "import", file)
    assert ended.code == 0
    assert f"warning: {ben.signing_public.hex()[:8]} ben wrote two operations under one number" in ended.stderr
    assert ann.json("history", "import", file)["forked"] == [], "it is told once"


def _found(device: Here) -> list[dict[str, str]]:
    found = json.loads(device.covey("check", "--offline", "--json").stdout)["findings"]
    return [each for each in found if each["check"] == "history"]


@pytest.mark.slow
def test_a_check_says_who_wrote_two_under_one_number(ann: Here) -> None:
    ann.ok("history", "post", "one")
    [finding] = _found(ann)
    assert finding["level"] == "ok"
    with open_device(find_state(str(ann.state))) as device, device.store.transaction():
        operations, manifest = device.store.operations, device.pick_group(None)
        [stored] = operations.in_order(manifest.group_id)
        held = read_operation(stored.raw)
        rival = sign_operation(replace(held, body=Note("text/plain", b"other").to_wire()), device.node.identity)
        operations.add(rival, manifest.version, 0)
    [finding] = _found(ann)
    assert finding["level"] == "warning"
    assert "wrote two operations under one number" in json.dumps(finding)


def test_a_check_names_who_gave_what_rests_on_what_is_not_here(ann: Here) -> None:
    ben = identity("ben")
    with open_device(find_state(str(ann.state))) as device, device.store.transaction():
        group_id, now = device.pick_group(None).group_id, device.now()
        device.node.actions.change(group_id, lambda draft, _: draft.adding(Member(ben.keys, "ben")), now)
        device.store.catching_up.note(group_id, ben.signing_public, taken=0, waiting=2, more=0, now_us=now.wall_us)
    [finding] = _found(ann)
    assert (
        f"2 operations of {ben.signing_public.hex()[:8]} ben depend on operations that this device does not have"
        in finding["line"]
    )


@pytest.mark.slow
def test_history_covered_by_a_checkpoint_is_deleted(ann: Here, tmp_path: Path) -> None:
    ann.ok("history", "post", "nobody signs it")
    assert ann.json("history", "checkpoint")["code"] == "checkpoint_minority"
    assert "no valid checkpoint" in ann.fails("history", "delete", "--keep", "0", code=1)
    kim = Here(tmp_path, "kim")
    kim.ok("group", "create", "--mode", "admin-invites")
    for title in ("Pumps", "Pumps, north"):
        kim.ok("group", "profile", "--title", title)
    kim.ok("history", "post", "the secret of the tank is 4711")
    note = _entries(kim)[-1]["id"]
    kim.ok("history", "post", "the last one")
    checkpoint = kim.json("history", "checkpoint")["id"]
    assert "no age is given" in kim.fails("history", "delete", code=2)
    assert kim.json("history", "delete", "--keep", "1d")["deleted"] == 0
    assert kim.json("history", "delete", "--keep", "0") == {"checkpoint": checkpoint, "deleted": 3, "in_all": 3}
    line = "signed by 1 of 1; 3 earlier operations were deleted here"
    assert line in kim.ok("history", "verify")
    assert "which a checkpoint covers" in kim.fails("history", "show", note, code=1)
    assert note not in {each["id"] for each in _entries(kim)}
    assert "Pumps, north" in kim.ok("group", "profile")
    kim.ok("history", "post", "it goes on")
    assert kim.json("history", "checkpoint")["counts"]
    assert kim.json("history", "delete", "--keep", "0")["in_all"] == 6
    assert kim.json("history", "verify")["complaints"] == []
    assert "(6 of them deleted)" in kim.ok("check", "--offline")
