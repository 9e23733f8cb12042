"""`agent.core.pairing`: invites by URI and join requests."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.crypto import DeviceKeys
from agent.core.pairing import Invite, JoinRequest, hash_secret
from agent.errors import LocalError, RemoteError
from tests.vectors import load, vectors

_KEYS = load("invites")["keys"]


@pytest.mark.parametrize("vector", vectors("invites"))
def test_invites(vector: dict[str, Any]) -> None:  # accepts: 003.86
    if vector["code"] is not None:
        with pytest.raises(LocalError) as caught:
            Invite.from_uri(vector["uri"])
        assert caught.value.code == vector["code"]
        assert caught.value.hint
        return
    inviter = _KEYS[vector["inviter"]]
    keys = DeviceKeys(bytes.fromhex(inviter["signing_public"]), bytes.fromhex(inviter["noise_public"]))
    group_id, secret = bytes.fromhex(vector["group_id"]), bytes.fromhex(vector["secret"])
    expected = Invite(group_id, keys, secret, vector["expires_at_us"], vector["relay_url"])
    assert Invite.from_uri(vector["uri"]) == expected
    assert expected.to_uri() == vector["uri"]
    assert hash_secret(secret).hex() == expected.secret_hash.hex() == vector["secret_hash"]


@pytest.mark.parametrize("vector", vectors("invites", "requests"))
def test_join_requests(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["body"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            JoinRequest.from_wire(body)
        assert caught.value.code == vector["code"]
        return
    secret, noise_public = bytes.fromhex(vector["secret"]), bytes.fromhex(vector["noise_public"])
    expected = JoinRequest(secret, noise_public, vector["label"])
    assert JoinRequest.from_wire(body) == expected
    assert expected.to_wire() == body


def test_the_secret_is_not_shown() -> None:  # accepts: 002.32
    valid = next(vector for vector in load("invites")["vectors"] if vector["code"] is None)
    invite = Invite.from_uri(valid["uri"])
    assert repr(invite.secret) not in repr(invite)
    assert repr(invite.secret) not in repr(JoinRequest(invite.secret, bytes(32), ""))


def test_no_invite_is_made_that_cannot_be_read() -> None:
    keys = DeviceKeys(bytes(32), bytes(32))
    with pytest.raises(LocalError, match="URL"):
        Invite(bytes(32), keys, bytes(16), 1, "\u00fc" * 257).to_uri()
