"""`covey.adapters.sqlite.store` on real files: what is committed stays, what is refused leaves no trace."""

from __future__ import annotations

import multiprocessing
import re
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.cli.main import main
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq, Place
from covey.core.link.queued import MessageClass
from covey.core.wire.message import Message, MessageType, read_message, write_message
from covey.core.wire.sequences import SequenceSet
from covey.errors import ConfigurationError, DiskFullError, OutboxFullError, StorageError
from covey.limits.storage import OUTBOX_BYTES, QUARANTINED_MESSAGES
from covey.limits.units import KIB, MIB
from tests.fleet import Device, found

BEN, CAT = DeviceKey(b"b" * 32), DeviceKey(b"c" * 32)
INCARNATION = Incarnation(b"incarnat")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    yield opened
    opened.close()


def _queue(store: SqliteStore, recipient: DeviceKey, content: bytes, kind: MessageClass = MessageClass.DATA) -> int:
    seq, link_seq = store.outbox.allocate(recipient)
    store.outbox.queue(recipient, seq, link_seq, kind, content, 5)
    return link_seq


def _message(link_seq: LinkSeq, body: bytes = b"body") -> Message:
    return Message(
        MessageType.BLOB, BEN, CAT, GroupId(b"g" * 32), INCARNATION, link_seq, link_seq, 1, body, b"raw" + body
    )


