"""`covey.adapters.sqlite.link.received` and `imprints`: what stays in memory is what the file holds."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.queued import Imprint
from covey.core.wire.sequences import SequenceSet
from covey.errors import DiskFullError
from covey.limits.link import IMPRINTS_KEPT, IMPRINTS_OF_AUTHOR

BEN, THEIRS = DeviceKey(b"b" * 32), Incarnation(b"theirown")
ONE, OTHER = Imprint(LinkSeq(1), 1, b"1111"), Imprint(LinkSeq(2), 2, b"2222")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))) as opened:
        yield opened


def _take(store: SqliteStore, imprint: Imprint) -> None:
    with store.transaction():
        received = store.received.of(BEN, THEIRS)
        store.received.set(BEN, THEIRS, received.add(imprint.link_seq))
        store.imprints.note(BEN, THEIRS, imprint, received)


def test_received_numbers_of_another_process_are_seen(store: SqliteStore, tmp_path: Path) -> None:
    _take(store, ONE)
    with closing(SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))) as beside:
        _take(beside, OTHER)
        assert store.received.of(BEN, THEIRS) == SequenceSet(2)
        assert store.imprints.newest(BEN, THEIRS, 9, LinkSeq(2)) == [OTHER, ONE]
        with store.transaction():
            assert store.received.of(BEN, THEIRS) == SequenceSet(2)
            assert store.imprints.of(BEN, THEIRS, LinkSeq(2)) == OTHER
        assert beside.received.of(BEN, THEIRS) == SequenceSet(2)


def test_received_numbers_of_another_process_are_seen_after_a_read(store: SqliteStore, tmp_path: Path) -> None:
    _take(store, ONE)
    with closing(SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))) as beside:
        with store.reading():
            _take(beside, OTHER)
            assert store.received.of(BEN, THEIRS) == SequenceSet(1)
            assert store.imprints.of(BEN, THEIRS, LinkSeq(1)) == ONE
        assert store.received.of(BEN, THEIRS) == SequenceSet(2)
        with store.reading():
            assert store.received.of(BEN, THEIRS) == SequenceSet(2)
            assert store.imprints.before(BEN, THEIRS, LinkSeq(3)) == OTHER


def test_a_rollback_forgets_received_numbers(store: SqliteStore) -> None:
    _take(store, ONE)
    with suppress(DiskFullError), store.transaction():
        store.received.set(BEN, THEIRS, SequenceSet(2))
        store.imprints.note(BEN, THEIRS, OTHER, SequenceSet(1))
        raise DiskFullError("no room")
    with store.transaction():
        assert store.received.of(BEN, THEIRS) == SequenceSet(1)
        assert store.imprints.of(BEN, THEIRS, LinkSeq(2)) is None
    assert store.received.of(BEN, THEIRS) == SequenceSet(1)
    assert store.imprints.newest(BEN, THEIRS, 9, LinkSeq(2)) == [ONE]


def test_memory_stays_within_its_bound(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.link.received.LINKS_REMEMBERED", 3)
    monkeypatch.setattr("covey.adapters.sqlite.link.imprints.LINKS_REMEMBERED", 3)
    authors = [DeviceKey(bytes([number]) * 32) for number in range(8)]
    with store.transaction():
        for each in authors:
            store.received.set(each, THEIRS, SequenceSet(1))
            store.imprints.note(each, THEIRS, ONE, SequenceSet())
    statements: list[str] = []
    store.connection.set_trace_callback(statements.append)
    assert all(store.received.of(each, THEIRS) == SequenceSet(1) for each in authors)
    assert all(store.imprints.of(each, THEIRS, LinkSeq(1)) == ONE for each in authors)
    assert sum("FROM received" in each for each in statements) == 5
    assert sum("FROM imprint" in each for each in statements) == 5


@pytest.mark.slow
def test_imprints_of_a_backlog_are_kept_beside_newer_ones(store: SqliteStore) -> None:
    """A backlog whose first number never comes, and beside it what is said meanwhile: a window of each is kept."""
    backlog, live = itertools.count(2), itertools.count(50_000)

    def take(number: int) -> LinkSeq:
        with store.transaction():
            store.imprints.note(BEN, THEIRS, Imprint(LinkSeq(number), number, b"1111"), SequenceSet(0, ((2, 2),)))
        return LinkSeq(number)

    old, new = deque[LinkSeq](maxlen=IMPRINTS_KEPT), deque[LinkSeq](maxlen=200)
    for _ in range(8 * IMPRINTS_KEPT):
        old.append(take(next(backlog)))
        new.append(take(next(live)))
    assert all(store.imprints.of(BEN, THEIRS, number) for number in (*old, *new))
    rows = store.connection.execute("SELECT count(*) FROM imprint").fetchone()[0]
    assert rows * 64 <= IMPRINTS_OF_AUTHOR


@pytest.mark.slow
def test_imprints_are_kept_for_a_window(store: SqliteStore) -> None:
    for number in range(1, 3 * IMPRINTS_KEPT):
        _take(store, Imprint(LinkSeq(number), number, b"1111"))
    assert store.imprints.of(BEN, THEIRS, LinkSeq(2 * IMPRINTS_KEPT)) is not None
    rows = store.connection.execute("SELECT count(*) FROM imprint").fetchone()[0]
    assert rows <= IMPRINTS_KEPT // 64 + 2
