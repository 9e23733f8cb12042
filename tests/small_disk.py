"""A real file system of six mebibytes, in memory; and what a device does on one that is full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from covey.adapters.sqlite.reserved_space import ReservedSpace
from covey.adapters.sqlite.state_file import StateFile
from covey.core.ids import DeviceKey
from covey.core.link.records import MessageClass
from covey.core.wire.sequences import SequenceSet
from covey.errors import DiskFullError
from covey.limits.storage import RESERVED_BYTES
from tests.durable import DurableDevice, folder_for
from tests.fleet import found, identity

_SIZE = 6 * 1024 * 1024
_BEN = DeviceKey(b"b" * 32)


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write until there is no room at all."""
    with suppress(OSError), path.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4_096))


def live_on_a_full_disk(folder: Path) -> None:
    """Queue until the disk is full, free what is acknowledged, and go on when there is room."""
    with _mounted(folder):
        store, _ = StateFile(folder / "state.sqlite").open(lambda: identity("ann"), 100 * _SIZE)
        reserved = folder / "state.sqlite-ballast"

        def queue(kind: MessageClass = MessageClass.DATA) -> None:
            with store.transaction():
                seq, link_seq = store.outbox.allocate(_BEN)
                store.outbox.queue(_BEN, seq, link_seq, kind, bytes(3_000), 5)

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
        with _mounted(mounted):
            for name in ("ann", "ann-mark"):
                shutil.copy(whole / name, mounted)
            state, filler = StateFile(mounted / "ann"), mounted / "filler"
            state.note_damage()
            fill(filler)
            os.truncate(filler, filler.stat().st_size - room)
            try:
                store, [report] = state.open(lambda: ann.identity, 10**9)
            except DiskFullError:
                tried["refused"] += 1
                assert (mounted / "ann").read_bytes() == (whole / "ann").read_bytes()
                assert not list(mounted.glob("ann.*")), "nothing half made takes room"
            else:
                tried["saved"] += 1
                assert store.outbox.totals()[0] == report.saved["outbox"] == 200, room
                store.close()
    assert min(tried["refused"], tried["saved"]) > 1, tried


def anywhere(scene: Callable[[Path], None], folder: Path) -> None:
    """Play it as root, or as who may be root in a namespace of his own."""
    if os.geteuid() == 0:
        scene(folder)
        return
    code = f"import sys, pathlib, {__name__} as disk; disk.{scene.__name__}(pathlib.Path(sys.argv[1]))"
    subprocess.run(["unshare", "-rm", sys.executable, "-c", code, str(folder)], check=True)
