"""`salvage`: damage a real database anywhere. The agent starts, and what could be read comes once."""

from __future__ import annotations

import random
import sqlite3
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.sqlite.file.salvage_report import SalvageReport
from covey.adapters.sqlite.file.state_file import StateFile
from covey.core.ids import GroupId
from covey.errors import DamagedStateError
from tests.durable import DurableDevice
from tests.examples import parameters
from tests.fleet import carry, found
from tests.small_disk import anywhere, save_on_a_nearly_full_disk

_PAGE = 1024
_CASES = 160
_PARTS = 2


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, dict[str, bytes]]]:
    """Two devices in a group, with something waiting in both directions, something in flight and something read."""
    folder = tmp_path_factory.mktemp("states")
    ann, ben = DurableDevice("ann", folder), DurableDevice("ben", folder)
    group_id = found(ben, ann)
    for number in range(20):
        ann.blob(group_id, b"old %d" % number)
        ben.blob(group_id, b"to ann %d" % number)
    carry(ann, ben)
    ann.store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # what follows stands in the log
    for number in range(60):
        ann.blob(group_id, b"new %d " % number + random.Random(number).randbytes(300))
    for outgoing in ann.sends()[:5]:
        ben.receive(outgoing.envelope)  # acknowledgements are on their way
    files = {"hot": ann.files(), "ben": ben.files()}
    ann.stop()
    ben.stop()
    files["ann"] = ann.files()  # folded into the one file
    return group_id, files


def _expected() -> set[bytes]:
    return {b"new %d " % number + random.Random(number).randbytes(300) for number in range(60)} | {
        b"old %d" % number for number in range(20)
    }


def _flip(content: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 3, 50))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _zero_pages(content: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 2, 5))):
        start = chance.randrange(len(content)) // _PAGE * _PAGE
        content[start : start + _PAGE] = bytes(len(content[start : start + _PAGE]))