def test_an_erased_group_leaves_nothing_in_quarantine_nor_in_the_file(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    erased, kept = found(ann, ben), found(ann, ben)
    word = b"what was said in the group "
    for number in range(40):
        for group_id in (erased, kept):
            message = _signed(ben, ann, group_id, b"%d " % number + (word if group_id == erased else b"other ") * 30)
            with ann.store.transaction():
                ann.store.quarantine.add("malformed", message, 7, ben.key)
    with ann.store.transaction():
        assert ann.store.quarantine.remove(1)
    with ann.store.transaction():
        ann.store.groups.erase_content(erased)
    assert {read_message(each.message, verify=False).group_id for each in ann.store.quarantine.entries()} == {kept}
    assert ann.store.quarantine.count() == 40
    ann.stop()
    assert word not in ann.path.read_bytes()


def _signed(author: Device, recipient: Device, group_id: GroupId, body: bytes) -> bytes:
    return write_message(
        author.identity, MessageType.BLOB, recipient.key, group_id, INCARNATION, 1, LinkSeq(1), 1, body
    )


# -- opening ----------------------------------------------------------------------------------------------------------


def test_a_file_keeps_its_incarnation_and_content(path: Path) -> None:
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with store.transaction():
        _queue(store, BEN, b"one")
        store.received.set(BEN, Incarnation(b"theirown"), SequenceSet(3, ((5, 6),)))
    store.close()
    store = SqliteStore(path, Incarnation(b"anotherx"), StorageKey(bytes(32)))
    assert store.incarnations.present() == INCARNATION
    assert store.outbox.queued(BEN, Place(0), 10, MIB) == [(1, b"one")]
    assert store.received.of(BEN, Incarnation(b"theirown")) == SequenceSet(3, ((5, 6),))
    store.close()


def test_a_file_is_for_its_owner_only(path: Path, store: SqliteStore) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert {file.stat().st_mode & 0o077 for file in path.parent.iterdir()} == {0}


def test_the_state_of_a_newer_covey_is_refused_and_left_alone(path: Path, tmp_path: Path) -> None:
    SqliteStore(path, INCARNATION, StorageKey(bytes(32))).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 999")
        database.execute("PRAGMA application_id = 999")
    with pytest.raises(ConfigurationError, match="newer") as caught:
        SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    assert caught.value.exit_code == 78
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (999,)
    assert main(["init", "--state", str(tmp_path / "device")]) == 0
    with sqlite3.connect(tmp_path / "device" / "state.sqlite") as database:
        database.execute("PRAGMA user_version = 999")
        database.execute("PRAGMA application_id = 999")
    assert main(["status", "--state", str(tmp_path / "device")]) == 78


def _open_and_queue(path: Path, start: float) -> None:
    while time.time() < start:
        pass
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with store.transaction():
        _queue(store, BEN, b"one")
    store.close()


@pytest.mark.processes
def test_processes_may_open_a_new_file_at_the_same_time(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = time.time() + 0.2
    processes = [context.Process(target=_open_and_queue, args=(path, start)) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    assert [link_seq for link_seq, _ in store.outbox.queued(BEN, Place(0), 10, MIB)] == [1, 2, 3, 4, 5, 6]
    store.close()


def test_a_damaged_file_gives_an_error_of_ours(path: Path) -> None:
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with store.transaction():
        for _ in range(200):
            _queue(store, BEN, bytes(500))
    store.close()
    content = bytearray(path.read_bytes())
    content[8 * KIB :] = b"\xff" * (len(content) - 8 * KIB)
    path.write_bytes(content)
    reads: tuple[Callable[[SqliteStore], object], ...] = (
        lambda damaged: damaged.outbox.queued(BEN, Place(0), 500, MIB),
        lambda damaged: damaged.groups.manifests(),
        lambda damaged: damaged.landing.waiting(1, 1),
        lambda damaged: damaged.counters.values(),
    )
    for read in reads:
        with pytest.raises(StorageError):
            read(SqliteStore(path, INCARNATION, StorageKey(bytes(32))))
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StorageError):
        SqliteStore(path, INCARNATION, StorageKey(bytes(32)))


# -- the outbox -------------------------------------------------------------------------------------------------------


def test_sequences_are_never_given_again(path: Path) -> None:
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with store.transaction():
        assert [store.outbox.allocate(BEN), store.outbox.allocate(BEN), store.outbox.allocate(CAT)] == [
            (1, 1),
            (2, 2),
            (3, 1),
        ]
        _queue(store, BEN, b"one")
    with store.transaction():
        assert store.outbox.free(BEN, SequenceSet(100)) == 1
    store.close()
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with store.transaction():
        assert store.outbox.allocate(BEN) == (5, 4)
    store.close()


def test_a_rollback_leaves_no_trace(store: SqliteStore) -> None:
    with suppress(KeyError), store.transaction():
        _queue(store, BEN, b"one")
        raise KeyError
    assert store.outbox.totals() == (0, 0)
    with store.transaction():
        assert store.outbox.allocate(BEN) == (1, 1)


def test_reading_is_bounded_in_rows_and_bytes(store: SqliteStore) -> None:
    with store.transaction():
        for number in range(10):
            _queue(store, BEN, bytes([number]) * 100)
    assert [link_seq for link_seq, _ in store.outbox.queued(BEN, Place(2), 3, MIB)] == [3, 4, 5]
    assert [link_seq for link_seq, _ in store.outbox.queued(BEN, Place(0), 10, 101)] == [1, 2]
    assert [link_seq for link_seq, _ in store.outbox.queued(BEN, Place(8), 10, MIB)] == [9, 10]
    assert store.outbox.queued(CAT, Place(0), 10, MIB) == []


def test_an_acknowledgement_frees_exactly_what_it_covers(store: SqliteStore) -> None:
    with store.transaction():
        for number in range(1, 11):
            _queue(store, BEN, bytes(number))
        _queue(store, CAT, b"other")
        assert store.outbox.free(BEN, SequenceSet(2, ((4, 5), (9, 2**62)))) == 6
    assert [link_seq for link_seq, _ in store.outbox.queued(BEN, Place(0), 10, MIB)] == [3, 6, 7, 8]
    assert store.outbox.totals() == (5, 3 + 6 + 7 + 8 + 5)
    assert sorted(store.outbox.recipients()) == [BEN, CAT]
    with store.transaction():
        assert store.outbox.free(BEN, SequenceSet(10)) == 4
        assert store.outbox.free(DeviceKey(b"nobody" * 5), SequenceSet(10)) == 0
    assert store.outbox.recipients() == [CAT]
    [ben, cat] = store.outbox.queues()
    assert (ben.queued, ben.acknowledged, ben.oldest_at_us) == (0, 10, None)
    assert (cat.queued, cat.acknowledged, cat.oldest_at_us) == (1, 0, 5)


def test_a_full_outbox_refuses_data_and_takes_control(path: Path) -> None:
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)), 1_000)
    with store.transaction():
        _queue(store, BEN, bytes(900))
    for kind in (MessageClass.DATA, MessageClass.TELEMETRY):
        with pytest.raises(OutboxFullError, match="900 of 1000") as caught, store.transaction():
            _queue(store, BEN, bytes(101), kind)
        assert caught.value.hint
    assert store.outbox.totals() == (1, 900)
    with store.transaction():
        assert _queue(store, BEN, bytes(500), MessageClass.CONTROL) == 2
    with store.transaction():
        store.outbox.free(BEN, SequenceSet(2))
    with store.transaction():
        _queue(store, BEN, bytes(1_000))
    store.close()


