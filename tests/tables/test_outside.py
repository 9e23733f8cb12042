"""The audit from outside: a sound vault and its tables leave it silent; whatever is wrong it finds and names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from covey.core.group.manifest import Member, Mode, genesis, secret_id, sign_manifest
from covey.core.ids import GroupId
from covey.core.telemetry.batch import ClockKind
from covey.core.vault.documents import Erasure, rewritten_manifest
from covey.core.vault.erasing import ErasureDue
from covey.core.wire.message import Loss, LossReason, MessageType
from covey_ingest.committer.deleting import delete, of_author
from covey_ingest.committer.table_locations import location_at
from tests.outside.audit import Audit, audit
from tests.outside.holdings import Holdings
from tests.outside.members import membership
from tests.outside.primitives import RefusedError
from tests.outside.vault import Vault
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector, Given
from tests.tables.ingesting import ingest, rows_of, table_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]

GROUP = GroupId(bytes(range(32)))


class Scene:
    """A group of a collector and two authors, and what these have landed."""

    def __init__(self, folder: Path) -> None:
        self.collector = Collector(folder / "vault")
        self.ann, self.bob, self.stranger = (Author(self.collector, seed, GROUP) for seed in (1, 2, 3))
        creator, *others = (each.identity for each in (self.collector, self.ann, self.bob))
        drawn = genesis(GROUP, Member(creator.keys, ""), secret_id(bytes(32)), Mode.INVITES_ONLY)
        self.manifests = [sign_manifest(drawn, creator)]
        for each in others:
            self.manifests.append(sign_manifest(self.manifests[-1].adding(Member(each.keys, "")), creator))

    def audit(self, *tables: Path) -> Audit:
        """Ask the audit."""
        holdings = Holdings(membership(each.raw for each in self.manifests))
        holdings.take(Vault(str(self.collector.vault), self.collector.key_file))
        return audit(holdings, tables)

    def land_everything(self) -> None:
        """Land every kind of value and clock, a loss, and a message that two collectors have."""
        kinds: list[Given] = [
            ("door", "", BOOTED_US, True),
            ("temperature", "Cel", BOOTED_US - 1, 21.5),
            ("says", "", BOOTED_US, "on"),
            ("count", "", BOOTED_US, 2**60 + 1),
            ("raw", "", BOOTED_US, b"\0\1"),
        ]
        ann, bob, land = self.ann, self.bob, self.collector.land
        land(ann.telemetry(kinds), ann.measure(5))
        land(bob.telemetry(kinds[:2], bob.clock(ClockKind.UNSYNCHRONISED, NOW_US - 10**12)))
        bob.boot_id = bytes(8)
        land(bob.telemetry(kinds[:2], bob.clock(ClockKind.UNSYNCHRONISED, 0)))
        bob.boot_id = bytes([1] * 8)
        land(bob.telemetry([("t", "", NOW_US - 5, 1)], bob.clock(ClockKind.ASSERTED)))
        ann.boot_id = bytes([2] * 8)
        twice = ann.telemetry(kinds[:2], ann.clock(ClockKind.UNSYNCHRONISED, NOW_US - 10**12))
        land(twice, ann.measure(1))
        ann.number += 2
        place = ann.seq + 1
        ann.seq += 2
        lost = Loss(LossReason.OUTBOX_FULL, ((place, place + 1),), ((ann.number - 1, ann.number),))
        land(ann.sign(MessageType.LOSS, lost.to_wire()), twice, received_at_us=NOW_US + 1)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """What everything here looks at, and changes copies of."""
    scene = Scene(tmp_path_factory.mktemp("outside"))
    scene.land_everything()
    return scene


@pytest.fixture(scope="module")
def sound(scene: Scene) -> Path:
    """The tables that the ingest makes of it."""
    tables = scene.collector.vault.parent / "tables"
    ingest(scene.collector.vault, tables)
    return tables


def test_a_sound_vault_and_its_tables(scene: Scene, sound: Path) -> None:
    found = scene.audit(sound)
    assert found.findings == []
    assert found.readings == {scene.ann.author: 13, scene.bob.author: 5}
    assert found.rows == {str(sound): found.readings}


def _first(column: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """Change a column of the first row."""

    def change(rows: pa.Table) -> pa.Table:
        place = rows.column_names.index(column)
        kept = rows[column].slice(1)
        return rows.set_column(place, column, pa.chunked_array([pa.array([value], kept.type), *kept.chunks]))

    return change


def _by(author: str) -> Callable[[pa.Table], pa.Table]:
    """Add a row of somebody else."""
    return lambda rows: pa.concat_tables([rows, _first("author", author)(rows.slice(0, 1))])


TAMPERED: dict[str, tuple[Callable[[pa.Table], pa.Table], list[str]]] = {
    "a row doubled": (lambda rows: pa.concat_tables([rows, rows.slice(2, 1)]), ["doubled: 1 readings of ANN"]),
    "a row lost": (lambda rows: rows.slice(1), ["lost: 1 readings of ANN"]),
    "a value changed": (_first("value", 21.25), ["changed: 1 readings of ANN: value"]),
    "a unit changed": (_first("unit", "K"), ["changed: 1 readings of ANN: unit"]),
    "a time changed": (_first("time", 0), ["changed: 1 readings of ANN: time"]),
    "a clock believed": (
        _first("time_quality", "asserted"),
        ["changed: 1 readings of ANN: time_quality"],
    ),
    "another collector": (
        _first("collector", "0" * 64),
        ["changed: 1 readings of ANN: collector or received_at"],
    ),
    "a row by a non-member": (_by("STRANGER"), ["unsaid: 1 readings of STRANGER"]),
    "a message that nobody sent": (
        _first("batch_number", 77),
        ["lost: 1 readings of ANN", "unsaid: 1 readings of ANN"],
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_the_audit_finds_each_fault_in_a_table(scene: Scene, sound: Path, tmp_path: Path, name: str) -> None:
    change, expected = TAMPERED[name]
    tables = tmp_path / "tables"
    shutil.copytree(sound, tables)
    rows = table_of(tables, "readings")
    rows = rows.sort_by([("author", "ascending"), ("seq", "ascending"), ("index", "ascending")])
    others = rows.filter(pc.field("author") != scene.ann.author)
    rows = rows.filter(pc.equal(rows["author"], scene.ann.author)).combine_chunks()
    write_deltalake(tables / "readings", pa.concat_tables([change(rows), others]), mode="overwrite")
    names = {scene.ann.author: "ANN", scene.stranger.author: "STRANGER"}
    said = [_in_brief(f"{each.kind}: {each.what}", names) for each in scene.audit(tables).findings]
    assert said == expected


def _in_brief(what: str, names: dict[str, str]) -> str:
    for author, name in names.items():
        what = what.replace(author, name)
    head, _, columns = what.partition(", incarnation")
    _, _, changed = columns.partition(": ")
    return f"{head}: {changed}" if changed else head


def test_the_audit_accepts_deliberate_deletion(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.land_everything()
    early, late = tmp_path / "early", tmp_path / "late"
    ingest(scene.collector.vault, early)
    ann = scene.ann.identity.signing_public
    assert scene.collector.erase(ErasureDue(ann, NOW_US)).messages == 4
    scene.collector.land(scene.ann.measure(2), received_at_us=NOW_US + 2)
    ingest(scene.collector.vault, early)
    ingest(scene.collector.vault, late)

    found = scene.audit(early, late)
    assert found.findings == []
    assert found.readings == {scene.ann.author: 4, scene.bob.author: 5}, "one came a second time, after the moment"
    assert found.rows[str(early)] == {scene.ann.author: 15, scene.bob.author: 5}
    assert found.rows[str(late)] == found.readings
    names = ("author", "reason", "first_number", "last_number")
    losses = [{name: row[name] for name in names} for row in rows_of(late, "losses")]
    assert {"author": scene.ann.author, "reason": "erased", "first_number": 1, "last_number": 2} in losses
    gaps = rows_of(late, "gaps")
    assert not [each for each in gaps if each["state"] == "open"], "what was erased is not waited for"

    deletions = {"layout": 1, "authors": {scene.bob.author: NOW_US}, "kept_since": 0}
    (late / "deletions.json").write_text(json.dumps(deletions))
    kinds = {each.kind for each in scene.audit(late).findings}
    assert kinds == {"unerased"}, "the tables say that these are gone, and they are there"
    deleted = delete(
        location_at(str(late)), of_author(scene.bob.author), lambda before: before.with_author(scene.bob.author, NOW_US)
    )
    assert deleted["readings"] == 5
    assert scene.audit(late).findings == []


def test_a_record_that_a_node_says_is_gone_is_found(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.collector.land(scene.ann.measure(1))
    assert scene.collector.manifest is not None
    said = Erasure(scene.ann.identity.signing_public, NOW_US, 1, None, NOW_US)
    manifest = scene.collector.manifest
    listed = manifest.ranges, manifest.segments, (), (said,)
    scene.collector.publish(rewritten_manifest(manifest, scene.collector.key, NOW_US, *listed))
    assert [each.kind for each in scene.audit().findings] == ["unerased"]


def test_the_audit_finds_each_fault_in_a_vault(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    land, node = scene.collector.land, scene.collector.node.hex()
    forged = bytearray(scene.ann.measure(3))
    forged[10] ^= 1
    land(bytes(forged), scene.bob.measure(2))
    land(scene.stranger.measure(1))
    scene.bob.number += 2
    entry = land(scene.bob.measure(1), scene.ann.measure(1))
    scene.collector.segment_path(entry).unlink()
    land(scene.bob.measure(1))
    intruder = Collector(scene.collector.vault, 9, scene.collector.key)
    intruder.land(scene.bob.measure(1))

    found = scene.audit()
    assert found.readings == {scene.bob.author: 4}
    stranger = scene.stranger.author
    missing = f"segments/{node}/{scene.collector.segment_path(entry).name}"
    assert sorted(map(str, found.findings)) == [
        f"forged: record 0 of segment 1 of node {node}: ('signature', 'covey/1 message')",
        f"gap: batches of {scene.bob.author}: 2 to 4 came from nobody",
        f"stranger: node {intruder.node.hex()}: of {intruder.identity.signing_public.hex()}",
        f"stranger: record 0 of segment 2 of node {node}: signed by {stranger}",
        f"unreadable: segment 3 of node {node}: ('missing', '{missing}')",
    ]


def test_a_manifest_by_who_is_no_member_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    stranger = scene.stranger.identity
    raw = [each.raw for each in scene.manifests]
    taken = sign_manifest(scene.manifests[-1].adding(Member(stranger.keys, "")), stranger).raw
    with pytest.raises(RefusedError, match="unknown_issuer"):
        membership([*raw, taken])
    with pytest.raises(RefusedError, match="version_gap"):
        membership([raw[0], raw[2]])
