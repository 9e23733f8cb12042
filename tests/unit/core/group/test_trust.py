"""`covey.core.group.trust`: every rule by the vectors, and what is left when one is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from covey.core.group.manifest import Mode, read_manifest
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, GroupId
from covey.errors import GenesisError, MalformedError, RemoteError
from tests.replay import replay
from tests.vectors import load, vectors

_FILE = load("group_manifests")
_RAW = {entry["name"]: bytes.fromhex(entry["manifest"]) for entry in _FILE["manifests"]}
_GROUP_ID = GroupId(bytes.fromhex(_FILE["manifests"][0]["group_id"]))


def _signing(name: str) -> DeviceKey:
    return DeviceKey(bytes.fromhex(_FILE["keys"][name]["signing_public"]))


@pytest.mark.parametrize("vector", vectors("group_manifests", "trust"))
def test_rules(vector: dict[str, Any]) -> None:
    # accepts: 000.11, 000.12, 000.13, 000.14, 000.15, 000.16, 000.17, 001.18, 003.07, 003.08, 003.09, 003.34, 003.36
    # accepts: 003.38, 003.39, 003.41, 003.42, 003.43, 003.44, 003.45, 003.46, 003.47, 003.48, 003.49, 003.50
    held = vector["held"]
    first = read_manifest(_RAW[held]) if held else None
    trust = GroupTrust(GroupId(first.group_id if first else _GROUP_ID), first)
    for offer in vector["offers"]:
        before = trust.current
        raw = _RAW[offer["manifest"]]
        try:
            if vector["join"] and before is None:
                join = vector["join"]
                own = bytes.fromhex(_FILE["keys"][join["device"]]["noise_public"])
                outcome = trust.join(
                    [raw], _signing(join["inviter"]), _signing(join["device"]), lambda public, own=own: public == own
                ).value
            else:
                outcome = trust.update(raw).value
        except RemoteError as error:
            outcome = error.code
        assert outcome == offer["outcome"], offer["manifest"]
        if outcome == "accepted":
            assert trust.holds(read_manifest(raw).hash)
        else:
            assert trust.current is before, "a refused manifest changes nothing"
    assert trust.conflict is vector["conflict"]
    if vector["members"] is not None:
        assert trust.current is not None
        assert {each.keys.signing_public for each in trust.current.members} == {*map(_signing, vector["members"])}
    if vector["noise"] is not None:
        device = DeviceKey(_signing(vector["noise"]["device"]))
        assert trust.current is not None
        held_now, expected = trust.current.member(device), read_manifest(_RAW[vector["noise"]["as_in"]]).member(device)
        assert held_now is not None
        assert expected is not None
        assert held_now.keys == expected.keys


@pytest.mark.parametrize("vector", vectors("group_manifests", "chains"))
def test_chains(vector: dict[str, Any]) -> None:  # accepts: 003.04
    raws = [_RAW[name] for name in vector["chain"]]
    if vector["code"] is None:
        assert replay(raws).raw == raws[-1]
        return
    with pytest.raises(RemoteError) as caught:
        replay(raws)
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("held", ["genesis", "without bob"])
@pytest.mark.parametrize("vector", vectors("group_manifests", "refused"))
def test_a_malformed_manifest_changes_nothing(vector: dict[str, Any], held: str) -> None:  # accepts: 000.12
    trust = GroupTrust(_GROUP_ID, read_manifest(_RAW[held]))
    before = trust.current
    with pytest.raises(RemoteError) as caught:
        trust.update(bytes.fromhex(vector["manifest"]))
    assert caught.value.code == vector["code"]
    assert trust.current is before


def test_the_mode_never_changes() -> None:  # accepts: 003.07
    held = replace(read_manifest(_RAW["genesis"]), mode=cast("Mode", 1))  # no second mode is defined yet
    trust = GroupTrust(_GROUP_ID, held)
    with pytest.raises(MalformedError, match="mode"):
        trust.update(_RAW["with bob"])
    assert trust.current is held


def test_a_group_is_created_once_and_from_its_genesis() -> None:  # accepts: 000.15
    trust = GroupTrust(_GROUP_ID, None)
    with pytest.raises(GenesisError):
        trust.create(read_manifest(_RAW["with bob"]))
    with pytest.raises(GenesisError):
        trust.create(read_manifest(_RAW["genesis of another group"]))
    trust.create(read_manifest(_RAW["genesis"]))
    with pytest.raises(GenesisError):
        trust.create(read_manifest(_RAW["genesis"]))


def test_a_device_that_joined_follows_the_ordinary_rules() -> None:
    trust = GroupTrust(_GROUP_ID, None)
    trust.join([_RAW["with bob"]], _signing("alice"), _signing("bob"), bool)
    with pytest.raises(RemoteError) as caught:
        trust.update(_RAW["genesis"])
    assert caught.value.code == "genesis"