def test_waiting_messages_can_be_listed(store: SqliteStore) -> None:
    with store.transaction():
        for number in range(1, 4):
            _queue(store, BEN, bytes(number), MessageClass.TELEMETRY)
    assert store.outbox.waiting(BEN, 2) == [(1, 2, 1, 5), (2, 2, 2, 5)]
    assert store.outbox.waiting(CAT, 2) == []


def _bytes_read() -> int:
    """Return how many bytes this process has ever read."""
    return int(re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())[0])


@pytest.mark.slow
def test_a_long_queue_is_opened_and_asked_about_without_reading_it(path: Path) -> None:
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)), OUTBOX_BYTES)
    with store.transaction():
        for _ in range(30_000):
            _queue(store, BEN, bytes(300))
    store.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = _bytes_read()
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)), OUTBOX_BYTES)
    assert store.outbox.recipients() == [BEN]
    assert store.outbox.totals() == (30_000, 9_000_000)
    assert len(store.outbox.queued(BEN, Place(0), 256, MIB)) == 256
    assert store.outbox.queues()[0].oldest_at_us == 5
    for kind in (MessageClass.CONTROL, MessageClass.HISTORY):
        assert store.outbox.waiting_bytes(BEN, kind) == 0
        assert not store.outbox.is_queued_between(BEN, kind, 0, 9)
        assert not list(store.outbox.messages(BEN, kind))
    assert not store.outbox.control_messages(BEN)
    assert store.outbox.holds_submissions(BEN)
    assert _bytes_read() - read < MIB, "of nine"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4 * KIB  # KiB
    store.close()


# -- a full disk ------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_the_whole_transaction_and_recovers(path: Path) -> None:
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with store.transaction():
        _queue(store, BEN, b"before")
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(DiskFullError) as caught, store.transaction():
        _queue(store, BEN, bytes(100_000))
    assert caught.value.hint
    assert store.outbox.totals() == (1, 6)
    with store.transaction():  # an acknowledgement needs no new pages
        assert store.outbox.free(BEN, SequenceSet(1)) == 1
    store.connection.execute("PRAGMA max_page_count = 1000000")
    with store.transaction():
        assert _queue(store, BEN, bytes(5_000)) == 2
    store.close()


def test_a_locked_file_is_said_to_be_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.store._BUSY_MS", 10)
    store = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    other = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with other.transaction(), pytest.raises(StorageError, match="locks the state"), store.transaction():
        pass
    assert store.outbox.totals() == (0, 0)
    store.close()
    other.close()


# -- the inbox and the landing ----------------------------------------------------------------------------------------


