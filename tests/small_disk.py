"""A real file system of six mebibytes, in memory; and what a device does on one that is full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from covey.adapters.sqlite.file.reserved_space import ReservedSpace
from covey.adapters.sqlite.file.salvage_report import SalvageReport
from covey.adapters.sqlite.file.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, GroupId, LinkSeq
from covey.core.link.queued import MessageClass
from covey.core.wire.message import MessageType, write_message
from covey.core.wire.sequences import SequenceSet
from covey.errors import DiskFullError
from covey.limits.storage import RESERVED_BYTES
from tests.durable import DurableDevice, folder_for
from tests.fleet import found, identity

_SIZE = 6 * 1024 * 1024
_BEN = DeviceKey(b"b" * 32)


@contextmanager
def mounted_disk(folder: Path, size: int = _SIZE) -> Iterator[None]:
    """Have a folder be a disk of so many bytes, for who is root."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write until there is no room at all."""
    with suppress(OSError), path.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4_096))


def _queue(store: SqliteStore, kind: MessageClass = MessageClass.TELEMETRY) -> LinkSeq:
    """Queue a message of some 3,000 bytes; return its number."""
    ann = identity("ann")
    with store.transaction():
        seq, link_seq = store.outbox.allocate(_BEN)
        incarnation = store.incarnations.present()
        message = write_message(
            ann, MessageType.BLOB, _BEN, GroupId(bytes(32)), incarnation, seq, link_seq, 5, bytes(2_800)
        )
        store.outbox.queue(_BEN, seq, link_seq, kind, message, 5)
    return link_seq


def live_on_a_full_disk(folder: Path) -> None:
    """Queue until the disk is full, free what is acknowledged, and go on when there is room."""
    with mounted_disk(folder):
        store, _ = StateFile(folder / "state.sqlite").open(identity("ann"), 100 * _SIZE)
        reserved = folder / "state.sqlite-reserved"

        def queue(kind: MessageClass = MessageClass.DATA) -> None:
            _queue(store, kind)

        with store.transaction():
            assert reserved.stat().st_size == RESERVED_BYTES
            assert reserved.stat().st_blocks * 512 >= RESERVED_BYTES
        for _ in range(40):
            queue()
        fill(folder / "filler")
        with suppress(DiskFullError):
            while True:
                queue()
        assert not reserved.exists()
        waiting = store.outbox.totals()[0]
        for _ in range(3):  # refused at once, and nothing eats up the room that the reserved space gave
            with pytest.raises(DiskFullError):
                queue()
        for acknowledged in range(1, waiting + 1):
            with store.transaction():
                assert store.outbox.free(_BEN, SequenceSet(acknowledged)) == 1
        assert store.outbox.totals() == (0, 0)
        queue(MessageClass.CONTROL)
        (folder / "filler").unlink()
        store.database._reserved = ReservedSpace(reserved)  # as after ten seconds
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        queue()
        assert reserved.stat().st_size == RESERVED_BYTES
        store.close()


def start_after_a_kill_on_a_full_disk(folder: Path) -> None:
    """Kill a process whose disk is full, and open its state again: all of it is there, and may leave."""
    for killed, queued in enumerate((0, 1, 40, 400)):
        with mounted_disk(folder):
            work = f"disk.queue_and_be_killed(pathlib.Path(sys.argv[1]), {queued})"
            assert _in_a_process(work, folder) == -signal.SIGKILL
            state = StateFile(folder / "state.sqlite")
            if killed % 2:  # as after a power cut: nothing of the log's index is left, and its room is somebody else's
                state.beside("-shm").unlink()
                fill(folder / "more")
            store, reports = state.open(identity("ann"), 100 * _SIZE)
            assert not reports, "a full disk is no damage"
            assert store.outbox.totals()[0] == queued
            assert not state.beside("-reserved").exists()
            for acknowledged in range(1, queued + 1):
                with store.transaction():
                    assert store.outbox.free(_BEN, SequenceSet(acknowledged)) == 1
            store.close()
            (folder / "filler").unlink()
            store, _ = state.open(identity("ann"), 100 * _SIZE)
            with store.transaction():
                assert state.beside("-reserved").stat().st_size == RESERVED_BYTES
            store.close()


def queue_and_be_killed(folder: Path, count: int) -> None:
    """Queue, take the rest of the disk, and end without a word."""
    store, _ = StateFile(folder / "state.sqlite").open(identity("ann"), 100 * _SIZE)
    with store.transaction():
        pass  # which makes the reserved space
    for _ in range(count):
        _queue(store)
    fill(folder / "filler")
    os.kill(os.getpid(), signal.SIGKILL)


def fill_the_disk_by_queueing(folder: Path) -> None:
    """Queue until the outbox itself has filled the disk, have it emptied, and queue as much again, and again."""
    with mounted_disk(folder):
        state = StateFile(folder / "state.sqlite")
        most: list[int] = []
        for _ in range(4):
            store, _ = state.open(identity("ann"), 100 * _SIZE)
            with suppress(DiskFullError):
                while True:
                    last = _queue(store)
            most.append(store.outbox.totals()[0])
            with store.transaction():
                assert store.outbox.free(_BEN, SequenceSet(last)) == most[-1]
            store.close()
        assert min(most) > most[0] * 45 // 100, most


def save_on_a_nearly_full_disk(folder: Path) -> None:
    """Save a damaged state with more and more room for it: all of it is saved, or nothing has happened."""
    whole, mounted = folder_for(folder, "whole"), folder_for(folder, "mounted")
    ann, ben = DurableDevice("ann", whole), DurableDevice("ben", whole)
    group_id = found(ben, ann)
    with ann.store.transaction():
        for number in range(200):
            ann.node.send_blob(group_id, number.to_bytes(2) * 2_000, ann.now)
    ann.stop()
    ben.stop()
    tried = Counter[str]()
    for room in range(100_000, 3_000_000, 300_000):
        with mounted_disk(mounted):
            for file in (whole / "ann", *whole.glob("ann-mark*")):
                shutil.copy(file, mounted)
            state, filler = StateFile(mounted / "ann"), mounted / "filler"
            state.note_damage()
            fill(filler)
            os.truncate(filler, filler.stat().st_size - room)
            try:
                store, [report] = state.open(ann.identity, 10**9)
            except DiskFullError:
                tried["refused"] += 1
                assert (mounted / "ann").read_bytes() == (whole / "ann").read_bytes()
                assert not list(mounted.glob("ann.*")), "nothing half made takes room"
            else:
                tried["saved"] += 1
                assert isinstance(report, SalvageReport)
                assert store.outbox.totals()[0] == report.saved["outbox"] == 200, room
                store.close()
    assert min(tried["refused"], tried["saved"]) > 1, tried


def _in_a_process(work: str, folder: Path) -> int:
    code = f"import sys, pathlib, tests.small_disk as disk; {work}"
    return subprocess.run([sys.executable, "-c", code, str(folder)], check=False).returncode


def anywhere(scene: Callable[[Path], None], folder: Path) -> None:
    """Play it as root, or as who may be root in a namespace of his own."""
    if os.geteuid() == 0:
        scene(folder)
        return
    code = f"import sys, pathlib, {scene.__module__} as disk; disk.{scene.__name__}(pathlib.Path(sys.argv[1]))"
    subprocess.run(["unshare", "-rm", sys.executable, "-c", code, str(folder)], check=True)
