"""`covey.core.group.messages`, votes and Revokes: every body by the vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from covey.core.group.messages import Bundle, pull_from_wire, pull_to_wire
from covey.core.group.policy import Action, read_vote, sign_vote
from covey.core.group.revocation import read_revoke
from covey.core.ids import GroupId
from covey.errors import RemoteError
from tests.vectors import load, vectors
from tests.vectors.makers.cast import identity

_KEYS = load("group_messages")["keys"]


def _key(name: str) -> bytes:
    return bytes.fromhex(_KEYS[name]["signing_public"])


def _refused(vector: dict[str, Any], read: Callable[[bytes], object]) -> bool:
    """Say whether the vector is to be refused, and see that it is."""
    if vector["code"] is None:
        return False
    with pytest.raises(RemoteError) as caught:
        read(bytes.fromhex(vector["bytes"]))
    assert caught.value.code == vector["code"]
    return True


@pytest.mark.parametrize("vector", vectors("group_messages", "votes"))
def test_votes(vector: dict[str, Any]) -> None:  # accepts: 003.34, 003.40
    if _refused(vector, read_vote):
        return
    raw, group_id = bytes.fromhex(vector["bytes"]), bytes.fromhex(vector["group_id"])
    vote = read_vote(raw)
    assert (vote.group_id, vote.action, vote.since) == (group_id, vector["action"], vector["since"])
    assert (vote.target, vote.voter) == (_key(vector["target"]), _key(vector["voter"]))
    made = sign_vote(GroupId(group_id), Action(vote.action), vote.target, vote.since, identity(vector["voter"]))
    assert made.raw == raw


@pytest.mark.parametrize("vector", vectors("group_messages", "revokes"))
def test_revokes(vector: dict[str, Any]) -> None:  # accepts: 000.22
    if _refused(vector, read_revoke):
        return
    revoke = read_revoke(bytes.fromhex(vector["bytes"]))
    assert (revoke.group_id.hex(), revoke.epoch, revoke.version, revoke.issuer) == (
        vector["group_id"],
        vector["epoch"],
        vector["version"],
        _key(vector["issuer"]),
    )
    assert list(revoke.targets) == [_key(name) for name in vector["targets"]]


@pytest.mark.parametrize("vector", vectors("group_messages", "manifests"))
def test_manifests_and_secrets(vector: dict[str, Any]) -> None:
    if _refused(vector, Bundle.from_wire):
        return
    bundle = Bundle.from_wire(bytes.fromhex(vector["bytes"]))
    assert [raw.hex() for raw in bundle.manifests] == vector["manifests"]
    assert [secret.hex() for secret in bundle.secrets] == vector["secrets"]
    assert bundle.to_wire().hex() == vector["bytes"]
    assert not [secret for secret in vector["secrets"] if repr(bytes.fromhex(secret))[2:-1] in repr(bundle)]


@pytest.mark.parametrize("vector", vectors("group_messages", "pulls"))
def test_pulls(vector: dict[str, Any]) -> None:
    if _refused(vector, pull_from_wire):
        return
    assert pull_from_wire(bytes.fromhex(vector["bytes"])) == vector["from_version"]
    assert pull_to_wire(vector["from_version"]).hex() == vector["bytes"]
