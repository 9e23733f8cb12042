"""A mailbox with 1,000,000 envelopes: what keeping them costs, its memory, and how long an answer to a PULL takes.

The peer of keeping is what no store can do without: the same envelopes, inserted by their key into a bare table, with
as many in a commit. An answer is measured with all that a mailbox does for it: the look-up, the message, its signature
and its seal.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil

from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import VERSION, Hello, Pull, PullResponse, Push
from covey.limits.mailbox import PULL_BLOBS
from tests.mailbox_fleet import MailboxFleet

_BLOBS = 1_000_000
_INBOX = 10_000
_COMMIT = 500
_PULLS = 200
_ENVELOPE_BYTES = 400
_MAXIMUM_BYTES = 2**40


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = MailboxFleet(Path(folder))
        process = psutil.Process()
        before = process.memory_info().rss
        began = time.process_time()
        for inbox, sender, first in _parts():
            _put(fleet, inbox, sender, first, min(_COMMIT, _BLOBS - first))
        kept_s = time.process_time() - began
        grown = process.memory_info().rss - before
        bare_s = _bare(Path(folder) / "bare")
        size = fleet.post.path.stat().st_size / _BLOBS
        print(f"{_BLOBS:,} envelopes of {_ENVELOPE_BYTES} bytes in {_BLOBS // _INBOX} inboxes, {_COMMIT} to a commit")
        print(
            f"  kept: {_BLOBS / kept_s:,.0f} a second of the processor, {kept_s / bare_s:.2f} times a bare table's time"
        )
        print(f"  disk: {size:.0f} bytes each")
        print(f"  memory: + {grown / 2**20:.1f} MiB, {process.memory_info().rss / 2**20:.1f} MiB with this program")
        times = sorted(_pulls(fleet))
        print(
            f"  a PULL of {PULL_BLOBS}: {times[len(times) // 2] * 1e3:.1f} ms, "
            f"{times[len(times) * 99 // 100] * 1e3:.1f} ms in the worst of 100"
        )


def _parts() -> Iterator[tuple[DeviceKey, DeviceKey, int]]:
    """Yield the (inbox, sender, first number) of each commit: two senders fill an inbox between them."""
    for first in range(0, _BLOBS, _COMMIT):
        inbox, part = divmod(first, _INBOX)
        yield _key(b"inbox", inbox), _key(b"sender", 2 * part // _INBOX), first


def _key(kind: bytes, number: int) -> DeviceKey:
    return DeviceKey(hashlib.blake2b(kind + number.to_bytes(4), digest_size=32).digest())


def _payload(number: int) -> bytes:
    return random.Random(number).randbytes(_ENVELOPE_BYTES)


def _put(fleet: MailboxFleet, inbox: DeviceKey, sender: DeviceKey, first: int, count: int) -> None:
    store = fleet.post.store
    with store.transaction():
        for number in range(first, first + count):
            push = Push(number.to_bytes(16), _payload(number), 0, inbox)
            kept = store.mailbox.put(sender, push, 10**12, 0, _MAXIMUM_BYTES, senders=2)
            assert getattr(kept, "is_new", False), kept


def _bare(path: Path) -> float:
    with closing(sqlite3.connect(path, isolation_level=None)) as peer:
        peer.execute("PRAGMA journal_mode = WAL")
        peer.execute("PRAGMA synchronous = FULL")
        peer.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
        began = time.process_time()
        for first in range(0, _BLOBS, _COMMIT):
            peer.execute("BEGIN IMMEDIATE")
            rows = ((number, _payload(number)) for number in range(first, first + _COMMIT))
            peer.executemany("INSERT INTO kept VALUES (?, ?)", rows)
            peer.execute("COMMIT")
        return time.process_time() - began


def _pulls(fleet: MailboxFleet) -> Iterator[float]:
    """Yield how long each answer takes, with the member's inbox as full as it may be."""
    for sender in range(2):
        for first in range(0, _INBOX // 2, _COMMIT):
            _put(fleet, fleet.ben.key, _key(b"sender", sender), sender * _INBOX + first, _COMMIT)
    fleet.say(fleet.ben, fleet.post, Hello(VERSION, "ben", 0))
    fleet.answers(fleet.post)
    chance = random.Random(7)
    for _ in range(_PULLS):
        fleet.say(fleet.ben, fleet.post, Pull(chance.randrange(_INBOX - PULL_BLOBS), 0))
        began = time.process_time()
        said = fleet.post.sends()
        taken = time.process_time() - began
        [answer] = [found for each in said if isinstance(found := fleet.opened(each), PullResponse)]
        assert len(answer.blobs) == PULL_BLOBS
        yield taken
