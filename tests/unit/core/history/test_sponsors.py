"""`covey.core.history.sponsors`: whose families a device is of, by the manifests that let it and its sponsors in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, Mode, genesis, secret_id, sign_manifest
from covey.core.history.sponsors import LOWEST_LEVEL, STRANGERS, UNKNOWN, SponsorFamily, Sponsors
from covey.core.ids import DeviceKey, GroupId, ManifestHash
from tests.fleet import identity

_GROUP = GroupId(bytes(32))
_EPOCH = secret_id(bytes(32))


class _Chain:
    """Manifests that follow one another, and rivals among them."""

    def __init__(self, founder: Identity, mode: Mode = Mode.INVITES_ONLY) -> None:
        self._held: dict[ManifestHash, GroupManifest] = {}
        self.last = self.keep(sign_manifest(genesis(_GROUP, Member(founder.keys), _EPOCH, mode), founder))
        self.sponsors = Sponsors(lambda _, named: self._held.get(named), self._at)
        self.reads = 0

    def keep(self, manifest: GroupManifest) -> GroupManifest:
        self._held[manifest.hash] = manifest
        self.last = manifest
        return manifest

    def forget(self, version: int) -> None:
        self._held = {key: each for key, each in self._held.items() if each.version != version}

    def _at(self, _: GroupId, version: int) -> list[bytes]:
        self.reads += 1
        return [each.raw for each in self._held.values() if each.version == version]

    def let_in(self, issuer: Identity, *guests: Identity, after: GroupManifest | None = None) -> GroupManifest:
        draft = (after or self.last).draft()
        for guest in guests:
            draft = draft.adding(Member(guest.keys))
        return self.keep(sign_manifest(replace(draft, before=None), issuer))

    def remove(self, issuer: Identity, former: Identity) -> GroupManifest:
        return self.keep(sign_manifest(self.last.removing(former.signing_public, _EPOCH), issuer))

    def line(self, author: Identity, named: GroupManifest | None = None) -> tuple[tuple[int, DeviceKey, int], ...]:
        return self.sponsors.line(_GROUP, author.signing_public, (named or self.last).hash)


_ANN, _BEN, _CEM, _DAN, _EVE = (identity(name) for name in ("ann", "ben", "cem", "dan", "eve"))


def _family(level: int, device: Identity, since: int) -> SponsorFamily:
    return SponsorFamily(level, device.signing_public, since)


def test_a_line_begins_with_the_founder_and_ends_on_the_lowest_level() -> None:
    chain = _Chain(_ANN)
    for sponsor, guest in ((_ANN, _BEN), (_BEN, _CEM), (_CEM, _DAN), (_DAN, _EVE)):
        chain.let_in(sponsor, guest)
    above = (_family(0, _ANN, 1), _family(1, _BEN, 2), _family(2, _CEM, 3))
    lines = [chain.line(each) for each in (_ANN, _BEN, _CEM, _DAN, _EVE)]
    assert lines == [above[:1], above[:2], above, above, above], "what is deeper is of the family on the lowest level"


def test_a_sponsor_that_left_still_has_its_family() -> None:
    chain = _Chain(_ANN)
    chain.let_in(_ANN, _BEN)
    chain.let_in(_BEN, _CEM)
    before = chain.line(_CEM)
    chain.remove(_ANN, _BEN)
    assert chain.line(_CEM) == before


def test_a_device_that_is_let_in_again_is_of_the_family_of_the_one_that_did() -> None:
    chain = _Chain(_ANN)
    chain.let_in(_ANN, _BEN, _CEM)
    first = chain.line(_CEM)
    assert first == (_family(0, _ANN, 1), _family(1, _CEM, 2))
    named = chain.last
    chain.remove(_ANN, _CEM)
    chain.let_in(_BEN, _CEM)
    assert chain.line(_CEM) == (_family(0, _ANN, 1), _family(1, _BEN, 2), _family(2, _CEM, 4))
    assert chain.line(_CEM, named) == first, "what it wrote before stays where it was"


@pytest.mark.parametrize("first", ["ben", "cem"])
def test_of_rivals_that_let_in_the_same_device_the_one_counts_that_the_named_manifest_follows(first: str) -> None:
    """A member once could have taken another one's newcomer into its own family by a rival manifest."""
    chain = _Chain(_ANN)
    before = chain.let_in(_ANN, _BEN, _CEM)
    ends = {}
    for sponsor in (_BEN, _CEM) if first == "ben" else (_CEM, _BEN):
        letting_in = chain.let_in(sponsor, _DAN, after=before)
        ends[sponsor.signing_public] = chain.keep(sign_manifest(letting_in.draft(), _ANN))
    for sponsor in (_BEN, _CEM):
        for named in (
            ends[sponsor.signing_public],
            chain.keep(sign_manifest(ends[sponsor.signing_public].draft(), _ANN)),
        ):
            assert chain.line(_DAN, named)[1] == _family(1, sponsor, 2)


def test_devices_that_admins_let_in_are_families_of_their_own() -> None:
    chain = _Chain(_ANN, Mode.ADMIN_INVITES)
    chain.let_in(_ANN, _BEN)
    assert chain.line(_BEN) == (_family(LOWEST_LEVEL, _BEN, 2),)


def test_devices_that_let_themselves_in_are_one_family() -> None:
    chain = _Chain(_ANN, Mode.PUBLIC)
    for stranger in (_BEN, _CEM):
        chain.let_in(stranger, stranger)
    assert [chain.line(each) for each in (_BEN, _CEM)] == [
        (STRANGERS, _family(LOWEST_LEVEL, _BEN, 2)),
        (STRANGERS, _family(LOWEST_LEVEL, _CEM, 3)),
    ]


def test_a_line_is_completed_when_the_manifests_before_arrive() -> None:
    chain = _Chain(_ANN)
    admission = chain.let_in(_ANN, _BEN)
    last = chain.keep(sign_manifest(admission.draft(), _ANN))
    chain.forget(admission.version)
    assert chain.line(_BEN, last) == (UNKNOWN,)
    chain.keep(admission)
    assert chain.line(_BEN, last) == (_family(0, _ANN, 1), _family(1, _BEN, 2))


def test_a_long_line_of_sponsors_is_followed_once() -> None:
    chain, sponsor = _Chain(_ANN), _ANN
    for number in range(40):
        guest = identity(f"guest {number}")
        chain.let_in(sponsor, guest)
        sponsor = guest
        chain.reads = 0
        assert len(chain.line(guest)) == min(number + 2, 3)
        assert chain.reads <= 2, "only from the last sponsor whose line is known"
