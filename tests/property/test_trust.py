"""Group trust under any interleaving of updates, by members, former members and strangers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, read_manifest, secret_id, sign_manifest
from covey.core.group.trust import GroupTrust, Verdict
from covey.errors import LocalError, RemoteError
from tests.replay import replay
from tests.vectors.makers.cast import GROUP_ID, identity

_DEVICES = tuple(identity(name) for name in ("alice", "bob", "carol", "mallory"))
_FIRST = sign_manifest(genesis(GROUP_ID, Member(_DEVICES[0].keys), secret_id(b"first")), _DEVICES[0])


def _following(before: GroupManifest, issuer: Identity, change: int) -> GroupManifest:
    """Any next manifest that `issuer` could sign: it adds or removes the device that `change` names."""
    device = _DEVICES[change % len(_DEVICES)]
    others = tuple(each for each in before.members if each.keys != device.keys)
    if len(others) == len(before.members):
        unsigned = before.adding(Member(device.keys))
    else:
        unsigned = before.removing(device.signing_public, secret_id(before.hash + bytes([change])))
    try:
        return sign_manifest(unsigned, issuer)
    except LocalError:  # it has no allowance, so it pays nothing
        return sign_manifest(replace(unsigned, before=None), issuer)


@cache
def _universe() -> tuple[GroupManifest, ...]:
    """Manifests of four generations, by anybody: honest ones, rivals, and some by those who may not issue."""
    generations = [[_FIRST]]
    for _ in range(3):
        generations.append(
            [
                made
                for before in generations[-1][:6]
                for place, issuer in enumerate(_DEVICES)
                for change in (1, 2 + place % 2)
                if (made := _following(before, issuer, change)).members
            ]
        )
    return tuple(manifest for generation in generations for manifest in generation)


offers = st.lists(st.integers(0, 10_000), min_size=1, max_size=60)


@given(offers)
def test_no_interleaving_rolls_back(places: list[int]) -> None:  # accepts: 000.13, 000.14, 000.16
    universe = _universe()
    trust = GroupTrust(GROUP_ID, read_manifest(_FIRST.raw))
    accepted = {_FIRST.hash: _FIRST}
    for place in places:
        before = trust.current
        offered = universe[place % len(universe)]
        try:
            verdict = trust.update(offered.raw)
        except RemoteError:
            assert trust.current is before
            assert offered.hash not in accepted
            continue
        assert (verdict is Verdict.UNCHANGED) == (offered.hash in accepted)
        accepted[offered.hash] = offered
        parents = [accepted[each] for each in offered.prev]
        assert all(parent.member(offered.issuer) is not None for parent in parents)
        assert before is not None
        assert trust.current is not None
        assert trust.current.version >= before.version
        assert trust.current.epoch >= before.epoch or trust.conflict or before.raw == b""
    assert trust.current is not None
    in_order = sorted(accepted.values(), key=lambda each: (each.version, each.hash))
    assert replay([each.raw for each in in_order]) == trust.current


@given(st.permutations(list(range(4))), st.data())
def test_a_chain_is_taken_in_any_order_when_offered_often_enough(order: list[int], data: st.DataObject) -> None:
    chain = [_FIRST]
    for change in (1, 2, 3):
        issuer = _DEVICES[data.draw(st.integers(0, len(chain[-1].members) - 1))]
        issuer = issuer if chain[-1].member(issuer.signing_public) else _DEVICES[0]
        chain.append(_following(chain[-1], issuer, change))
    trust = GroupTrust(GROUP_ID, read_manifest(_FIRST.raw))
    for _ in chain:
        for place in order:
            before = trust.current
            assert before is not None
            code = ""
            try:
                trust.update(chain[place].raw)
            except RemoteError as error:
                code = error.code
            if chain[place].version > before.version + 1:
                assert code == "version_gap"
            else:
                assert not code
    assert trust.current is not None
    assert trust.current.raw == chain[-1].raw


@given(offers, st.integers(0, 3), st.integers(0, 3))
def test_a_joiner_takes_only_what_its_inviter_issued_for_it(
    places: list[int], inviter: int, joiner: int
) -> None:  # accepts: 000.15
    universe = _universe()
    trust = GroupTrust(GROUP_ID, None)
    pinned, own = _DEVICES[inviter].signing_public, _DEVICES[joiner].signing_public
    for place in places:
        raw = universe[place % len(universe)].raw
        if trust.current is not None:
            break
        try:
            trust.join([raw], pinned, own, _DEVICES[joiner].noise.holds)
        except RemoteError:
            continue
        held = trust.current
        assert held is not None
        assert held.issuer == pinned
        assert (listed := held.member(own)) is not None
        assert listed.keys == _DEVICES[joiner].keys