def _scribble(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    content[start : start + 2_000] = chance.randbytes(len(content[start : start + 2_000]))


def _truncate(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def _nothing_left(content: bytearray, chance: random.Random) -> None:
    content[:] = chance.choice((b"", b"not a database" * 1_000, bytes(8_192)))


_DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip,
    _flip,
    _zero_pages,
    _scribble,
    _truncate,
    _nothing_left,
)


@pytest.mark.parametrize("part", parameters(range(_PARTS), quick=0, plain=1))
def test_damage_anywhere(states: tuple[bytes, dict[str, dict[str, bytes]]], tmp_path: Path, part: int) -> None:
    group_id, files = states
    saved = Counter[str]()
    for case in range(part, _CASES, _PARTS):
        chance = random.Random(case)
        folder = tmp_path / str(case)
        folder.mkdir()
        hot = chance.random() < 0.4
        ann_files = dict(files["hot" if hot else "ann"])
        victim = "ann-wal" if hot else "ann"
        content = bytearray(ann_files[victim])
        chance.choice(_DAMAGE)(content, chance)
        ann_files[victim] = bytes(content)
        for name, raw in {**ann_files, **files["ben"]}.items():
            (folder / name).write_bytes(raw)
        saved.update(_live_on(folder, GroupId(group_id), case))
    assert saved["salvaged"] > _CASES / _PARTS / 3
    assert saved["whole"] + saved["some"] > saved["nothing"]


def _live_on(folder: Path, group_id: GroupId, case: int) -> list[str]:
    """Start, deliver what there is, and check that nothing false, nothing twice and nothing reused appears."""
    ben = DurableDevice("ben", folder)
    ann = DurableDevice.after_damage("ann", folder)
    waiting = ann.store.outbox.totals()[0]
    assert [each.group_id for each in ann.node.groups.joined()] == [group_id], "the second copy has it, if need be"
    for content in (b"after", b"wards"):
        ann.blob(group_id, content)
    for _ in range(8):
        carry(ann, ben)
        ann.wait(700)
        with ann.store.transaction():
            ann.node.maintain(ann.now)
    inbox = Counter(ben.inbox())
    assert set(inbox) <= _expected() | {b"after", b"wards"}, case
    assert max(inbox.values()) == 1, case
    assert inbox[b"after"] == inbox[b"wards"] == 1, case
    assert ann.store.outbox.totals()[0] == 0, case
    assert set(ann.inbox()) <= {b"to ann %d" % number for number in range(20)}, case
    reported = len(inbox) - 2
    if not ann.reports:  # commits of the log may be lost; a salvage does not always know of what
        assert reported + ben.store.counters.values().get("lost_messages", 0) == 80, case
    ann.stop()
    ben.stop()
    kept = list(folder.glob("ann.damaged-*"))
    assert bool(kept) == any(report.aside for report in ann.reports)
    state = "whole" if reported == 80 else "nothing" if reported <= 25 else "some"
    return [state, *(["salvaged"] if ann.reports else []), *(["waited"] if waiting else [])]


@pytest.mark.slow
def test_a_known_loss_is_reported_and_signed(states: tuple[bytes, dict[str, dict[str, bytes]]], tmp_path: Path) -> None:
    """One leaf of the outbox is zeroed: what stood in it is counted, and its recipient hears of it."""
    _, files = states
    for name, raw in {**files["ann"], **files["ben"]}.items():
        (tmp_path / name).write_bytes(raw)
    with closing(sqlite3.connect(tmp_path / "ann")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = [row[0] for row in database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'outbox'")]
    content = bytearray((tmp_path / "ann").read_bytes())
    needle = content.index(b"new 30 ")
    page = needle // _PAGE * _PAGE
    assert page // _PAGE + 1 not in pages
    content[page : page + _PAGE] = bytes(_PAGE)
    (tmp_path / "ann").write_bytes(content)
    ann, ben = DurableDevice("ann", tmp_path), DurableDevice("ben", tmp_path)
    [report] = ann.reports
    assert report.lost["outbox"]
    lost = report.lost["outbox"]
    with ann.store.transaction():
        ann.node.maintain(ann.now)
    for _ in range(4):
        carry(ann, ben)
        ann.wait(400)
    inbox = set(ben.inbox())
    assert len(_expected() - inbox) == lost
    assert ben.store.counters.values()["lost_messages"] == lost
    assert ann.store.losses.recipients() == []
    assert ann.store.device.salvages()[0][1]["lost"]["outbox"] == lost
    assert (tmp_path / report.aside).exists()
    ann.stop()
    ben.stop()


def test_a_database_that_is_in_use_is_not_saved_under_its_users(tmp_path: Path) -> None:
    ann = DurableDevice("ann", tmp_path)
    other = DurableDevice("ann", tmp_path)
    assert not other.reports
    other.stop()
    ann.stop()


def test_a_text_that_is_no_utf_8_any_more_costs_its_row_alone(tmp_path: Path) -> None:
    ann = DurableDevice("ann", tmp_path)
    with ann.store.transaction():
        for name in ("count-a", "count-b", "count-c"):
            ann.store.counters.count(name)
    ann.stop()
    content = ann.path.read_bytes()
    assert content.count(b"count-b") == 1
    ann.path.write_bytes(content.replace(b"count-b", b"count-\xff"))
    state = StateFile(ann.path)
    state.note_damage()
    store, [report] = state.open(ann.identity, 10**9)
    assert store.counters.values() == {"count-a": 1, "count-c": 1, "salvages": 1}
    assert isinstance(report, SalvageReport)
    assert (report.saved["counter"], report.lost["counter"]) == (2, 1)
    store.close()


def test_a_salvage_does_not_extend_expiry(tmp_path: Path) -> None:
    ann, ben = DurableDevice("ann", tmp_path), DurableDevice("ben", tmp_path)
    group_id = found(ben, ann)
    with ann.store.transaction():
        ann.store.outbox.grow_older(10**12)
        ann.node.send_blob(group_id, b"for a while", ann.now, lifetime_us=10**6)
    ann.stop()
    ben.stop()
    state = StateFile(ann.path)
    state.note_damage()
    store, _ = state.open(ann.identity, 10**9)
    with store.transaction():
        store.outbox.grow_older(10**9)
        assert [recipient for recipient, _ in store.outbox.expire()] == [ben.key]
    store.close()


@pytest.mark.slow
def test_saving_a_long_queue_tells_that_it_moves(tmp_path: Path) -> None:
    ann, ben = DurableDevice("ann", tmp_path), DurableDevice("ben", tmp_path)
    group_id = found(ben, ann)
    with ann.store.transaction():
        for number in range(1_000):
            ann.node.send_blob(group_id, b"%d" % number, ann.now)
    ann.stop()
    ben.stop()
    state, moves = StateFile(ann.path), Counter[str]()
    state.note_damage()
    store, [report] = state.open(ann.identity, 10**9, lambda: moves.update(["moved"]))
    assert isinstance(report, SalvageReport)
    assert report.saved["outbox"] == store.outbox.totals()[0] >= 1_000
    assert moves["moved"] > 1
    store.close()


@pytest.mark.processes
def test_a_disk_without_room_for_it_costs_nothing(tmp_path: Path) -> None:
    anywhere(save_on_a_nearly_full_disk, tmp_path)


@pytest.mark.slow
def test_a_long_table_needs_no_memory_for_each_row(tmp_path: Path) -> None:
    rows = 20_000
    ann = DurableDevice("ann", tmp_path)
    with ann.store.transaction():
        numbered = ((f"counter-{number:06}",) for number in range(rows))
        ann.store.connection.executemany("INSERT INTO counter VALUES (?, 1)", numbered)
    ann.stop()
    state = StateFile(ann.path)
    state.note_damage()
    tracemalloc.start()
    try:
        store, [report] = state.open(ann.identity, 10**9)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(report, SalvageReport)
    assert report.saved["counter"] == rows
    assert peak < 50 * rows, "bytes; a key alone takes five times that"
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("place", [18, 19, 44, 60])
def test_a_damaged_header_does_not_keep_the_agent_from_starting(tmp_path: Path, place: int) -> None:
    ann, ben = DurableDevice("ann", tmp_path), DurableDevice("ben", tmp_path)
    group_id = found(ben, ann)
    ann.stop()
    content = bytearray((tmp_path / "ann").read_bytes())
    content[place] ^= 0x80
    (tmp_path / "ann").write_bytes(content)
    ann = DurableDevice.after_damage("ann", tmp_path)
    assert [each.group_id for each in ann.node.groups.joined()] == [group_id]
    ann.blob(group_id, b"after")
    carry(ann, ben)
    assert ben.inbox() == [b"after"]
    ann.stop()
    ben.stop()


def test_a_damaged_group_secret_comes_back_from_the_copy(tmp_path: Path) -> None:
    ann, ben = DurableDevice("ann", tmp_path), DurableDevice("ben", tmp_path)
    group_id = GroupId(found(ben, ann))
    epoch_id = ann.node.groups.group(group_id).epoch_id
    secret = ann.store.groups.secret(group_id, epoch_id)
    ann.store.database.run("UPDATE epoch_secret SET secret = zeroblob(length(secret))")
    with pytest.raises(DamagedStateError, match="a secret in the state database is damaged"):
        ann.store.groups.secret(group_id, epoch_id)
    StateFile(ann.path).note_damage()
    ann.restart()
    assert [each.lost["epoch_secret"] for each in ann.reports] == [1]
    assert ann.store.groups.secret(group_id, epoch_id) == secret
    ann.stop()
    ben.stop()
