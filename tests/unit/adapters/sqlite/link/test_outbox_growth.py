"""What is queued in a transaction is counted once for the commit, and by everybody who asks before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, Incarnation, Place
from covey.core.link.queued import MessageClass
from covey.core.wire.sequences import SequenceSet
from covey.errors import OutboxFullError

BEN, CAT = DeviceKey(b"b" * 32), DeviceKey(b"c" * 32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)), 1_000)
    yield opened
    opened.close()


def _queue(store: SqliteStore, recipient: DeviceKey, size: int, kind: MessageClass = MessageClass.DATA) -> None:
    seq, link_seq = store.outbox.allocate(recipient)
    store.outbox.queue(recipient, seq, link_seq, kind, bytes(size), 5)


def test_a_message_is_one_statement_and_a_commit_counts_once(store: SqliteStore) -> None:
    said: list[str] = []
    connection = store.database.connection
    for count in (1, 50):
        said.clear()
        connection.set_trace_callback(said.append)
        with store.transaction():
            for _ in range(count):
                store.incarnations.present()
                _queue(store, BEN, 1)
        connection.set_trace_callback(None)
        counts = [each for each in said if "queued_messages" in each]
        assert len(counts) == 2, "of the device, and of the recipient"
        assert len([each for each in said if each.startswith("INSERT INTO outbox")]) == count
        assert len(said) <= count + 12
    assert store.outbox.totals() == (51, 51)


def test_a_query_inside_the_transaction_sees_all_of_it(store: SqliteStore) -> None:
    with store.transaction():
        _queue(store, BEN, 10)
        _queue(store, CAT, 20, MessageClass.TELEMETRY)
        assert store.outbox.totals() == (2, 30)
        assert store.outbox.bytes_by_class()[MessageClass.TELEMETRY] == 20
        assert store.outbox.recipients() == [BEN, CAT]
        assert store.outbox.recipients_of_batches() == {BEN, CAT}, "until somebody has looked through it"
        store.outbox.holds_no_batches(BEN)
        assert store.outbox.recipients_of_batches() == {CAT}
        assert [each.queued for each in store.outbox.queues(waiting=True)] == [1, 1]
        _queue(store, BEN, 5)
        assert store.outbox.free(BEN, SequenceSet(1)) == 1
        _queue(store, BEN, 7)
        assert store.outbox.totals() == (3, 32)
        store.outbox.holds_no_batches(CAT)
        assert store.outbox.recipients_of_batches() == set()
        _queue(store, CAT, 1, MessageClass.TELEMETRY)
        assert store.outbox.recipients_of_batches() == {CAT}
    assert store.outbox.totals() == (4, 33)
    assert [size for _, _, size, _ in store.outbox.waiting(BEN, 10)] == [5, 7]


def test_numbers_go_on_through_reads_incarnations_and_commits(store: SqliteStore) -> None:
    with store.transaction():
        numbers = [store.outbox.allocate(recipient) for recipient in (BEN, CAT, BEN)]
        assert numbers == [(1, 1), (2, 1), (3, 2)]
        assert [span.last for span in store.incarnations.spans(BEN)] == [2]
        store.incarnations.renew(Incarnation(b"renewed!"))
        assert store.outbox.allocate(BEN) == (4, 1), "on the wire each incarnation begins at 1"
        assert [(span.base, span.last) for span in store.incarnations.spans(BEN)] == [(2, 3)]
        store.losses.reported(BEN, Place(0))
        assert store.database.first("SELECT next_place, reported_place FROM peer WHERE base = 2") == (4, 3)
    with store.transaction():
        assert [store.outbox.allocate(recipient) for recipient in (CAT, BEN)] == [(5, 1), (6, 2)]


def test_a_rollback_counts_nothing(store: SqliteStore) -> None:
    with suppress(ZeroDivisionError), store.transaction():
        _queue(store, BEN, 10)
        raise ZeroDivisionError
    with store.transaction():
        _queue(store, CAT, 3)
    assert store.outbox.totals() == (1, 3)
    assert store.outbox.recipients() == [CAT]


def test_the_bound_counts_what_the_transaction_has_queued(store: SqliteStore) -> None:
    with store.transaction():
        _queue(store, BEN, 600)
        with pytest.raises(OutboxFullError, match="holds 600 of 1000"):
            _queue(store, BEN, 401)
        _queue(store, BEN, 400)
        _queue(store, BEN, 100, MessageClass.CONTROL)
        assert store.outbox.free(BEN, SequenceSet(1)) == 1
        _queue(store, BEN, 500)
    assert store.outbox.totals()[1] == 1_000
    with pytest.raises(OutboxFullError), store.transaction():
        _queue(store, CAT, 1)


def test_outside_of_a_transaction_it_is_written_at_once(store: SqliteStore) -> None:
    _queue(store, BEN, 4)
    assert store.outbox.totals() == (1, 4)
    assert store.outbox.queued(BEN, Place(0), 10, 100) == [(1, bytes(4))]


def test_telemetry_asks_for_room_without_writing_totals_each_time(store: SqliteStore) -> None:
    said: list[str] = []
    store.database.connection.set_trace_callback(said.append)
    with store.transaction():
        for _ in range(20):
            assert store.outbox.make_room(BEN, 10) == []
            _queue(store, BEN, 10, MessageClass.TELEMETRY)
    store.database.connection.set_trace_callback(None)
    assert len([each for each in said if "queued_messages" in each]) == 2
    assert store.outbox.totals() == (20, 200)


def test_room_counts_what_was_queued_and_freed_in_the_same_transaction(store: SqliteStore) -> None:
    with store.transaction():
        for _ in range(9):
            assert store.outbox.make_room(BEN, 100) == []
            _queue(store, BEN, 100, MessageClass.TELEMETRY)
        store.outbox.free(BEN, SequenceSet(5))
        assert store.outbox.make_room(BEN, 600) == [], "400 bytes are left, and 600 fit"
        assert store.outbox.make_room(BEN, 601) == [(6, 9)]
    assert store.outbox.totals() == (0, 0)
