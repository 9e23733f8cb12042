"""A collector restored with its vault: readers that have read further lose nothing of what it lands from then on."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.telemetry.compactor import Compactor
from covey.app.telemetry.erasing import Eraser
from covey.app.telemetry.node_vault import NodeVault
from covey.core.ids import node_id
from covey.core.now import Now
from covey.core.telemetry.batch import split_number
from covey.core.vault import documents
from covey.core.vault.erasing import ErasureDue
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.reading import Floor, Trouble, VaultReader
from covey.core.wire.message import MessageType, read_message
from covey.limits.vault import RESTORED_POSITIONS
from tests.fleet import carry
from tests.vault_site import Site


class Reader:
    """What tables do: they remember a position, and take what comes after it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._reader = VaultReader(site.objects, site.ring)
        self.floor = Floor()
        self.seen: list[bytes] = []
        self.troubles: list[str] = []

    def follow(self) -> None:
        """Read on."""
        name = node_id(self._site.gate.key)
        manifest = self._reader.manifest(name.hex(), self.floor)
        if isinstance(manifest, Trouble):
            self.troubles.append(manifest.code)
            return
        first, last = self.floor.last_number + 1, manifest.last_number
        entries = self._reader.entries(name.hex(), manifest, first, last)
        assert isinstance(entries, tuple)
        for entry in entries:
            content = self._reader.segment(name.hex(), entry)
            assert content is not None
            key = self._site.ring.for_object(content)
            for part in documents.open_parts(key, name, entry, content):
                self.seen += _telemetry(part) if first <= part.number <= last else []
        self.floor = Floor(manifest.manifest_seq, last, manifest.hash.hex())


def _telemetry(part: documents.SegmentPart) -> list[bytes]:
    messages = [read_message(each.message) for each in part.records if record_kind(each.message) is RecordKind.MESSAGE]
    return [split_number(each.body)[1] for each in messages if each.type is MessageType.TELEMETRY]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _land(site: Site, *bodies: bytes) -> None:
    """Land each in a segment of its own, acknowledged."""
    for body in bodies:
        site.send(body)
        site.land()
        site.ann.wait(400)
        carry(site.ann, site.gate)


def _settle(site: Site) -> None:
    for _ in range(8):
        site.ann.wait(400)
        site.gate.wait(400)
        carry(site.ann, site.gate)
        site.land()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 3, 40])
def test_a_reader_that_is_ahead_of_a_restored_hub_reads_what_it_lands_from_then_on(site: Site, lost: int) -> None:
    reader = Reader(site)
    _land(site, b"kept")
    state, vault = site.gate.copy_state(), dict(site.objects.content)
    site.start()
    _land(site, *(b"lost %d" % number for number in range(lost)))
    reader.follow()
    assert len(reader.seen) == lost + 1

    site.gate.return_to(state)
    site.objects.content = vault
    site.start()
    _land(site, b"one", b"two", b"three")
    reader.follow()
    _settle(site)
    _land(site, *(b"later %d" % number for number in range(5)))
    reader.follow()
    wanted = {b"kept", b"one", b"two", b"three", *(b"later %d" % number for number in range(5))}
    assert wanted <= {*reader.seen}
    assert {*site.landed_telemetry()} == {*reader.seen}, "what senders still had is there again"


@pytest.mark.parametrize("clock_us", [-(10**12), -1, 0, 1, 10**12], ids=str)
def test_no_clock_bounds_what_is_lost(site: Site, clock_us: int) -> None:
    """A clock without a battery may say any time: an earlier one, that of the backup, or the right one."""
    reader = Reader(site)
    _land(site, b"kept")
    state, vault, backup_us = site.gate.copy_state(), dict(site.objects.content), site.gate.now.wall_us
    site.start()
    _land(site, b"lost")
    _claim_to_have_followed(site, reader, RESTORED_POSITIONS // 2)
    site.gate.return_to(state)
    site.objects.content = vault
    site.gate.now = Now(site.gate.now.monotonic_us, backup_us + clock_us)
    site.start()
    _land(site, b"one", b"two", b"three")
    reader.follow()
    assert {b"one", b"two", b"three"} <= {*reader.seen}
    assert reader.troubles == []
    assert len(site.objects.content) < 20, "a hole is one object"


def _claim_to_have_followed(site: Site, reader: Reader, positions: int) -> None:
    """Let a reader be where it were if the collector had landed so many segments since the backup."""
    reader.follow()
    manifest = VaultReader(site.objects, site.ring).manifest(node_id(site.gate.key).hex(), Floor())
    assert not isinstance(manifest, Trouble)
    reader.floor = Floor(manifest.manifest_seq + positions, manifest.last_number + positions, "00")


def test_neither_merging_nor_erasing_nor_verifying_stumbles_over_a_hole(site: Site) -> None:
    reader = Reader(site)
    _land(site, b"kept", b"kept too")
    state, vault = site.gate.copy_state(), dict(site.objects.content)
    site.start()
    _land(site, b"lost")
    site.gate.return_to(state)
    site.objects.content = vault
    site.start()
    _land(site, b"one", b"two", b"three", b"four")
    moment_us = site.gate.now.wall_us + 3_600_000_000
    node = NodeVault(site.gate.identity, site.keys(), site.gate.store, site.objects, site.gate.rng)
    compactor = Compactor(node, site.gate.store, site.gate.rng)
    outcome = compactor.compact(10**6, moment_us, 0, moment_us, lambda *_: None)
    assert outcome.merged == 2, "what lies on either side of the hole is merged by itself"
    reader.follow()
    assert {b"kept", b"kept too", b"one", b"two", b"three", b"four"} <= {*reader.seen}
    eraser = Eraser(node, site.gate.store, site.gate.rng)
    erased = eraser.erase(ErasureDue(None, moment_us), None, moment_us, lambda *_: None)
    assert erased.messages >= 6
    reader.follow()
    assert reader.troubles == []
    assert {*site.landed_telemetry()} <= {b"four"}


def test_a_reader_that_was_restored_as_well_reads_each_once(site: Site) -> None:
    reader = Reader(site)
    _land(site, b"kept")
    reader.follow()
    state, vault = site.gate.copy_state(), dict(site.objects.content)
    site.start()
    _land(site, b"lost")
    site.gate.return_to(state)
    site.objects.content = vault
    site.start()
    _land(site, b"one")
    _settle(site)
    reader.follow()
    assert sorted(reader.seen) == [b"kept", b"lost", b"one"]
    assert reader.troubles == []


def test_a_state_restored_alone_lands_what_it_had_begun_into_its_newer_vault(site: Site) -> None:
    reader = Reader(site)
    _land(site, b"kept")
    site.objects.refuses = (".hxman",)
    site.send(b"begun")
    site.land()
    state = site.gate.copy_state()
    site.objects.refuses = ()
    site.start()
    _land(site, b"later")
    reader.follow()
    site.gate.return_to(state)
    site.start()
    _land(site, b"one")
    _settle(site)
    reader.follow()
    assert {*reader.seen} == {b"kept", b"begun", b"later", b"one"}
    assert reader.troubles == []
    assert "the vault continues after position" in site.said[-1]
