"""`covey.app.telemetry.erasing`: what is erased is there no more, in no object; and the crash after each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.telemetry.compactor import Compactor
from covey.app.telemetry.erasing import Erased, Eraser
from covey.app.telemetry.node_vault import NodeVault
from covey.core.ids import OperationId, node_id
from covey.core.vault import documents
from covey.core.vault.documents import VaultManifest
from covey.core.vault.erasing import ErasureDue
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import Floor, VaultReader
from tests.fleet import Device, admit, carry
from tests.vault_site import KEY, Site, crashes_at

DAY_US = 86_400_000_000
TARGET = 1_000_000
NOTE = OperationId(bytes(range(32)))


class _TwoSenders(Site):
    """Ann and Ben send in turns; what Ann sends is to go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ben = Device("ben", folder)
        admit(self.ann, self.ben, self.group_id, self.gate)
        self.bodies: dict[bool, list[bytes]] = {True: [], False: []}

    def land_both(self, count: int) -> None:
        for _ in range(count):
            for device in (self.ann, self.ben):
                bodies = self.bodies[device is self.ann]
                bodies.append(b"%s %d" % (device.identity.signing_public[:2].hex().encode(), len(bodies)))
                device.batch(self.group_id, bodies[-1])
                carry(device, self.gate)
                device.wait(400)
                carry(device, self.gate)
            self.land()


@pytest.fixture
def site(tmp_path: Path) -> _TwoSenders:
    return _TwoSenders(tmp_path)


def _node(site: Site) -> NodeVault:
    return NodeVault(site.gate.identity, site.keys(), site.gate.store, site.objects, site.gate.rng)


def _eraser(site: Site) -> Eraser:
    return Eraser(_node(site), site.gate.store, site.gate.rng)


def _of_ann(site: Site) -> ErasureDue:
    return ErasureDue(site.ann.key, site.gate.now.wall_us)


def _erase(site: Site, due: ErasureDue) -> Erased:
    return _eraser(site).erase(due, NOTE, site.gate.now.wall_us, lambda *_: None)


def _compact(site: Site, grace_us: int = 7 * DAY_US) -> None:
    now_us = site.gate.now.wall_us
    Compactor(_node(site), site.gate.store, site.gate.rng).compact(TARGET, now_us, grace_us, now_us, lambda *_: None)


def _manifest(site: Site) -> VaultManifest:
    manifest = site.manifest()
    assert manifest is not None
    return manifest


def _segments_lying(site: Site) -> set[str]:
    return {key for key in site.objects.content if key.endswith(".hxseg")}


def _segments_listed(site: Site) -> set[str]:
    node = node_id(site.gate.key)
    return {documents.entry_key(KEY.vault_id, node, entry) for entry in _manifest(site).segments}


def _erased_numbers(site: Site) -> dict[bytes, list[tuple[int, int]]]:
    found: dict[bytes, list[tuple[int, int]]] = {}
    node = node_id(site.gate.key)
    for entry in _manifest(site).segments:
        content = site.objects.content[documents.entry_key(KEY.vault_id, node, entry)]
        for each in documents.open_whole(KEY, node, entry, content).erased:
            found.setdefault(each.author, []).extend(each.numbers)
    return found


@pytest.mark.slow
def test_after_an_erasure_no_object_holds_the_devices_messages(site: _TwoSenders) -> None:
    site.land_both(4)
    _compact(site)
    site.land_both(2)
    reader = VaultReader(site.objects, KeyRing((KEY,)))
    node = node_id(site.gate.key).hex()
    assert isinstance(reader.manifest(node, Floor()), VaultManifest)

    planned = _eraser(site).plan(_of_ann(site), site.gate.now.wall_us, lambda *_: None)
    outcome = _erase(site, _of_ann(site))
    assert (planned.messages, planned.segments) == (outcome.messages, outcome.segments)
    assert outcome.messages == 6
    assert outcome.is_whole
    assert site.landed() == site.bodies[False], "what others sent stays, in its order"
    assert _segments_lying(site) == _segments_listed(site), "what compaction replaced held it, too"
    assert _manifest(site).tombstones == ()
    assert _erased_numbers(site)[site.ann.key][0][0] == 1
    numbers = {each for first, last in _erased_numbers(site)[site.ann.key] for each in range(first, last + 1)}
    assert numbers == set(range(1, 7))
    (erasure,) = _manifest(site).erasures
    assert (erasure.author, erasure.note, bool(erasure.completed_at_us)) == (site.ann.key, NOTE, True)
    assert isinstance(reader.manifest(node, Floor()), VaultManifest), "a follower sees no rollback"


