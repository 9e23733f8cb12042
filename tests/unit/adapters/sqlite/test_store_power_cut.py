"""The store under power cuts: hundreds of the states that a disk may be left in, each opened as at a start.

What was told to the outside before the cut is there: accepted messages, received sequences, freed messages stay freed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.high_water_file import HighWaterFile
from covey.adapters.sqlite.file.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq, Place
from covey.core.link.queued import MessageClass
from covey.core.wire.message import Message, MessageType
from covey.core.wire.sequences import SequenceSet
from covey.limits.units import MIB
from tests.examples import Share, shares
from tests.fleet import identity
from tests.powercut import HIGH_WATER, Recording, recorded

_ANN, _BEN = identity("ann"), DeviceKey(b"b" * 32)
_STATES = 600
_TURNS = 60


@dataclass(frozen=True, slots=True)
class Promise:
    """What the outside has been told after a commit."""

    accepted: int
    freed: int
    received: int
    delivered: int


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A device's life: messages accepted, acknowledged, received; large and small, with checkpoints in between."""
    chance = random.Random(1)
    path = tmp_path_factory.mktemp("life") / "state.sqlite"
    with recorded() as made:
        store = SqliteStore(
            path, Incarnation(b"incarnat"), StorageKey(bytes(32)), high_water=HighWaterFile(path.with_name(HIGH_WATER))
        )
        with store.transaction():
            store.high_water.begin()
        store.connection.execute("PRAGMA wal_autocheckpoint = 40")
        accepted = freed = received = 0
        for _ in range(_TURNS):
            with store.transaction():
                for _ in range(chance.randint(0, 5)):
                    seq, link_seq = store.outbox.allocate(_BEN)
                    content = b"%d " % link_seq + chance.randbytes(chance.choice((20, 300, 9_000)))
                    store.outbox.queue(_BEN, seq, link_seq, MessageClass.DATA, content, 5)
                    accepted = link_seq
            made.mark(Promise(accepted, freed, received, received))
            with store.transaction():
                received += 1
                body = b"%d" % received
                store.inbox.deliver(
                    Message(
                        MessageType.BLOB,
                        _BEN,
                        _BEN,
                        GroupId(b"g" * 32),
                        Incarnation(b"theirown"),
                        1,
                        LinkSeq(1),
                        1,
                        body,
                        body,
                    ),
                    5,
                )
                store.received.set(_BEN, Incarnation(b"theirown"), SequenceSet(received))
                if chance.random() < 0.5:
                    freed = chance.randint(freed, accepted)
                    store.outbox.free(_BEN, SequenceSet(freed))
            made.mark(Promise(accepted, freed, received, received))
        store.close()
    return made


@pytest.mark.parametrize("share", shares(6, plain=1))
def test_a_power_cut_at_any_write_loses_nothing(recording: Recording, tmp_path: Path, share: Share) -> None:
    assert len(recording.events) > 300
    for number in share.of(range(_STATES)):
        chance = random.Random(number)
        cut = chance.randint(1, len(recording.events))
        files = recording.states_at(cut, chance)
        promised = [promise for place, promise in recording.marks if place <= cut]
        coming = [promise for place, promise in recording.marks if place > cut]
        _check(
            files, promised[-1] if promised else Promise(0, 0, 0, 0), coming[0] if coming else promised[-1], tmp_path
        )


def _check(files: dict[str, bytes], promised: object, coming: object, folder: Path) -> None:
    assert isinstance(promised, Promise)
    assert isinstance(coming, Promise)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    store, reports = StateFile(folder / "state.sqlite").open(_ANN, 100 * MIB)
    try:
        assert not reports, "nor does it seem to have lost anything"
        waiting = [link_seq for link_seq, _ in store.outbox.queued(_BEN, Place(0), 10_000, 100 * MIB)]
        freed, last = (waiting[0] - 1, waiting[-1]) if waiting else (coming.freed, coming.freed)
        assert promised.accepted <= max(last, freed) <= coming.accepted
        assert freed in {promised.freed, coming.freed} or (promised.freed <= freed <= coming.freed)
        assert waiting == list(range(freed + 1, last + 1))
        come = store.received.of(_BEN, Incarnation(b"theirown")).upto
        assert promised.received <= come <= coming.received
        assert [row[-1] for row in store.inbox.arrived(10_000)] == [b"%d" % number for number in range(1, come + 1)]
        if promised.accepted or coming.accepted:
            with store.transaction():
                assert store.outbox.allocate(_BEN)[1] == max(last, freed) + 1
    finally:
        store.close()
