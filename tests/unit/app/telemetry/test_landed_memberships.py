"""`covey.app.telemetry.landed_memberships`: what a group lists and is called lands beside what devices send, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.bodies import GroupProfile
from covey.core.history.operation import read_operation
from covey.core.vault.landed_records import RecordKind, read_landed_manifest, record_kind
from covey.limits.vault import LANDED_MANIFEST_US
from tests.fleet import carry
from tests.vault_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _manifests(site: Site) -> list[GroupManifest]:
    raws = [raw for raw in site.everything() if record_kind(raw) is RecordKind.MANIFEST]
    return [read_landed_manifest(raw) for raw in raws]


def _member(site: Site, manifest: GroupManifest) -> Member:
    member = manifest.member(site.ann.key)
    assert member is not None
    return member


def _relabel(site: Site, label: str) -> None:
    own = replace(_member(site, site.ann.node.groups.group(site.group_id)), label=label)
    with site.ann.store.transaction():
        site.ann.node.actions.change(site.group_id, lambda draft, _: draft.changing(own), site.ann.now)
    for _ in range(3):
        carry(site.ann, site.gate)
        site.ann.wait(1)
        site.gate.wait(1)


def test_a_membership_lands_once(site: Site) -> None:
    for number in range(3):
        site.send(b"%d" % number)
        site.land()
    (landed,) = _manifests(site)
    held = site.gate.node.groups.group(site.group_id)
    assert landed == held
    assert site.landed() == [b"0", b"1", b"2"]
    site.start()
    site.send(b"after a restart")
    site.land()
    assert len(_manifests(site)) == 1


def test_nothing_lands_for_it_alone(site: Site) -> None:
    _relabel(site, "orchard")
    site.land()
    assert site.manifest() is None


def test_a_new_label_lands_with_what_comes_next_and_not_more_often_than_once_a_minute(site: Site) -> None:
    site.send(b"one")
    site.land()
    _relabel(site, "barn")
    _relabel(site, "orchard")
    site.send(b"two")
    site.turn(LANDED_MANIFEST_US / 1e6)
    site.land()
    labels = [_member(site, manifest).label for manifest in _manifests(site)]
    assert labels[1:] == ["orchard"]
    _relabel(site, "meadow")
    site.send(b"three")
    site.land()
    assert len(_manifests(site)) == 2, "it is not a minute"
    site.gate.wait(LANDED_MANIFEST_US / 1e6)
    site.send(b"four")
    site.land()
    assert _member(site, _manifests(site)[-1]).label == "meadow"


def test_a_landing_that_is_full_takes_it_later(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.send(b"x" * 100)
    size = site.gate.store.landing.size()
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_BYTES", size + 10)
    site.land()
    assert _manifests(site) == []
    site.send(b"y")
    monkeypatch.undo()
    site.land()
    assert len(_manifests(site)) == 1


def test_a_profile_lands_as_it_was_signed(site: Site) -> None:
    with site.ann.store.transaction():
        site.ann.node.history.write(site.group_id, GroupProfile("Orchard", "", None), site.ann.now)
    site.send(b"one")
    site.gate.wait(1)
    carry(site.ann, site.gate)
    site.land()
    (raw,) = [raw for raw in site.everything() if record_kind(raw) is RecordKind.OPERATION]
    assert read_operation(raw).body == GroupProfile("Orchard", "", None).to_wire()
    site.send(b"two")
    site.land()
    assert len(site.records()) == 3
