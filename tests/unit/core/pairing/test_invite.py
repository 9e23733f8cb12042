"""`covey.core.pairing.invite`: invites by URI and join requests."""

from __future__ import annotations

import contextlib
import string
from typing import Any

import pytest

from covey.adapters.word_list import draw_code, typed_code, word_list, words_at
from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.membership.requests import GroupInvite
from covey.core.membership.unknown_groups import check_request, request_to_wire
from covey.core.pairing.invite import Invite, JoinRequest, hash_secret
from covey.errors import LocalError, RemoteError
from tests.vectors import load, vectors

_KEYS = load("invites")["keys"]


@pytest.mark.parametrize("vector", vectors("invites"))
def test_invites(vector: dict[str, Any]) -> None:  # accepts: 003.86
    if vector["code"] is not None:
        with pytest.raises(LocalError) as caught:
            Invite.from_uri(vector["text"])
        assert caught.value.code == vector["code"]
        assert caught.value.hint
        return
    inviter = _KEYS[vector["inviter"]]
    keys = DeviceKeys(
        DeviceKey(bytes.fromhex(inviter["signing_public"])), NoisePublic(bytes.fromhex(inviter["noise_public"]))
    )
    group_id, secret = bytes.fromhex(vector["group_id"]), bytes.fromhex(vector["secret"])
    expected = Invite(
        GroupId(group_id),
        keys,
        secret,
        vector["expires_at_us"],
        vector["relay_url"],
        vector["rendezvous"],
        vector.get("enrolment"),
        tuple(DeviceKey(bytes.fromhex(each)) for each in vector["operators"]),
        tuple(vector["addresses"]),
    )
    assert Invite.from_uri(vector["text"]) == expected
    assert expected.to_uri() == vector["text"]
    assert hash_secret(secret).hex() == expected.secret_hash.hex() == vector["secret_hash"]


@pytest.mark.parametrize("vector", vectors("invites", "requests"))
def test_join_requests(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            JoinRequest.from_wire(body)
        assert caught.value.code == vector["code"]
        return
    secret, noise_public = bytes.fromhex(vector["secret"]), bytes.fromhex(vector["noise_public"])
    expected = JoinRequest(secret, NoisePublic(noise_public), vector["label"])
    assert JoinRequest.from_wire(body) == expected
    assert expected.to_wire() == body


@pytest.mark.parametrize("vector", vectors("invites", "group_invites"))
def test_group_invites(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            GroupInvite.from_wire(body)
        assert caught.value.code == vector["code"]
        return
    secret, noise_public = bytes.fromhex(vector["secret"]), bytes.fromhex(vector["noise_public"])
    found = GroupInvite.from_wire(body)
    expected = GroupInvite(secret, NoisePublic(noise_public), vector["expires_at_us"], found.preview)
    assert found == expected
    assert expected.to_wire() == body
    shown = vector["preview"]
    assert (found.preview.title, found.preview.count) == (shown["title"], shown["count"])
    assert [label for _, label in found.preview.members] == shown["labels"]
    assert found.preview.description == shown["description"]
    assert found.preview.picture == (shown["picture"][0], bytes.fromhex(shown["picture"][1]))


@pytest.mark.parametrize("vector", vectors("invites", "invite_requests"))
def test_invite_requests(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            check_request(body)
        assert caught.value.code == vector["code"]
        return
    check_request(body)
    assert request_to_wire() == body


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("42-abandon-zoo-river", "42-abandon-zoo-river"),
        (" 42 Abandon  ZOO river\n", "42-abandon-zoo-river"),
        ("7-aban-zoo-rive", "7-abandon-zoo-river"),
        ("007-abandoned-zoo-river", "7-abandon-zoo-river"),
    ],
)
def test_codes_as_people_type_them(typed: str, code: str) -> None:
    assert str(typed_code(typed)) == code
    assert typed_code(typed).password == code.encode()


def test_a_code_may_carry_the_way_to_its_rendezvous() -> None:
    code = typed_code("42-aban-zoo-river-k3xq7bm2")
    assert (str(code), code.enrolment) == ("42-abandon-zoo-river", "k3xq7bm2")
    assert code.password == b"42-abandon-zoo-river"
    assert "k3xq7bm2" not in repr(code)


@pytest.mark.parametrize(
    "typed", ["", "42", "42-abandon", "42-abandon-zoo", "0-abandon-zoo-zoo", "10000-abandon-zoo-zoo",
              "4-aba-zoo-zoo", "4-abandon-zoo-zoom", "4-abandon-zoo-zoo-zoo-x", "\u0664-abandon-zoo-zoo", "4-abandon-",
              "x-abandon-zoo-zoo",
              "9" * 5000 + "-abandon-zoo-zoo"],
)  # fmt: skip
def test_a_text_that_is_no_code_is_refused(typed: str) -> None:
    with pytest.raises(LocalError) as caught:
        typed_code(typed)
    assert caught.value.hint


def test_the_words_of_codes_differ_in_four_letters() -> None:
    assert len({word[:4] for word in word_list()}) == 2048
    assert words_at((0, 2047)) == ["abandon", "zoo"]


def test_any_words_may_be_drawn() -> None:
    codes = [draw_code(below, 9_999) for below in (lambda _: 0, lambda most: most - 1)]
    assert [str(code) for code in codes] == ["9999-abandon-abandon-abandon", "9999-zoo-zoo-zoo"]
    assert all(typed_code(str(code)) == code for code in codes)


def test_an_invite_is_spelt_in_one_way() -> None:
    uri = Invite(
        GroupId(bytes(32)), DeviceKeys(DeviceKey(bytes(32)), NoisePublic(bytes(32))), bytes(16), 1, "mqtt://relay", 7
    ).to_uri()
    assert len(uri.removeprefix("covey://join/1/")) % 4, "the last letter has bits to spare"
    spellings = []
    for character in string.ascii_letters + string.digits + "-_":
        with contextlib.suppress(LocalError):
            spellings.append(Invite.from_uri(uri[:-1] + character))
    assert len(set(spellings)) == len(spellings)


def test_the_secret_is_not_shown() -> None:  # accepts: 002.32
    valid = next(vector for vector in load("invites")["vectors"] if vector["code"] is None)
    invite = Invite.from_uri(valid["text"])
    assert repr(invite.secret) not in repr(invite)
    assert repr(invite.secret) not in repr(JoinRequest(invite.secret, NoisePublic(bytes(32)), ""))


def test_no_invite_is_made_that_cannot_be_read() -> None:
    keys = DeviceKeys(DeviceKey(bytes(32)), NoisePublic(bytes(32)))
    with pytest.raises(LocalError, match="URL"):
        Invite(GroupId(bytes(32)), keys, bytes(16), 1, "\u00fc" * 257).to_uri()
    with pytest.raises(LocalError, match="an address of the relay must have at most 128 bytes"):
        Invite(GroupId(bytes(32)), keys, bytes(16), 1, "mqtts://relay", addresses=(f"{'x' * 128}:1",)).to_uri()
