"""`HighWater`: a state that has lost its last commits shows, and what went with them is told, once."""

from __future__ import annotations

import fcntl
import hashlib
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.sqlite.file.state_file import StateFile, logged_commits
from covey.adapters.sqlite.store import PAGE_BYTES
from covey.core.ids import GroupId, Incarnation
from covey.core.wire.message import Loss, MessageType, read_message
from tests.durable import DurableDevice
from tests.fleet import admit, carry, found

_LOG_HEADER_BYTES, _FRAME_BYTES = 32, 24 + PAGE_BYTES
_RECORD_BYTES = 64


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[DurableDevice, DurableDevice, GroupId]]:
    """Two members of one group, with nothing under way."""
    ann, ben = DurableDevice("ann", tmp_path), DurableDevice("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    yield ann, ben, group_id
    ann.stop()
    ben.stop()


def _log_end(device: DurableDevice) -> int:
    """Return where the last commit of the write-ahead log ends, in bytes."""
    frames = logged_commits(_log(device))
    return _LOG_HEADER_BYTES + frames[-1] * _FRAME_BYTES if frames else 0


def _log_header(device: DurableDevice) -> bytes:
    return _log(device).read_bytes()[:_LOG_HEADER_BYTES]


def _log(device: DurableDevice) -> Path:
    return device.path.with_name(f"{device.path.name}-wal")


def _lose_commits(device: DurableDevice, work: Callable[[], object]) -> None:
    """Do something in commits that are durable, as the disk says, and are cut off the log; then start again."""
    end, header = _log_end(device), _log_header(device)
    work()
    if _log_header(device) != header:  # SQLite began it anew
        end = 0
    assert _log_end(device) > end, "the work has written commits"
    files = device.files()
    files[_log(device).name] = files[_log(device).name][:end]
    device.stop()
    device.put_files(files, in_place=True)
    device.restart()


def _report_losses(*devices: DurableDevice) -> None:
    """Let the devices do what the first minute of an agent does, and carry what comes of it."""
    for device in devices:
        device.wait(120)
        device.maintain()
    carry(*devices)


def _lost(device: DurableDevice) -> int:
    return device.store.counters.values().get("lost_messages", 0)


def _waiting_losses(device: DurableDevice, recipient: DurableDevice) -> list[Loss]:
    messages = [read_message(raw) for _, raw in device.store.outbox.control_messages(recipient.key)]
    return [Loss.from_wire(each.body) for each in messages if each.type is MessageType.LOSS]


def test_a_blob_lost_with_a_cut_log_is_reported(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, ben, group_id = pair
    before = ann.store.incarnations.present()
    _lose_commits(ann, lambda: ann.blob(group_id, b"accepted"))
    assert ann.store.incarnations.present() != before
    [report] = ann.fall_backs
    assert "1 commit" in report.line()
    assert ann.store.counters.values()["unreadable_commits"] == 1
    _report_losses(ann, ben)
    assert _lost(ben) == 1
    ann.blob(group_id, b"later")
    carry(ann, ben)
    assert ben.inbox() == [b"later"]
    assert ann.store.outbox.totals()[0] == 0


def test_lost_commits_are_reported_once(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, ben, group_id = pair
    _lose_commits(ann, lambda: ann.blob(group_id, b"accepted"))
    incarnation = ann.store.incarnations.present()
    for _ in range(3):
        _report_losses(ann, ben)
        ann.restart()
    assert _lost(ben) == 1
    assert ann.store.incarnations.present() == incarnation
    assert len(ann.fall_backs) == 1


@pytest.mark.slow
def test_a_disk_may_lose_the_same_commits_again_and_the_one_that_noted_it(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, ben, group_id = pair
    earlier = {name: content for name, content in ann.files().items() if not name.endswith("-high-water")}
    ann.blob(group_id, b"accepted")
    for _ in range(3):
        said = _mark(ann).read_bytes()
        ann.stop()
        ann.put_files({**earlier, _mark(ann).name: said}, in_place=True)
        ann.restart()
        _report_losses(ann, ben)
    assert len(ann.fall_backs) == 3
    assert _lost(ben) >= 1
    ann.blob(group_id, b"later")
    carry(ann, ben)
    assert ben.inbox() == [b"later"]
    assert ann.store.outbox.totals()[0] == 0


def test_row_ids_may_change(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    """Of two records for one recipient the further one counts."""
    ann, ben, group_id = pair
    size = _mark(ann).stat().st_size
    ann.stop()
    with closing(sqlite3.connect(ann.path)) as database, database:
        database.execute("UPDATE peer SET id = id + 7")
    ann.restart()
    ann.blob(group_id, b"kept")
    assert _mark(ann).stat().st_size > size
    _lose_commits(ann, lambda: ann.blob(group_id, b"lost"))
    _report_losses(ann, ben)
    assert (ben.inbox(), _lost(ben)) == ([b"kept"], 1)


def test_a_message_received_before_a_lost_commit_counts_as_received(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, ben, group_id = pair

    def deliver_two_of_three() -> None:
        ann.blob(group_id, b"came")
        ann.blob(group_id, b"came, too")
        carry(ann, ben)
        ann.blob(group_id, b"did not")

    _lose_commits(ann, deliver_two_of_three)
    _report_losses(ann, ben)
    ann.blob(group_id, b"later")
    carry(ann, ben)
    assert ben.inbox() == [b"came", b"came, too", b"later"]
    assert _lost(ben) == 1


def test_lost_batches_are_reported_with_their_numbers(tmp_path: Path) -> None:
    ann, collector = DurableDevice("ann", tmp_path), DurableDevice("collector", tmp_path, collects=True)
    group_id = found(ann, collector)
    carry(ann, collector)
    ann.batch(group_id, b"kept")

    def accept() -> None:
        ann.batch(group_id, b"second")
        ann.batch(group_id, b"third")

    _lose_commits(ann, accept)
    ann.maintain()
    [loss] = _waiting_losses(ann, collector)
    assert loss.numbers == ((2, 3),)
    with ann.store.transaction():
        assert ann.store.outbox.allocate_number() == 4
    ann.stop()
    collector.stop()


@pytest.mark.slow
def test_a_recipient_known_only_to_a_lost_commit_is_notified_when_the_group_returns(tmp_path: Path) -> None:
    """Ann's database knows neither the message nor the recipient; the group's other members do."""
    ann, ben, cid = (DurableDevice(name, tmp_path) for name in ("ann", "ben", "cid"))
    group_id = found(ann, ben)
    carry(ann, ben)

    def let_somebody_in() -> None:
        admit(ann, cid, group_id, ben)
        carry(ann, ben, cid)
        ann.blob(group_id, b"accepted")

    _lose_commits(ann, let_somebody_in)
    assert cid.key in ann.store.losses.recipients()
    for _ in range(12):
        if not _lost(cid):
            _report_losses(ann, ben, cid)
    assert (_lost(ben), _lost(cid)) == (1, 1)
    for device in (ann, ben, cid):
        device.stop()


def test_an_incarnation_that_was_begun_in_a_lost_commit_keeps_its_numbers(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, ben, group_id = pair

    def live_on() -> None:
        ann.blob(group_id, b"lost in the first incarnation")
        with ann.store.transaction():
            ann.store.incarnations.renew(Incarnation(b"the next"))
        ann.blob(group_id, b"came in the second")
        ann.maintain()
        for outgoing in ann.sends():
            ben.receive(outgoing.envelope)
        ann.blob(group_id, b"lost in the second")

    _lose_commits(ann, live_on)
    came = ben.inbox()
    _report_losses(ann, ben)
    assert _lost(ben) == 3 - len(came)
    ann.blob(group_id, b"later")
    carry(ann, ben)
    assert ben.inbox() == [*came, b"later"]
    assert ann.store.outbox.totals()[0] == 0


def test_a_lost_commit_that_queued_nothing_shows_as_well(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, ben, group_id = pair
    ann.blob(group_id, b"to an application")
    before = ben.store.incarnations.present()

    def take_it() -> None:
        for outgoing in ann.sends():
            ben.receive(outgoing.envelope)

    _lose_commits(ben, take_it)
    assert ben.store.incarnations.present() != before
    assert ben.store.counters.values()["unreadable_commits"] >= 1
    ann.wait(600)
    carry(ann, ben)
    assert ben.inbox() == [b"to an application"], "its sender still has it, and it comes again"


@pytest.mark.parametrize("kept", range(6))
def test_any_number_of_lost_commits_shows(pair: tuple[DurableDevice, DurableDevice, GroupId], kept: int) -> None:
    ann, ben, group_id = pair
    for number in range(kept):
        ann.blob(group_id, b"kept %d" % number)

    def accept() -> None:
        for number in range(6 - kept):
            ann.blob(group_id, b"lost %d" % number)

    _lose_commits(ann, accept)
    _report_losses(ann, ben)
    assert ben.inbox() == [b"kept %d" % number for number in range(kept)]
    assert _lost(ben) == 6 - kept


def test_the_whole_log_may_be_gone(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, ben, group_id = pair
    ann.restart()  # whoever closes last folds the log
    ann.blob(group_id, b"accepted")
    files = ann.files()
    del files[_log(ann).name]
    ann.stop()
    ann.put_files(files, in_place=True)
    ann.restart()
    _report_losses(ann, ben)
    assert _lost(ben) == 1


def test_losses_of_a_database_restored_alone_are_reported(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, ben, group_id = pair
    ann.stop()
    backup = ann.path.read_bytes()
    ann.restart()
    ann.blob(group_id, b"came")
    carry(ann, ben)
    ann.blob(group_id, b"did not")
    ann.stop()
    ann.path.write_bytes(backup)
    ann.restart()
    _report_losses(ann, ben)
    assert (ben.inbox(), _lost(ben)) == ([b"came"], 1)


# -- what the file may say --------------------------------------------------------------------------------------------


def _mark(device: DurableDevice) -> Path:
    return device.path.with_name(f"{device.path.name}-high-water")


def _goes_on(device: DurableDevice, change: Callable[[Path], object]) -> bool:
    """Change the file while nobody has it open; say whether the state goes on as if nothing had been."""
    before = device.store.incarnations.present()
    device.stop()
    change(_mark(device))
    device.restart()
    return device.store.incarnations.present() == before and not device.fall_backs


def test_a_start_without_a_loss_changes_nothing(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, _, group_id = pair
    ann.blob(group_id, b"accepted")
    assert _goes_on(ann, lambda _: None)


@pytest.mark.parametrize(
    "content",
    [b"", bytes(_RECORD_BYTES), b"\xff" * 20 * _RECORD_BYTES, random.Random(1).randbytes(10_000)],
    ids=["empty", "zeros", "ones", "noise"],
)
def test_a_damaged_file_says_nothing_and_is_replaced(
    pair: tuple[DurableDevice, DurableDevice, GroupId], content: bytes
) -> None:
    ann, ben, group_id = pair
    ann.blob(group_id, b"kept")
    assert _goes_on(ann, lambda file: file.write_bytes(content))
    _lose_commits(ann, lambda: ann.blob(group_id, b"lost"))
    _report_losses(ann, ben)
    assert (ben.inbox(), _lost(ben)) == ([b"kept"], 1)


@pytest.mark.slow
def test_every_byte_of_it_may_be_wrong(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, _, group_id = pair
    ann.blob(group_id, b"accepted")
    content = _mark(ann).read_bytes()
    for place in range(0, len(content), 7):
        wrong = bytes([*content[:place], content[place] ^ 0x40, *content[place + 1 :]])
        assert _goes_on(ann, lambda file, wrong=wrong: file.write_bytes(wrong)), place


def test_a_file_that_is_missing_or_cannot_be_one_stops_nobody(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, ben, group_id = pair
    assert _goes_on(ann, lambda file: file.unlink())

    def a_folder(file: Path) -> None:
        file.unlink()
        file.mkdir()

    assert _goes_on(ann, a_folder)
    ann.blob(group_id, b"accepted")
    carry(ann, ben)
    assert ben.inbox() == [b"accepted"]
    assert _goes_on(ann, lambda file: file.rmdir())


def test_another_device_s_file_says_nothing(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, ben, group_id = pair
    for number in range(20):
        ben.blob(group_id, b"%d" % number)
    ben.stop()
    assert _goes_on(ann, lambda file: shutil.copyfile(_mark(ben), file))


def test_an_older_file_says_nothing(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, ben, group_id = pair
    older = _mark(ann).read_bytes()
    ann.blob(group_id, b"accepted")
    assert _goes_on(ann, lambda file: file.write_bytes(older))
    _lose_commits(ann, lambda: ann.blob(group_id, b"lost"))
    _report_losses(ann, ben)
    assert (ben.inbox(), _lost(ben)) == ([b"accepted"], 1)


@pytest.mark.parametrize("ahead", [2**28 + 10**6, 2**39, 2**63 - 1, 2**64 - 1])
def test_a_file_that_says_too_much_is_not_believed(
    pair: tuple[DurableDevice, DurableDevice, GroupId], ahead: int
) -> None:
    """Whoever can write it could write the database as well; it may be wrong by chance, or by a defect."""
    ann, _, _ = pair
    lineage = bytes(ann.store.connection.execute("SELECT lineage FROM device").fetchone()[0])
    for place in range(3):
        numbers = [100, 100, 100]
        numbers[place] = ahead
        content = struct.pack(">QQQ32x", *numbers)
        checksum = hashlib.blake2b(bytes(8) + content, digest_size=8, key=lineage).digest()
        assert _goes_on(ann, lambda file, record=content + checksum: file.write_bytes(record)), place


def test_claims_about_queues_are_bounded_by_what_was_sent(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, _, _ = pair
    lineage = bytes(ann.store.connection.execute("SELECT lineage FROM device").fetchone()[0])
    next_seq = ann.store.connection.execute("SELECT next_seq FROM device").fetchone()[0]

    def say(file: Path) -> None:
        content = bytearray(file.read_bytes())
        for number, (base, next_place) in enumerate([(0, next_seq + 1), (5, 5), (0, 2**40), (2**40, 2**40 + 1)], 1):
            record = struct.pack(">32s8sQQ", bytes([number]) * 32, b"incarnat", base, next_place)
            checksum = hashlib.blake2b(number.to_bytes(8) + record, digest_size=8, key=lineage).digest()
            content[number * _RECORD_BYTES : (number + 1) * _RECORD_BYTES] = record + checksum
        file.write_bytes(content)

    assert _goes_on(ann, say)
    assert ann.store.losses.recipients() == []


# -- several processes ------------------------------------------------------------------------------------------------


def test_a_rollback_records_nothing(pair: tuple[DurableDevice, DurableDevice, GroupId]) -> None:
    ann, _, group_id = pair

    def refused() -> None:
        ann.node.send_blob(group_id, b"refused", ann.now)

    ann.on_a_full_disk(refused)
    assert _goes_on(ann, lambda _: None)


def test_a_command_beside_the_agent_takes_nothing_back(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    """Whoever commits first may say so last."""
    ann, ben, group_id = pair

    command, _ = StateFile(ann.path).open(ann.identity, ann.outbox_bytes)

    def beside_each_other() -> None:
        with command.transaction():
            command.outbox.allocate(ben.key)
            command.after_commit(lambda: ann.blob(group_id, b"accepted"))  # before the command has the file say a word
        command.close()

    _lose_commits(ann, beside_each_other)
    [report] = ann.fall_backs
    assert "2 commits" in report.line()
    _report_losses(ann, ben)
    assert _lost(ben) == 2


def test_a_record_delayed_by_another_writer_is_written_later(
    pair: tuple[DurableDevice, DurableDevice, GroupId],
) -> None:
    ann, ben, group_id = pair

    def accept() -> None:
        with _mark(ann).open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            ann.blob(group_id, b"accepted")
        with ann.store.transaction():
            ann.store.counters.count("anything")

    _lose_commits(ann, accept)
    _report_losses(ann, ben)
    assert _lost(ben) == 1
