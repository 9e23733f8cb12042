"""`covey.adapters.sqlite.link.inbox`: what came for the application, and how much of it each sender may have there."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.wire.message import Message, MessageType


def test_one_sender_that_fills_the_inbox_keeps_no_other_one_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.link.inbox.INBOX_BYTES", 60)
    monkeypatch.setattr("covey.adapters.sqlite.link.inbox.INBOX_SHARE_BYTES", 6)
    monkeypatch.setattr("covey.adapters.sqlite.link.inbox.SMALLEST_MESSAGE_BYTES", 1)
    with (
        closing(SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))) as store,
        store.transaction(),
    ):

        def deliver(author: bytes, size: int) -> bool:
            key, group_id, number = DeviceKey(author * 32), GroupId(b"g" * 32), LinkSeq(1)
            blob = Message(
                MessageType.BLOB, key, key, group_id, Incarnation(bytes(8)), 1, number, 1, bytes(size), b"raw"
            )
            return store.inbox.deliver(blob, 7)

        assert [deliver(b"a", 10) for _ in range(5)] == [True] * 3 + [False] * 2
        assert [deliver(b"b", 3) for _ in range(3)] == [True, True, False]
        assert deliver(b"c", 20), "one message of any size"
        assert not deliver(b"d", 9), "all of it is full"
        store.inbox.consume(1)
        assert deliver(b"d", 9)


def test_what_a_transaction_delivers_is_read_in_it_and_gone_with_it(tmp_path: Path) -> None:
    key, group_id = DeviceKey(b"k" * 32), GroupId(b"g" * 32)

    def blob(number: int) -> Message:
        seq = LinkSeq(number)
        return Message(MessageType.BLOB, key, key, group_id, Incarnation(bytes(8)), number, seq, 1, b"said", b"raw")

    with closing(SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))) as store:
        with suppress(ZeroDivisionError), store.transaction():
            assert store.inbox.deliver(blob(1), 7)
            assert len(store.inbox.arrived(10)) == 1
            assert store.inbox.deliver(blob(2), 7)
            raise ZeroDivisionError
        assert store.inbox.arrived(10) == []
        with store.transaction():
            assert all(store.inbox.deliver(blob(number), 7) for number in range(1, 4))
            assert store.inbox.consume(store.inbox.arrived(1)[0][0]) == 1
        assert store.inbox.deliver(blob(4), 7), "outside of a transaction, too"
        assert len(store.inbox.arrived(10)) == 3
        assert store.database.one("SELECT inbox_bytes FROM device") == 3 * len(b"said")


@pytest.mark.slow
def test_a_consumed_message_leaves_no_copy_in_the_file(tmp_path: Path) -> None:
    chance, path = random.Random(8), tmp_path / "state.sqlite"  # a seed that left a copy
    key, group_id, word = DeviceKey(b"k" * 32), GroupId(b"g" * 32), b"what was said in the group "
    with closing(SqliteStore(path, Incarnation(b"incarnat"), StorageKey(bytes(32)))) as store:
        for number in range(1, 251):
            body = word + chance.randbytes(chance.choice((60, 300, 700, 900, 1500, 3000)))
            seq, incarnation = LinkSeq(number), Incarnation(bytes(8))
            with store.transaction():
                assert store.inbox.deliver(
                    Message(MessageType.BLOB, key, key, group_id, incarnation, number, seq, 1, body, b"raw"), 7
                )
            waiting = store.inbox.arrived(1000)
            with store.transaction():
                if chance.random() < 0.5:
                    store.inbox.consume(chance.choice(waiting)[0])
        with store.transaction():
            store.groups.forget(group_id)
    assert word not in path.read_bytes()
