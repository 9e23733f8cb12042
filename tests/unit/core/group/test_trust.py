"""`covey.core.group.trust`: every rule by the vectors, and what is left when one is broken."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest

from covey.core.crypto import Identity
from covey.core.group.manifest import (
    BOARD,
    GroupManifest,
    Member,
    Mode,
    genesis,
    read_manifest,
    secret_id,
    sign_manifest,
)
from covey.core.group.trust import GroupTrust, Verdict
from covey.core.ids import DeviceKey, GroupId
from covey.errors import GenesisError, LimitError, MalformedError, RemoteError, UnknownIssuerError, VersionGapError
from covey.limits.group import RIVALS_OF_ONE, RIVALS_REPLACED
from tests.replay import replay
from tests.vectors import load, vectors
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY, identity
from tests.vectors.makers.groups import WITH_CAROL

_FILE = load("group_manifests")
_RAW = {entry["name"]: bytes.fromhex(entry["bytes"]) for entry in _FILE["manifests"]}
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
    if vector["allowances"] is not None:
        followed_by_all = trust.draft(secret_id(b"next"), ALICE.signing_public)
        left = {name: followed_by_all.member(_signing(name)) for name in vector["allowances"]}
        assert {name: member and member.allowance for name, member in left.items()} == vector["allowances"]
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


@pytest.mark.parametrize("vector", vectors("group_manifests", "agreements"))
@pytest.mark.parametrize("begins", ["at the genesis", "later", "at the genesis, and settles"])
def test_devices_with_the_same_manifests_agree(vector: dict[str, Any], begins: str) -> None:  # accepts: 000.16, 000.17
    manifests = [read_manifest(bytes.fromhex(raw)) for raw in vector["manifests"]]
    first = vector["begins"] if begins == "later" else 0
    trust = GroupTrust(GROUP_ID, manifests[first])
    for place, manifest in enumerate(manifests[first + 1 :], first + 1):
        trust.offer(manifest)
        if begins.endswith("settles") and place == vector["begins"]:
            trust.settle()
            assert len(trust) == 1
    current = trust.current
    assert current is not None
    assert [each.keys.signing_public.hex() for each in current.members] == vector["members"]
    assert [[each.signing_public.hex(), each.since] for each in current.banned] == vector["banned"]
    assert (current.epoch, trust.conflict) == (vector["epoch"], vector["conflict"])
    assert [head.hash.hex() for head in trust.heads()] == vector["heads"]


@pytest.mark.parametrize("held", ["genesis", "without bob"])
@pytest.mark.parametrize("vector", vectors("group_manifests", "refused"))
def test_a_malformed_manifest_changes_nothing(vector: dict[str, Any], held: str) -> None:  # accepts: 000.12
    trust = GroupTrust(_GROUP_ID, read_manifest(_RAW[held]))
    before = trust.current
    with pytest.raises(RemoteError) as caught:
        trust.update(bytes.fromhex(vector["bytes"]))
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


def _rivals(held: GroupManifest, count: int) -> list[GroupManifest]:
    """Return Alice's manifests that all follow the same one, the last by version and hash first."""
    alice = held.member(ALICE.signing_public)
    assert alice is not None
    made = [sign_manifest(held.changing(replace(alice, label=f"{number}")), ALICE) for number in range(count)]
    return sorted(made, key=lambda each: each.hash, reverse=True)


@pytest.mark.parametrize("followed", [False, True], ids=["alone", "followed by their issuer's own"])
def test_the_rivals_held_do_not_depend_on_their_order(*, followed: bool) -> None:
    """As all are offered again and again; what two devices hold would differ for good (seed 730028919)."""
    last_first = _rivals(WITH_CAROL, 2 * RIVALS_OF_ONE)
    later = [rival for each in last_first[:RIVALS_OF_ONE] for rival in _rivals(each, 2)] if followed else []
    heads = []
    for order in (last_first, last_first[::-1], last_first[1::2] + last_first[::2]):
        trust = GroupTrust(GROUP_ID, WITH_CAROL)
        for _ in range(3):
            for each in [*order[:RIVALS_OF_ONE], *later, *order[RIVALS_OF_ONE:]]:
                with suppress(LimitError, VersionGapError):
                    trust.offer(each)
        heads.append([each.hash for each in trust.heads()])
        assert len(trust) == 1 + RIVALS_OF_ONE
    assert heads[0] == heads[1] == heads[2] == sorted(each.hash for each in last_first)[:RIVALS_OF_ONE]