def test_the_inbox_is_bounded_and_consumed_once(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.link.inbox.INBOX_BYTES", 10)
    with store.transaction():
        assert store.inbox.deliver(_message(LinkSeq(1), b"12345"), 7)
        assert store.inbox.deliver(_message(LinkSeq(2), b"67890"), 7)
        assert not store.inbox.deliver(_message(LinkSeq(3), b"1"), 7)
    identifier = store.inbox.arrived(1)[0][0]
    for _ in range(2):  # another process may have taken it
        with store.transaction():
            store.inbox.consume(identifier)
    assert [row[-1] for row in store.inbox.arrived(10)] == [b"67890"]
    with store.transaction():
        assert store.inbox.deliver(_message(LinkSeq(3), b"1"), 7)
        assert not store.inbox.deliver(_message(LinkSeq(4), b"12345"), 7)


def test_the_landing_is_bounded_and_forgotten_when_it_has_landed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_BYTES", 30)
    with store.transaction():
        assert all(store.landing.land(_message(LinkSeq(number), b"%7d" % number), 10 - number) for number in (1, 2, 3))
        assert not store.landing.land(_message(LinkSeq(4)), 7)
    assert store.landing.size() == 30
    assert store.landing.unlanded(BEN, INCARNATION) == {1, 2, 3}
    assert store.landing.waiting(15, 10) == (1, 10, 9)
    assert store.landing.waiting(5, 10) == (1, 10, 9)
    assert store.landing.waiting(100, 2) == (2, 20, 9)
    assert [each.link_seq for each in store.landing.until(2)] == [1, 2]


def test_quarantine_keeps_the_newest(store: SqliteStore) -> None:
    with store.transaction():
        for number in range(QUARANTINED_MESSAGES + 5):
            store.quarantine.add("malformed", b"%d" % number, 7, BEN)
    kept = store.connection.execute("SELECT message FROM quarantine ORDER BY id").fetchall()
    assert len(kept) == QUARANTINED_MESSAGES
    assert kept[0] == (b"5",)


def test_one_devices_bad_messages_hide_nobody_elses(store: SqliteStore) -> None:
    with store.transaction():
        store.quarantine.add("malformed", b"the one of cat", 7, CAT)
        for number in range(QUARANTINED_MESSAGES + 5):
            store.quarantine.add("malformed", b"%d" % number, 7, BEN)
    kept = [each.message for each in store.quarantine.entries()]
    assert len(kept) == QUARANTINED_MESSAGES
    assert kept[0] == b"the one of cat"


def test_the_counters_count(store: SqliteStore) -> None:
    with store.transaction():
        store.counters.count("one")
        store.counters.count("one", 4)
        store.conditions.set("relay", "up", 3)
        store.conditions.set("relay", "down", 4)
    assert store.counters.values() == {"one": 5}
    assert store.conditions.values() == {"relay": ("down", 4)}


# -- links ------------------------------------------------------------------------------------------------------------


def test_a_link_is_written_with_its_transaction(path: Path, store: SqliteStore) -> None:
    other = SqliteStore(path, INCARNATION, StorageKey(bytes(32)))
    with store.transaction():
        store.received.set(BEN, Incarnation(b"theirown"), SequenceSet(3))
        assert store.received.of(BEN, Incarnation(b"theirown")) == SequenceSet(3)
        assert store.received.count(BEN) == 1
        store.received.set(BEN, Incarnation(b"theirown"), SequenceSet(4))
        assert store.received.links(BEN) == [(b"theirown", SequenceSet(4))]
        assert other.received.of(BEN, Incarnation(b"theirown")) == SequenceSet()
    assert other.received.of(BEN, Incarnation(b"theirown")) == SequenceSet(4)
    with other.transaction():
        other.received.set(BEN, Incarnation(b"theirown"), SequenceSet(5))
    with store.transaction():
        assert store.received.of(BEN, Incarnation(b"theirown")) == SequenceSet(5)
    other.close()


def test_a_link_that_was_rolled_back_is_as_before(store: SqliteStore) -> None:
    with suppress(ZeroDivisionError), store.transaction():
        store.received.set(BEN, Incarnation(b"theirown"), SequenceSet(3))
        raise ZeroDivisionError
    assert store.received.links(BEN) == []
    with store.transaction():
        assert store.received.of(BEN, Incarnation(b"theirown")) == SequenceSet()
    assert store.received.of(BEN, Incarnation(b"theirown")) == SequenceSet()
