"""`covey.core.group.manifest`: single documents, read and made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from covey.core.crypto import DeviceKeys, Identity
from covey.core.group.manifest import (
    COLLECTOR,
    Member,
    Mode,
    Role,
    genesis,
    read_manifest,
    secret_id,
    sign_manifest,
)
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.errors import LimitError, LocalError, RemoteError
from covey.limits.group import (
    FOUNDER_ALLOWANCE,
    MAXIMUM_LABEL_BYTES,
    MAXIMUM_LISTED_BYTES,
    MAXIMUM_MANIFEST_BYTES,
    MAXIMUM_MEMBERS,
)
from tests.vectors import load, vectors

_KEYS = load("group_manifests")["keys"]
_GROUP_ID = GroupId(bytes(range(32)))
_EPOCH = secret_id(bytes(32))


def _identity(name: str) -> Identity:
    keys = _KEYS[name]
    return Identity.from_seeds(bytes.fromhex(keys["signing_seed"]), bytes.fromhex(keys["noise_secret"]))


_ALICE, _BOB, _CAROL = (_identity(name) for name in ("alice", "bob", "carol"))


@pytest.mark.parametrize("vector", vectors("group_manifests", "manifests"))
def test_manifests(vector: dict[str, Any]) -> None:  # accepts: 000.03, 000.04, 000.05, 000.08
    raw = bytes.fromhex(vector["bytes"])
    manifest = read_manifest(raw)
    assert manifest.raw == raw
    assert manifest.hash.hex() == vector["hash"]
    assert (manifest.group_id.hex(), manifest.version, [each.hex() for each in manifest.prev]) == (
        vector["group_id"],
        vector["version"],
        vector["prev"],
    )
    assert (int(manifest.mode), manifest.epoch, manifest.issuer.hex()) == (
        vector["mode"],
        vector["epoch"],
        vector["issuer"],
    )
    assert [[ban.signing_public.hex(), ban.since] for ban in manifest.banned] == vector["banned"]
    assert (manifest.epoch_id.hex(), [vote.hex() for vote in manifest.votes]) == (vector["epoch_id"], vector["votes"])
    assert (manifest.invited.hex() if manifest.invited else None) == vector["invited"]
    assert [
        {
            "signing_public": member.keys.signing_public.hex(),
            "noise_public": member.keys.noise_public.hex(),
            "name": member.name,
            "label": member.label,
            "role": int(member.role),
            "capabilities": list(member.capabilities),
            "since": member.since,
            "allowance": member.allowance,
        }
        for member in manifest.members
    ] == vector["members"]
    issuer = next(name for name, keys in _KEYS.items() if keys["signing_public"] == vector["issuer"])
    assert sign_manifest(replace(manifest, raw=b""), _identity(issuer)).raw == raw


@pytest.mark.parametrize("vector", vectors("group_manifests", "refused"))
def test_refused(vector: dict[str, Any]) -> None:  # accepts: 000.12, 000.05, 002.30
    with pytest.raises(RemoteError) as caught:
        read_manifest(bytes.fromhex(vector["bytes"]))
    assert caught.value.code == vector["code"]


def test_a_genesis_lists_its_creator_alone() -> None:  # accepts: 000.01, 003.10, 003.31
    made = sign_manifest(genesis(_GROUP_ID, Member(_ALICE.keys, "workshop"), _EPOCH), _ALICE)
    assert (made.group_id, made.version, made.prev, made.mode) == (_GROUP_ID, 1, (), Mode.INVITES_ONLY)
    assert made.members == (Member(_ALICE.keys, "workshop", Role.MEMBER),)
    assert read_manifest(made.raw) == made


def test_adding_a_member_makes_the_next_version() -> None:  # accepts: 000.02
    first = sign_manifest(genesis(_GROUP_ID, Member(_ALICE.keys), _EPOCH), _ALICE)
    second = sign_manifest(first.adding(Member(_BOB.keys, capabilities=(COLLECTOR,))), _ALICE)
    assert (second.version, second.prev, second.group_id) == (2, (first.hash,), first.group_id)
    assert read_manifest(second.raw) == second
    assert second.with_capability(COLLECTOR) == (Member(_BOB.keys, capabilities=(COLLECTOR,), since=2),)
    assert second.member(_CAROL.signing_public) is None
    bob = second.member(_BOB.signing_public)
    assert bob is not None
    assert bob.keys == _BOB.keys


def test_no_device_and_no_key_is_added_twice() -> None:
    first = sign_manifest(genesis(_GROUP_ID, Member(_ALICE.keys), _EPOCH), _ALICE)
    with pytest.raises(LocalError, match="already a member"):
        first.adding(Member(_ALICE.keys))
    with pytest.raises(LocalError, match="noise key"):
        first.adding(Member(replace(_BOB.keys, noise_public=_ALICE.noise_public)))


def _full_group(count: int, label: str, capabilities: tuple[str, ...] = ()) -> tuple[Member, ...]:
    devices = [
        DeviceKeys(DeviceKey(number.to_bytes(32, "big")), NoisePublic((number + 2).to_bytes(32, "little")))
        for number in range(count - 1)
    ]
    members = [Member(keys, label, capabilities=capabilities) for keys in devices]
    return tuple(
        sorted([*members, Member(_ALICE.keys, allowance=FOUNDER_ALLOWANCE)], key=lambda each: each.keys.signing_public)
    )


@pytest.mark.slow
def test_a_thousand_members_with_the_longest_labels_fit() -> None:
    first = sign_manifest(genesis(_GROUP_ID, Member(_ALICE.keys), _EPOCH), _ALICE)
    almost = replace(
        first, version=2, prev=(first.hash,), members=_full_group(MAXIMUM_MEMBERS - 1, "x" * MAXIMUM_LABEL_BYTES)
    )
    full = sign_manifest(almost.adding(Member(_BOB.keys, "y" * MAXIMUM_LABEL_BYTES)), _ALICE)
    assert len(read_manifest(full.raw).members) == MAXIMUM_MEMBERS
    with pytest.raises(LocalError, match="members"):
        full.adding(Member(_CAROL.keys))
    for count in (MAXIMUM_MEMBERS + 1, 10_000):
        too_many = replace(full, members=_full_group(count, ""))
        with pytest.raises(LimitError):
            read_manifest(sign_manifest(too_many, _ALICE).raw)


@pytest.mark.slow
def test_nobody_is_added_who_would_make_the_manifest_unreadable() -> None:
    first = sign_manifest(genesis(_GROUP_ID, Member(_ALICE.keys), _EPOCH), _ALICE)
    capabilities = tuple(f"{number}" * 32 for number in range(8))
    crowd = _full_group(615, "x" * MAXIMUM_LABEL_BYTES, capabilities)
    group = replace(first, version=2, prev=(first.hash,), members=crowd)
    added = 0
    for number in range(20):
        key = bytes([255, number]) * 16
        member = Member(
            DeviceKeys(DeviceKey(key), NoisePublic(key)), "x" * MAXIMUM_LABEL_BYTES, capabilities=capabilities
        )
        try:
            group = sign_manifest(group.adding(member), _ALICE)
        except LocalError as error:
            assert "bytes" in str(error)  # noqa: PT017 # the point is how many came before
            break
        assert read_manifest(group.raw) == group
        added += 1
    assert 0 < added < 20
    assert MAXIMUM_LISTED_BYTES - 500 < len(group.raw) <= MAXIMUM_LISTED_BYTES


def test_an_oversize_manifest_is_refused_unparsed() -> None:  # accepts: 002.37
    with pytest.raises(LimitError):
        read_manifest(b"\xff" * (MAXIMUM_MANIFEST_BYTES + 1))