def test_a_manifest_that_another_member_follows_is_not_replaced() -> None:
    trust = GroupTrust(GROUP_ID, WITH_CAROL)
    last_first = _rivals(WITH_CAROL, 2 * RIVALS_OF_ONE)
    for each in last_first[:RIVALS_OF_ONE]:
        trust.offer(each)
    bob = last_first[0].member(BOB.signing_public)
    assert bob is not None
    followed = sign_manifest(last_first[0].changing(replace(bob, label="bob anew")), BOB)
    trust.offer(followed)
    for each in last_first[RIVALS_OF_ONE:-1]:
        trust.offer(each)
    assert trust.holds(last_first[0].hash)
    assert {each.hash for each in trust.heads()} == {followed.hash, *(each.hash for each in last_first[-8:-1])}


def test_a_hostile_issuer_replaces_its_manifests_a_limited_number_of_times() -> None:
    trust = GroupTrust(GROUP_ID, WITH_CAROL)
    accepted = 0
    for each in _rivals(WITH_CAROL, 2 * RIVALS_REPLACED):
        with suppress(LimitError):
            accepted += trust.offer(each) is Verdict.ACCEPTED
    assert accepted == RIVALS_OF_ONE + RIVALS_REPLACED


def test_nothing_follows_a_manifest_and_one_before_that() -> None:
    later = _relabelled(WITH_CAROL, CAROL)
    trust = GroupTrust(GROUP_ID, WITH_CAROL)
    trust.offer(later)
    twice = replace(later.draft(), prev=tuple(sorted((later.hash, WITH_CAROL.hash))), epoch=2, epoch_id=secret_id(b"2"))
    with pytest.raises(MalformedError, match="that one's predecessor"):
        trust.offer(sign_manifest(twice, CAROL))


def test_the_worked_example_of_the_module() -> None:
    abc = WITH_CAROL
    plus_m, minus_b = (read_manifest(_RAW[name]) for name in ("bob adds mallory", "alice removes bob"))
    relabelled = _relabelled(abc, CAROL)
    by_mallory, by_bob = _relabelled(plus_m, MALLORY), sign_manifest(minus_b.adding(Member(BOB.keys)), BOB)
    early = sign_manifest(relabelled.adding(Member(identity("dave").keys)), CAROL)
    trust = GroupTrust(GROUP_ID, abc)
    believed = []
    for offered in (plus_m, minus_b, by_mallory, by_bob, early, relabelled):
        outcome = "accepted"
        try:
            trust.offer(offered)
        except RemoteError as error:
            outcome = error.code
        assert trust.current is not None
        believed.append((outcome, len(trust.current.members), trust.conflict))
    assert believed == [
        ("accepted", 4, False),
        ("accepted", 2, False),
        ("accepted", 2, False),
        ("unknown_issuer", 2, False),
        ("version_gap", 2, False),
        ("accepted", 2, True),
    ]
    end = sign_manifest(trust.draft(secret_id(b"end"), CAROL.signing_public), CAROL)
    trust.offer(end)
    assert (end.version, end.epoch, len(end.prev), trust.conflict) == (6, 3, 3, False)
    assert trust.settle() == 6
    assert len(trust) == 1


def _relabelled(held: GroupManifest, device: Identity) -> GroupManifest:
    own = held.member(device.signing_public)
    assert own is not None
    return sign_manifest(held.changing(replace(own, label="relabelled")), device)


@pytest.mark.parametrize("mode", [Mode.INVITES_ONLY, Mode.ADMIN_INVITES, Mode.PERSONAL])
def test_the_keys_of_a_board_change_no_group(mode: Mode) -> None:
    """They once let anybody who read them off a board remove every member, where all members are equal."""
    board = identity("board")
    founded = sign_manifest(genesis(GROUP_ID, Member(ALICE.keys), secret_id(b"first"), mode), ALICE)
    listed = sign_manifest(founded.adding(Member(board.keys, capabilities=(BOARD,))), ALICE)
    own = listed.member(board.signing_public)
    assert own is not None
    for change in (
        listed.changing(replace(own, label="mine")),
        listed.adding(Member(MALLORY.keys)),
        listed.removing(ALICE.signing_public, secret_id(b"second")),
        listed.removing(board.signing_public, secret_id(b"second")),
        listed.changing(replace(own, capabilities=())),
    ):
        trust = GroupTrust(GROUP_ID, listed)
        with pytest.raises(UnknownIssuerError):
            trust.offer(sign_manifest(replace(change, before=None), board))
