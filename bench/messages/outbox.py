"""What the outbox costs a disk, and what a long one costs a start: bytes written for a message's life; a million rows.

A message's life is: queued (200 bytes of content, signed), sent, acknowledged, forgotten. Queued in commits of so many,
freed by acknowledgements of so many. Bytes are the kernel's own count of what this process sent to the disk
(`write_bytes` of /proc/self/io), where the folder lies on one.
"""

from __future__ import annotations

import os
import resource
import secrets
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey, Incarnation, Place
from covey.core.link.queued import MessageClass
from covey.core.wire.sequences import SequenceSet
from covey.limits.units import KIB, MIB

_MESSAGES = 20_000
_LONG = 1_000_000
_BYTES = 420
"""A signed message with 200 bytes of content."""

_RECIPIENT = DeviceKey(bytes(32))
_BOUND = 10_000 * MIB


def main() -> None:
    """Print the numbers."""
    for grouped, freed in ((20, 100), (20, 20), (1, 20)):
        written, rate = _run(grouped, freed)
        how = f"{grouped:>2} a commit, freed {freed:>3} at once"
        print(f"bytes written for each message's life, {how} {written:>10,.0f}")
        print(f"  messages/s, durable, from queued to forgotten {rate:>24,.0f}")
    with TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder) / "state.sqlite"
        _fill(path)
        print(f"a queue of {_LONG:,} messages, {path.stat().st_size // MIB:,} MiB")
        for name in ("first", "second"):
            output = subprocess.run(
                [sys.executable, "-m", "bench.messages.outbox", str(path)], check=True, capture_output=True, text=True
            )
            seconds, kib = output.stdout.split()
            print(f"  {name} start until the first window is read, s {float(seconds):>24.3f}")
            print(f"    resident memory beyond an empty start, MiB {int(kib) / KIB:>26.1f}")


def _written() -> int:
    """Return the bytes that this process has sent to the disk."""
    os.sync()
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def _run(grouped: int, freed: int) -> tuple[float, float]:
    with TemporaryDirectory(dir="/var/tmp") as folder:  # on a disk: /tmp may be memory
        store = SqliteStore(
            Path(folder) / "state.sqlite", Incarnation(secrets.token_bytes(8)), StorageKey(bytes(32)), _BOUND
        )
        content = secrets.token_bytes(_BYTES)
        count = _MESSAGES if grouped > 1 else _MESSAGES // 10
        before, started = _written(), time.perf_counter()
        for first in range(0, count, freed):
            for _ in range(freed // grouped):
                with store.transaction():
                    for _ in range(grouped):
                        _queue(store, content)
            with store.transaction():
                store.outbox.free(_RECIPIENT, SequenceSet(first + freed))
        seconds = time.perf_counter() - started
        store.close()
        return (_written() - before) / count, count / seconds


def _queue(store: SqliteStore, content: bytes) -> None:
    seq, link_seq = store.outbox.allocate(_RECIPIENT)
    store.outbox.queue(_RECIPIENT, seq, link_seq, MessageClass.TELEMETRY, content, 1)


def _fill(path: Path) -> None:
    store = SqliteStore(path, Incarnation(secrets.token_bytes(8)), StorageKey(bytes(32)), _BOUND)
    store.connection.execute("PRAGMA synchronous = OFF")
    content = secrets.token_bytes(_BYTES)
    for _ in range(_LONG // 10_000):
        with store.transaction():
            for _ in range(10_000):
                _queue(store, content)
    store.close()


def start(path: Path) -> None:
    """Open a state as an agent does and read what it would send first; print seconds and KiB."""
    identity = Identity.from_seeds(bytes(32), bytes(32))
    small = path.with_name("empty.sqlite")
    StateFile(small).open(identity, _BOUND)[0].close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    store, _ = StateFile(path).open(identity, _BOUND)
    store.outbox.totals(), store.outbox.queues(), store.outbox.bytes_by_class()
    for recipient in store.outbox.recipients():
        store.outbox.queued(recipient, Place(0), 1_024, 4 * MIB)
    print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    store.close()


if __name__ == "__main__":
    start(Path(sys.argv[1]))
