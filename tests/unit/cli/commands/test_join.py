"""`covey invite` and `covey join` by a URI, and whom the new device obeys then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.core.ids import GroupId, key_from_text, key_text
from covey.core.pairing.invite import Invite
from covey.limits.pairing import NAMED_OPERATORS
from tests.command import Ended, Here
from tests.fleet import identity

LEE = identity("lee")
_LEE = key_text("sign", LEE.signing_public)
_NOWHERE = "mqtt://127.0.0.1:9"


@pytest.fixture
def kim(tmp_path: Path) -> Here:
    """An operator's device, in a group with Lee's."""
    device = Here(tmp_path, "kim")
    device.ok("relay", "set", _NOWHERE)
    device.ok("group", "create")
    device.ok("group", "add", _LEE, key_text("noise", LEE.noise_public), "--label", "lee")
    device.ok("config", "set", "operations.operators", str(device.json("key", "show")["signing_key"]))
    return device


@pytest.fixture
def pi(tmp_path: Path) -> Here:
    """A device of no group."""
    return Here(tmp_path, "pi")


def _invites(device: Here, *words: str) -> tuple[str, list[str]]:
    """Return the URI of an invite, and the labels of the operators that it names."""
    document = device.json("invite", "--no-wait", *words)
    return document["uri"], [each["label"] for each in document["operators"]]


def _asks(device: Here, uri: str, *words: str) -> Ended:
    ended = device.covey("join", uri, "--timeout", "0", *words)
    assert (ended.code, "no answer yet" in ended.stderr) == (124, True), ended
    return ended


def _obeys(device: Here, uri: str) -> set[bytes]:
    with open_device(find_state(str(device.state))) as opened:
        return {each.operator for each in opened.store.invited_operators.of(Invite.from_uri(uri).group_id)}


def _key(device: Here) -> bytes:
    key: str = device.json("key", "show")["signing_key"]
    return key_from_text("sign", key)


@pytest.mark.slow
def test_an_invite_names_the_operators_that_its_maker_obeys(kim: Here, pi: Here) -> None:  # accepts: 003.14
    uri, named = _invites(kim)
    assert named == ["kim"]
    asked = _asks(pi, uri, "--obey")
    assert f"operators:        {kim.json('status')['device']}" in asked.stderr
    assert "obeys 1 operator" in asked.stderr
    assert _obeys(pi, uri) == {_key(kim)}


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--obey-nobody",)])
def test_a_device_obeys_no_operator_that_its_owner_has_not_accepted(
    kim: Here, pi: Here, words: tuple[str, ...]
) -> None:
    uri, _ = _invites(kim)
    assert "obeys none of them" in _asks(pi, uri, *words).stderr
    assert _obeys(pi, uri) == set()


@pytest.mark.slow
def test_the_inviter_names_further_operators(kim: Here, pi: Here) -> None:
    assert sorted(_invites(kim, "--operator", "lee", "--operator", "kim")[1]) == ["kim", "lee"]
    uri, named = _invites(kim, "--operator", "none")
    assert named == []
    assert "operators:        none" in _asks(pi, uri, "--obey").stderr
    assert _obeys(pi, uri) == set()
    keys = [key_text("sign", identity(str(number)).signing_public) for number in range(NAMED_OPERATORS + 1)]
    words = [word for key in keys for word in ("--operator", key)]
    assert "at most 8 operators" in kim.fails("invite", "--no-wait", *words, code=1)
    assert "no member matches" in kim.fails("invite", "--no-wait", "--operator", "nobody", code=1)


@pytest.mark.slow
@pytest.mark.parametrize("own", [_LEE, "none"])
def test_the_owners_configuration_overrides_any_invite(kim: Here, pi: Here, own: str) -> None:
    uri, _ = _invites(kim)
    pi.ok("config", "set", "operations.operators", own)
    assert "configuration lists its operators" in _asks(pi, uri, "--obey").stderr
    assert _obeys(pi, uri) == set()


@pytest.mark.slow
def test_json_says_who_is_obeyed(kim: Here, pi: Here) -> None:
    uri, _ = _invites(kim)
    [said] = [json.loads(line) for line in _asks(pi, uri, "--obey", "--json").stdout.splitlines()]
    assert [each["name"] for each in said["obeys"]] == [kim.json("status")["device"]]


@pytest.mark.slow
def test_an_accepted_invitation_is_shown_with_its_inviter(kim: Here) -> None:
    kim.ok("config", "set", "operations.operators", "")
    with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
        group_id: GroupId = opened.pick_group(None).group_id
        opened.store.invited_operators.pin(group_id, [LEE.signing_public], LEE.signing_public, 1_000_000)
    [found] = kim.json("group", "operators")
    assert (found["label"], found["origin"], found["by"], found["since_us"]) == (
        "lee",
        "invite",
        LEE.signing_public.hex()[:8],
        1_000_000,
    )
    assert f"by the invite of {found['by']} lee, " in kim.ok("group", "operators")
    assert "lee" in kim.ok("status").partition("\norders   obeys ")[2].partition("\n")[0]


@pytest.mark.slow
def test_another_join_starts_over(kim: Here, pi: Here) -> None:
    uri, _ = _invites(kim)
    _asks(pi, uri, "--obey")
    second, _ = _invites(kim)
    _asks(pi, second, "--obey-nobody")
    assert _obeys(pi, second) == set()
