"""`covey.app.telemetry.torn_manifest`: a torn manifest is made again where nothing can be lost, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.telemetry import node_vault
from covey.app.telemetry.compactor import Compactor
from covey.core.ids import Incarnation, node_id
from covey.core.vault import documents
from covey.core.vault.reading import Floor, VaultReader
from covey.errors import RemoteError
from covey.limits.vault import SEGMENT_BYTES
from tests.fleet import carry
from tests.vault_site import KEY, Site

DAY_US = 86_400_000_000


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _land(site: Site, *bodies: bytes) -> None:
    for body in bodies:
        site.send(body)
        site.land()
        site.ann.wait(400)
        carry(site.ann, site.gate)


def _manifest_key(site: Site) -> str:
    return documents.manifest_key(KEY.vault_id, node_id(site.gate.key))


def _segment_key(site: Site, number: int) -> str:
    manifest = site.manifest()
    assert manifest is not None
    return documents.segment_key(KEY.vault_id, node_id(site.gate.key), number, manifest.incarnation)


@pytest.mark.parametrize("left", [0, 1, 40, 200])
@pytest.mark.parametrize("each", [1, 2, 64])
def test_a_torn_manifest_is_made_again(site: Site, monkeypatch: pytest.MonkeyPatch, left: int, each: int) -> None:
    monkeypatch.setattr(node_vault, "MANIFEST_KEPT_EACH", each)
    _land(site, b"one", b"two", b"three", b"four")
    before = site.manifest()
    assert before is not None
    key = _manifest_key(site)
    whole = site.objects.content[key]
    site.objects.content[key] = whole[:left] + bytes(len(whole) - left if left % 2 == 0 else 0)
    site.start()
    after = site.manifest()
    assert after is not None
    assert after.segments == before.segments
    assert after.manifest_seq > before.manifest_seq + 1, "no reader takes it for one that it knows"
    assert "made again" in site.said[-1]
    _land(site, b"five")
    assert site.landed_telemetry() == [b"one", b"two", b"three", b"four", b"five"]


def _tear_first(site: Site, left: int) -> str:
    """Have the power fail while the first manifest is put: the store has part of it; return its key."""
    key = _manifest_key(site)
    site.objects.refuses, site.objects.lies = (key,), True
    _land(site, b"one")
    site.objects.refuses, site.objects.lies = (), False
    site.objects.content[key] = site.objects.content[key][:left]
    return key


@pytest.mark.parametrize("left", [0, 1, 40, 200])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_torn_first_manifest_is_made_again(site: Site, left: int, is_whole: bool) -> None:
    _tear_first(site, left)
    segment = documents.segment_key(KEY.vault_id, node_id(site.gate.key), 1, site.gate.store.incarnations.present())
    if not is_whole:
        site.objects.content[segment] = site.objects.content[segment][:50]
    site.start()
    assert "made again" in site.said[-1]
    _land(site, b"two")
    site.land()
    after = site.manifest()
    assert after is not None
    assert after.manifest_seq > 2, "no reader takes it for one that it knows"
    assert site.landed_telemetry() == [b"one", b"two"]


def test_a_torn_manifest_is_no_first_one_where_the_vault_has_more_segments(site: Site) -> None:
    key = _tear_first(site, 100)
    other = documents.segment_key(KEY.vault_id, node_id(site.gate.key), 7, Incarnation(bytes(8)))
    site.objects.content[other] = b"of a life that this state knows nothing of"
    torn = dict(site.objects.content)
    with pytest.raises(RemoteError):
        site.start()
    assert site.objects.content == torn
    del site.objects.content[other]
    with site.gate.store.transaction():
        site.gate.store.incarnations.renew(Incarnation(bytes(8)))
    with pytest.raises(RemoteError):
        site.start()
    assert site.objects.content[key] == torn[key]


def test_a_reader_goes_on_where_it_was(site: Site) -> None:
    _land(site, b"one", b"two")
    node = node_id(site.gate.key).hex()
    known = VaultReader(site.objects, site.ring).manifest(node, Floor())
    key = _manifest_key(site)
    site.objects.content[key] = site.objects.content[key][:100]
    site.start()
    assert isinstance(known, documents.VaultManifest)
    found = VaultReader(site.objects, site.ring).manifest(
        node, Floor(known.manifest_seq, known.last_number, known.hash.hex())
    )
    assert isinstance(found, documents.VaultManifest)
    assert found.segments == known.segments


def test_a_segment_that_was_put_and_not_listed_yet_lands_once(site: Site) -> None:
    _land(site, b"one")
    key = _manifest_key(site)
    site.objects.refuses = (key,)
    _land(site, b"two")
    site.objects.refuses = ()
    site.objects.content[key] = site.objects.content[key][:100]
    site.start()
    _land(site, b"three")
    site.land()
    assert site.landed_telemetry() == [b"one", b"two", b"three"]


def test_a_torn_segment_of_a_plan_is_put_again(site: Site) -> None:
    _land(site, b"one")
    key = _manifest_key(site)
    site.objects.refuses = (key,)
    _land(site, b"two")
    site.objects.refuses = ()
    segment = _segment_key(site, 2)
    for torn in (key, segment):
        site.objects.content[torn] = site.objects.content[torn][:50]
    site.start()
    _land(site, b"three")
    site.land()
    assert site.landed_telemetry() == [b"one", b"two", b"three"]


@pytest.mark.parametrize("missing", [2, 3])
def test_nothing_is_written_where_a_segment_is_missing(site: Site, missing: int) -> None:
    _land(site, b"one", b"two", b"three")
    key = _manifest_key(site)
    del site.objects.content[_segment_key(site, missing)]
    site.objects.content[key] = site.objects.content[key][:100]
    torn = dict(site.objects.content)
    with pytest.raises(RemoteError):
        site.start()
    assert site.objects.content == torn


def test_nothing_is_written_where_a_segment_is_damaged(site: Site) -> None:
    _land(site, b"one", b"two", b"three")
    key = _manifest_key(site)
    for each in (key, _segment_key(site, 2)):
        site.objects.content[each] = site.objects.content[each][:50]
    torn = dict(site.objects.content)
    with pytest.raises(RemoteError):
        site.start()
    assert site.objects.content == torn


def test_a_state_that_was_restored_makes_no_manifest_again(site: Site) -> None:
    _land(site, b"one", b"two")
    with site.gate.store.transaction():
        site.gate.store.incarnations.renew(Incarnation(bytes(8)))
    key = _manifest_key(site)
    site.objects.content[key] = site.objects.content[key][:100]
    torn = dict(site.objects.content)
    with pytest.raises(RemoteError):
        site.start()
    assert site.objects.content == torn


def test_a_manifest_that_is_torn_after_merging_names_the_merged_segments(site: Site) -> None:
    _land(site, *(b"%d" % number for number in range(6)))
    vault = node_vault.NodeVault(site.gate.identity, site.keys(), site.gate.store, site.objects, site.gate.rng)
    now_us = site.gate.now.wall_us
    Compactor(vault, site.gate.store, site.gate.rng).compact(SEGMENT_BYTES, now_us, DAY_US, now_us, lambda *_: None)
    _land(site, b"6", b"7")
    before = site.manifest()
    assert before is not None
    assert before.segments[0].covers > 1
    key = _manifest_key(site)
    site.objects.content[key] = site.objects.content[key][:100]
    site.start()
    after = site.manifest()
    assert after is not None
    assert (after.segments, after.tombstones) == (before.segments, before.tombstones)
    assert site.landed_telemetry() == [b"%d" % number for number in range(8)]
