"""`covey.core.group.resolver`: removals that go round in a circle, where the removed go on (rule 3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, secret_id, sign_manifest
from covey.core.group.trust import GroupTrust
from covey.core.ids import EpochId
from tests.vectors.makers.cast import GROUP_ID, identity

_ELDEST, _SECOND, _THIRD, _FOURTH = (identity(f"device {number}") for number in range(4))


def _epoch(label: str) -> EpochId:
    return secret_id(label.encode())


def _founded() -> GroupManifest:
    manifest = sign_manifest(genesis(GROUP_ID, Member(_ELDEST.keys), _epoch("first")), _ELDEST)
    for device in (_SECOND, _THIRD, _FOURTH):
        manifest = sign_manifest(manifest.adding(Member(device.keys)), _ELDEST)
    return manifest


_FOUNDED = _founded()


def _removes(issuer: Identity, target: Identity, held: GroupManifest = _FOUNDED) -> GroupManifest:
    return sign_manifest(held.removing(target.signing_public, _epoch(f"{held.hash.hex()} {target}")), issuer)


def _renames_itself(issuer: Identity, held: GroupManifest) -> GroupManifest:
    own = held.member(issuer.signing_public)
    assert own is not None
    return sign_manifest(held.changing(replace(own, label="renamed")), issuer)


def _members(*manifests: GroupManifest) -> set[bytes]:
    trust = GroupTrust(GROUP_ID, _FOUNDED)
    for manifest in manifests:
        trust.offer(manifest)
    assert trust.current is not None
    return {member.keys.signing_public for member in trust.current.members}


def _keys(*devices: Identity) -> set[bytes]:
    return {device.signing_public for device in devices}


@pytest.mark.parametrize("goes_on", ["no", "yes"])
def test_a_removed_member_gains_nothing_by_removing_others(goes_on: str) -> None:  # accepts: 000.20, 000.26
    """It removes its remover, and then one who has gone on since: that one is no party to the circle."""
    removal = _removes(_ELDEST, _FOURTH)
    rename = _renames_itself(_THIRD, removal)
    against_eldest = _removes(_FOURTH, _ELDEST)
    against_third = _removes(_FOURTH, _THIRD, against_eldest)
    late = [against_third] if goes_on == "yes" else []
    assert _members(removal, rename, against_eldest, *late) == _keys(_ELDEST, _SECOND, _THIRD)


def test_a_removal_counts_although_its_target_removed_the_author() -> None:  # accepts: 000.26
    """The eldest is removed by two, and removes both, one after the other: they are still two."""
    first, second = _removes(_SECOND, _ELDEST), _removes(_THIRD, _ELDEST)
    in_return = _removes(_ELDEST, _SECOND)
    then = _removes(_ELDEST, _THIRD, in_return)
    assert _members(first, second, in_return, then) == _keys(_SECOND, _THIRD, _FOURTH)


def test_circles_that_know_nothing_of_each_other_are_each_decided() -> None:
    pairs = [(_ELDEST, _SECOND), (_THIRD, _FOURTH)]
    rivals = [_removes(*each) for pair in pairs for each in (pair, pair[::-1])]
    assert _members(*rivals) == _keys(_ELDEST, _THIRD)


def test_wishes_of_devices_that_one_side_let_in_do_not_count() -> None:  # accepts: 000.26
    """Who is removed lets devices in, which remove its remover, too."""
    removal = _removes(_ELDEST, _FOURTH)
    held, puppets = _FOUNDED, [identity(f"puppet {number}") for number in range(3)]
    added = []
    for puppet in puppets:
        held = sign_manifest(held.adding(Member(puppet.keys)), _FOURTH)
        added.append(held)
    against = [_removes(each, _ELDEST, held) for each in (_FOURTH, *puppets)]
    assert _members(removal, *added, *against) == _keys(_ELDEST, _SECOND, _THIRD)


def test_an_elder_who_removes_it_too_ends_what_a_removed_device_forked_from_before_its_remover_came() -> None:
    """A limit: it removes whoever let its remover in, as if it knew of neither, and nobody can tell.

    What is left to it then is to remove that elder: which loses.
    """
    newcomer = identity("newcomer")
    let_in = sign_manifest(_FOUNDED.adding(Member(newcomer.keys)), _SECOND)
    removal = _removes(newcomer, _FOURTH, let_in)
    fork = _removes(_FOURTH, _SECOND)
    trust = GroupTrust(GROUP_ID, _FOUNDED)
    for manifest in (let_in, removal, fork):
        trust.offer(manifest)
    assert trust.current is not None
    assert {each.keys.signing_public for each in trust.current.members} == _keys(_ELDEST, _THIRD, _FOURTH)
    epoch_id = _epoch("the elder's")
    draft = trust.draft(epoch_id, _ELDEST.signing_public).removing(_FOURTH.signing_public, epoch_id)
    elders = sign_manifest(trust.finish(draft, epoch_id), _ELDEST)
    in_return = _removes(_FOURTH, _ELDEST)
    assert _members(let_in, removal, fork, elders, in_return) == _keys(_ELDEST, _THIRD)
    assert _members(in_return, fork, let_in, removal, elders) == _keys(_ELDEST, _THIRD)


def _adds(issuer: Identity, target: Identity, held: GroupManifest) -> GroupManifest:
    return sign_manifest(held.adding(Member(target.keys)), issuer)


def test_a_device_that_an_accomplice_lets_back_in_lets_nobody_in() -> None:  # accepts: 000.20, 000.26
    """It had once been let in rightly, and was removed: that first time does not vouch for it (rule 2).

    The accomplice also issues an old rival, so that the whole story lies beyond the last manifest that all follow.
    """
    guest, made_up = identity("device 4"), identity("device 5")
    let_in = _adds(_ELDEST, guest, _FOUNDED)
    put_out = _removes(_ELDEST, guest, let_in)
    accomplice_out = _removes(_ELDEST, _FOURTH, put_out)
    let_back = _adds(_FOURTH, guest, put_out)
    let_in_too = _adds(guest, made_up, let_back)
    old_rival = _renames_itself(_FOURTH, _FOUNDED)
    story = [let_in, put_out, accomplice_out, let_back, let_in_too]
    assert _members(*story) == _members(*story, old_rival) == _keys(_ELDEST, _SECOND, _THIRD)


def test_a_member_that_void_manifests_removed_and_readmitted_stays() -> None:
    """By what counts it was a member all the time."""
    thrown_out = _removes(_FOURTH, _THIRD)
    let_back = _adds(_FOURTH, _THIRD, thrown_out)
    guest = identity("device 4")
    guest_in = _adds(_THIRD, guest, let_back)
    fourth_out = _removes(_ELDEST, _FOURTH)
    assert _members(thrown_out, let_back, guest_in, fourth_out) == _keys(_ELDEST, _SECOND, _THIRD, guest)


def test_a_removal_wins_over_a_concurrent_addition() -> None:
    thrown_out = _removes(_SECOND, _FOURTH)
    let_back = _adds(_SECOND, _FOURTH, thrown_out)
    assert _members(thrown_out, let_back, _removes(_ELDEST, _FOURTH)) == _keys(_ELDEST, _SECOND, _THIRD)


def test_two_that_take_one_noise_key_do_not_both_get_it() -> None:
    wanted = identity("device 5").keys.noise_public
    rotations = [
        sign_manifest(_FOUNDED.changing(Member(replace(each.keys, noise_public=wanted), since=since)), each)
        for since, each in enumerate((_SECOND, _THIRD), 2)
    ]
    trust = GroupTrust(GROUP_ID, _FOUNDED)
    for each in rotations:
        trust.offer(each)
    assert trust.current is not None
    having_it = [each for each in trust.current.members if each.keys.noise_public == wanted]
    first = min(rotations, key=lambda each: each.hash)
    assert [each.keys.signing_public for each in having_it] == [first.issuer]