def test_a_device_sends_again_and_a_collector_goes_on(site: _TwoSenders) -> None:
    site.land_both(2)
    _erase(site, _of_ann(site))
    site.bodies[True].clear()
    site.land_both(2)
    assert sorted(site.landed()) == sorted([*site.bodies[False], *site.bodies[True]])
    assert site.said == [], "nobody is told of an error"
    _compact(site)
    assert sorted(site.landed()) == sorted([*site.bodies[False], *site.bodies[True]])
    assert all(
        not entry.is_thinned or entry.number <= _manifest(site).erased_upto for entry in _manifest(site).segments
    )
    assert isinstance(
        VaultReader(site.objects, KeyRing((KEY,))).manifest(node_id(site.gate.key).hex(), Floor()), VaultManifest
    )


@pytest.mark.slow
def test_old_readings_are_deleted_and_the_rest_is_one_segment(site: _TwoSenders) -> None:
    site.land_both(5)
    old = _manifest(site).last_number
    site.gate.wait(40 * 86_400)
    kept = len(site.bodies[True])
    site.land_both(3)
    now_us = site.gate.now.wall_us
    outcome = _erase(site, ErasureDue(None, now_us - 30 * DAY_US))
    assert (outcome.messages, outcome.segments) == (10, old)
    assert sorted(site.landed()) == sorted([*site.bodies[True][kept:], *site.bodies[False][kept:]])
    first = _manifest(site).segments[0]
    assert (first.first, first.number, first.is_thinned) == (1, old, True)
    manifests = len(site.everything()) - len(site.landed())
    assert manifests >= 1, "who was in the group when is said still"
    assert _segments_lying(site) == _segments_listed(site)

    repeated = _erase(site, ErasureDue(None, now_us - 30 * DAY_US))
    assert (repeated.messages, repeated.segments, repeated.objects) == (0, 0, 0), "nothing to do is nothing written"

    site.gate.wait(40 * 86_400)
    site.land_both(1)
    _erase(site, ErasureDue(None, site.gate.now.wall_us - 30 * DAY_US))
    first = _manifest(site).segments[0]
    assert (first.first, first.number) == (1, _manifest(site).last_number - 1), "the later joins the earlier"
    assert len(_manifest(site).erasures) == 1
    assert len(site.landed()) == 2


def test_the_newest_segment_is_left_while_a_collector_may_compare_it(site: _TwoSenders) -> None:
    site.land_both(1)
    site.bodies[True].append(b"waits")
    site.send(b"waits")
    outcome = _erase(site, _of_ann(site))
    assert outcome.waiting == 1
    assert not outcome.is_whole
    assert _manifest(site).erasures[0].completed_at_us == 0
    site.land()
    assert b"waits" in site.landed()
    assert _erase(site, _of_ann(site)).is_whole
    assert site.landed() == site.bodies[False]


def test_a_damaged_segment_is_named_and_the_rest_goes(site: _TwoSenders) -> None:
    site.land_both(3)
    node = node_id(site.gate.key)
    damaged = _manifest(site).segments[1]
    site.objects.content[documents.entry_key(KEY.vault_id, node, damaged)] = b"rust"
    outcome = _erase(site, _of_ann(site))
    assert outcome.unreadable == [damaged.number]
    assert _manifest(site).erasures[0].completed_at_us == 0


@pytest.mark.slow
@pytest.mark.parametrize("of_all", [False, True])
def test_a_crash_before_any_write_loses_nothing_of_others_and_the_retry_ends_it(tmp_path: Path, of_all: bool) -> None:
    step, crashed = 0, True
    while crashed:
        folder = tmp_path / str(step)
        folder.mkdir()
        site = _TwoSenders(folder)
        site.land_both(3)
        _compact(site)
        site.land_both(2)
        reader = VaultReader(site.objects, KeyRing((KEY,)))
        node = node_id(site.gate.key).hex()
        assert isinstance(reader.manifest(node, Floor()), VaultManifest)
        if of_all:
            site.gate.wait(40 * 86_400)
            due = ErasureDue(None, site.gate.now.wall_us - 30 * DAY_US)
        else:
            due = _of_ann(site)
        crashed = crashes_at(site, step, lambda site=site, due=due: _erase(site, due))
        left = site.landed()
        assert isinstance(reader.manifest(node, Floor()), VaultManifest), "a follower sees no rollback"
        if not of_all:
            assert [body for body in left if body in site.bodies[False]] == site.bodies[False], step
        site.start()
        assert _erase(site, due).is_whole
        assert site.landed() == ([] if of_all else site.bodies[False]), step
        assert _segments_lying(site) == _segments_listed(site), step
        site.land_both(1)
        assert isinstance(reader.manifest(node, Floor()), VaultManifest)
        step += 1
    assert step > 5
