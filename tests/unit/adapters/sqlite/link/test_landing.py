"""`covey.adapters.sqlite.link.landing`: what a transaction lands is written at its end, and counts at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.vault.landing import LandingPlan
from covey.core.wire.message import Message, MessageType
from covey.errors import DiskFullError
from covey.limits.units import MIB

BEN, CAT, THEIRS = DeviceKey(b"b" * 32), DeviceKey(b"c" * 32), Incarnation(b"theirown")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))) as opened:
        yield opened


def _message(number: int, author: DeviceKey = BEN) -> Message:
    link_seq, group_id = LinkSeq(number), GroupId(b"g" * 32)
    return Message(MessageType.TELEMETRY, author, CAT, group_id, THEIRS, number, link_seq, 1, b"body", b"raw" * number)


def test_landed_messages_count_within_their_transaction(store: SqliteStore) -> None:
    with store.transaction():
        for number in (1, 2, 3):
            assert store.landing.land(_message(number), 5)
        assert store.landing.size() == 18
        assert store.landing.unlanded(BEN, THEIRS) == {1, 2, 3}
        assert store.landing.waiting(MIB, 9) == (3, 18, 5)
        assert store.landing.of_author(BEN) == (3, 18, 5)
        assert store.landing.land(_message(4), 6)
        assert store.landing.unlanded(BEN, THEIRS) == {1, 2, 3, 4}
    assert store.landing.size() == 30
    assert [each.link_seq for each in store.landing.until(9)] == [1, 2, 3, 4]


def test_a_rollback_lands_nothing(store: SqliteStore) -> None:
    with suppress(DiskFullError), store.transaction():
        store.landing.land(_message(1), 5)
        raise DiskFullError("no room")
    assert store.landing.size() == 0
    with store.transaction():
        assert store.landing.unlanded(BEN, THEIRS) == set()
        assert store.landing.waiting(MIB, 9) is None


def test_the_bound_holds_within_a_transaction(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_BYTES", 9)
    with store.transaction():
        assert store.landing.land(_message(2), 5)
        assert not store.landing.land(_message(3), 5)
        assert store.landing.land(_message(1), 5)
    assert store.landing.size() == 9


def test_the_unlanded_list_sees_other_processes(store: SqliteStore, tmp_path: Path) -> None:
    with store.transaction():
        assert store.landing.unlanded(BEN, THEIRS) == set()
        store.landing.land(_message(1), 5)
    assert store.landing.unlanded(BEN, THEIRS) == {1}
    with closing(SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))) as beside:
        with beside.transaction():
            beside.landing.land(_message(2), 5)
        assert store.landing.unlanded(BEN, THEIRS) == {1, 2}
    plan = LandingPlan(1, Incarnation(b"incarnat"), 1, 5, bytes(24))
    with store.transaction():
        store.landing.begin(plan)
        assert store.landing.unlanded(BEN, THEIRS) == {1, 2}
        store.landing.finish(plan, 1)
        assert store.landing.unlanded(BEN, THEIRS) == {2}
        store.landing.land(_message(3), 6)
    assert store.landing.unlanded(BEN, THEIRS) == {2, 3}
    assert store.landing.unlanded(CAT, THEIRS) == set()


def test_a_rollback_keeps_the_unlanded_list(store: SqliteStore) -> None:
    with store.transaction():
        store.landing.land(_message(1), 5)
        assert store.landing.unlanded(BEN, THEIRS) == {1}
    plan = LandingPlan(1, Incarnation(b"incarnat"), 1, 5, bytes(24))
    with suppress(DiskFullError), store.transaction():
        store.landing.begin(plan)
        store.landing.finish(plan, 1)
        raise DiskFullError("no room")
    assert store.landing.unlanded(BEN, THEIRS) == {1}


def test_one_sender_that_fills_the_landing_keeps_no_other_one_out(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the vault refuses writes."""
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_BYTES", 60)
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_SHARE_BYTES", 6)
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.SMALLEST_MESSAGE_BYTES", 1)
    with store.transaction():
        outcomes = [store.landing.land(_message(number), 5) for number in (5, 5, 1)]
        assert outcomes == [True, True, False]
        assert [store.landing.land(_message(1, CAT), 5) for _ in range(3)] == [True, True, False]
        assert store.landing.land(_message(8, DeviceKey(b"d" * 32)), 5), "one message of any size"
        assert not store.landing.land(_message(1), 5)


def test_on_a_disk_that_is_nearly_full_one_sender_lands_its_share_and_others_theirs(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One member once filled a hub's disk at 5 MB/s."""
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.SCARCE_BYTES", 9)
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.SCARCE_BYTES_PER_SECOND", 1)
    with store.transaction():
        assert all(store.landing.land(_message(1), 5) for _ in range(20)), "while there is room"
        store.landing.scarce = True
        assert [store.landing.land(_message(1), 5) for _ in range(5)] == [True] * 3 + [False] * 2
        assert store.landing.land(_message(1, CAT), 5)
        assert store.landing.land(_message(1), 5_000_000), "it has saved up a message"
