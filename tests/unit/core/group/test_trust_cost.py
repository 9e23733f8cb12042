"""What the rivals of one envelope cost: twice as many cost little more than twice as much."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from types import FrameType

import pytest

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, secret_id, sign_manifest
from covey.core.group.trust import GroupTrust
from covey.core.ids import GroupId, ManifestHash
from covey.limits.group import MEMBER_ALLOWANCE, RIVALS_OF_ONE


def _rivals(count: int) -> tuple[GroupManifest, list[GroupManifest]]:
    """Return a manifest and so many that follow it, by members who know nothing of each other."""
    chance = random.Random(count)
    issuers = [Identity.from_seeds(chance.randbytes(32), chance.randbytes(32)) for _ in range(count // RIVALS_OF_ONE)]
    first = genesis(GroupId(bytes(32)), Member(issuers[0].keys), secret_id(b""))
    members = sorted(
        (Member(each.keys, allowance=MEMBER_ALLOWANCE) for each in issuers),
        key=lambda member: member.keys.signing_public,
    )
    held = replace(first, version=2, prev=(ManifestHash(bytes(32)),), members=tuple(members))
    held = sign_manifest(held, issuers[0])
    rivals = []
    for number in range(count):
        issuer = issuers[number % len(issuers)]
        own = held.member(issuer.signing_public)
        assert own is not None
        rivals.append(sign_manifest(held.changing(replace(own, label=f"{number}")), issuer))
    return held, rivals


def _calls(count: int) -> int:
    """Return how many functions are called until so many rivals are taken, and it is known what they come to."""
    held, rivals = _rivals(count)
    trust, calls = GroupTrust(held.group_id, held), 0

    def count_call(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count_call)
    try:
        for rival in rivals:
            trust.offer(rival)
        assert trust.current is not None
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.slow
def test_twice_as_many_rivals_cost_little_more_than_twice_as_much() -> None:
    few, many = _calls(128), _calls(256)
    assert many < 2.5 * few
