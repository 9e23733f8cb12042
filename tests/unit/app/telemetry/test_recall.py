"""`covey.app.telemetry.recall`: a collector that has lost its database knows by its vault what has landed."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from covey.core.ids import node_id
from covey.core.vault import documents
from covey.core.vault.documents import SegmentRecord
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.wire.message import Message, read_message
from covey.errors import StorageError
from tests.fleet import admit, carry
from tests.vault_site import KEY, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _lose_database(site: Site) -> None:
    site.gate.stop()
    for file in site.gate.path.parent.glob("collector*"):
        file.unlink()
    site.start()


def _readmit(site: Site) -> None:
    admit(site.ann, site.gate, site.group_id)
    for _ in range(8):
        site.ann.wait(400)
        site.ann.maintain()
        carry(site.ann, site.gate)
        site.land()


def _messages(site: Site) -> list[Message]:
    ring, node, manifest = site.key_file.content.ring(), node_id(site.gate.key), site.manifest()
    assert manifest is not None
    found: list[SegmentRecord] = []
    for entry in manifest.segments:
        content = site.objects.content[documents.entry_key(KEY.vault_id, node, entry)]
        found += documents.open_segment(ring.for_object(content), node, entry, content)
    return [read_message(each.message) for each in found if record_kind(each.message) is RecordKind.MESSAGE]


def _numbers(site: Site) -> Counter[tuple[bytes, bytes, int]]:
    return Counter((each.author, each.incarnation, each.seq) for each in _messages(site))


def test_a_number_that_has_landed_is_not_given_to_another_message(site: Site, tmp_path: Path) -> None:
    """Its sender was restored without knowing it, and nobody but the vault remembers what it sent."""
    site.send(b"one")
    site.land()
    carry(site.ann, site.gate)
    site.ann.stop()
    shutil.copy(site.ann.path, tmp_path / "copy")
    site.ann.restart()
    site.send(b"two")
    site.land()
    carry(site.ann, site.gate)
    site.ann.stop()
    shutil.copy(tmp_path / "copy", site.ann.path)
    site.ann.restart()
    _lose_database(site)
    with site.ann.store.transaction():
        site.ann.node.telemetry.send(site.group_id, b"three", 1, site.ann.now)
    _readmit(site)
    assert sorted(site.landed()) == [b"one", b"three", b"two"]
    assert set(_numbers(site).values()) == {1}


def test_a_landed_message_does_not_land_again(site: Site) -> None:
    """Its acknowledgement was lost, and the database after it."""
    site.send(b"one")
    site.land()
    _lose_database(site)
    _readmit(site)
    assert site.landed() == [b"one"]
    assert site.ann.store.outbox.totals()[0] == 0


def test_a_vault_that_cannot_be_read_is_no_empty_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.send(b"one")
    site.land()
    get = site.objects.get

    def refuse(key: str, maximum: int) -> bytes | None:
        if key.endswith(".hxseg"):
            raise StorageError("unreachable")
        return get(key, maximum)

    monkeypatch.setattr(site.objects, "get", refuse)
    with pytest.raises(StorageError):
        _lose_database(site)
    monkeypatch.undo()
    _lose_database(site)
    _readmit(site)
    assert site.landed() == [b"one"]


def test_a_start_that_ends_between_two_segments_learns_all_the_next_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in (b"one", b"two", b"three"):
        site.send(body)
        site.land()
    get, read = site.objects.get, list[str]()

    def end_at_the_second(key: str, maximum: int) -> bytes | None:
        read.append(key)
        if sum(each.endswith(".hxseg") for each in read) == 2:
            raise StorageError("unreachable")
        return get(key, maximum)

    monkeypatch.setattr(site.objects, "get", end_at_the_second)
    with pytest.raises(StorageError):
        _lose_database(site)
    monkeypatch.undo()
    site.gate.stop()
    site.start()
    _readmit(site)
    assert sorted(site.landed()) == [b"one", b"three", b"two"]
    assert site.ann.store.outbox.totals()[0] == 0


def test_reading_the_vault_locks_no_database(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.send(b"one")
    site.land()
    get, written = site.objects.get, list[str]()

    def write_meanwhile(key: str, maximum: int) -> bytes | None:
        with closing(sqlite3.connect(site.gate.path, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.rollback()
        written.append(key)
        return get(key, maximum)

    monkeypatch.setattr(site.objects, "get", write_meanwhile)
    _lose_database(site)
    assert any(key.endswith(".hxseg") for key in written)
