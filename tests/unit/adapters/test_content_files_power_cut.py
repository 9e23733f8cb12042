"""A file on its way under power cuts at any write: what is fetched twice is bounded, and no other file comes of it.

That is one chunk, where the disk takes one in the time that a link waits, or a network; else two groups.

The disk is one that remembers (`tests/powercut.py`): a cut keeps what was synchronised, and of what was written since
any part, down to its sectors. Each state is opened as at a start, and the fetch goes on from there to its end.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from covey.adapters.content_files import ContentFiles
from covey.core.content.messages import WantedFile
from covey.core.content.progress import FileProgress
from covey.core.crypto import blake3_hash
from covey.core.history.files import HASH_BYTES
from covey.core.ids import ContentHash, DeviceKey, GroupId
from covey.errors import DiskFullError
from covey.limits.content import CHUNK_BYTES, NEAR_SYNC_US
from tests.examples import parameters
from tests.fleet import Device
from tests.powercut import Recording, Sync, Write

_STATES = 300
_SEALED = random.Random(4).randbytes(5 * CHUNK_BYTES + 99)
_INDEX = b"".join(blake3_hash(_SEALED[at : at + CHUNK_BYTES]) for at in range(0, len(_SEALED), CHUNK_BYTES))
_HASH, _INDEX_HASH = ContentHash(blake3_hash(_SEALED)), ContentHash(blake3_hash(_INDEX))
_WANTED = WantedFile(_HASH, _INDEX_HASH, len(_SEALED), GroupId(bytes(32)), DeviceKey(bytes(32)))


class _System:
    """The module os as chunks are written by it, recorded; a write is cut into several, as a kernel may."""

    def __init__(self, recording: Recording, name: str, chance: random.Random) -> None:
        self._recording, self._name, self._chance = recording, name, chance

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, content: bytes, offset: int) -> int:
        """Write some of it."""
        some = content[: self._chance.choice((len(content), 4_096, 20_000))]
        self._recording.events.append(Write(self._name, offset, some))
        return os.pwrite(descriptor, some, offset)

    def fdatasync(self, descriptor: int) -> None:
        """Bring it to the disk."""
        begun = len(self._recording.events)
        os.fdatasync(descriptor)
        self._recording.events.append(Sync(self._name, begun))


@contextmanager
def _recorded(name: str, chance: random.Random) -> Iterator[Recording]:
    recording = Recording()
    with patch("covey.adapters.content_files.os", _System(recording, name, chance)):
        yield recording


@dataclass(frozen=True, slots=True)
class _Fetching:
    """What a fetch has written: `begun` is the folder before it; after how many events which byte was kept."""

    begun: Path
    events: Recording
    kept: tuple[tuple[int, int], ...]

    def cut(self, seed: int, folder: Path) -> tuple[ContentFiles, int, int]:
        """Cut the power somewhere; return what a start finds, how much was kept, and how much of it is there."""
        chance = random.Random(seed)
        cut = chance.randint(0, len(self.events.events))
        shutil.copytree(self.begun, folder)
        for name, content in self.events.states_at(cut, chance).items():
            (folder / name).write_bytes(content)
        had = max((position for place, position in self.kept if place <= cut), default=0)
        begun = {event.offset // CHUNK_BYTES for event in self.events.events[:cut] if isinstance(event, Write)}
        files = ContentFiles(folder)
        assert files.index(_HASH, _INDEX_HASH) == _INDEX
        here = files.fetched(_HASH, _INDEX, len(_SEALED))
        assert cut < len(self.events.events) or here == len(_SEALED), "all is on the disk at the end"
        return files, max([had, *((each + 1) * CHUNK_BYTES for each in begun)]), here


def _fetched(folder: Path, *, is_nearby: bool, between_us: int) -> _Fetching:
    """Fetch all of the file as a way brings it, with so long between two chunks, recorded."""
    content = Device("ben", folder).store.content
    content.parts.save_index(_WANTED, _INDEX)
    begun = content.files.path(_HASH).parent.with_name("begun")
    shutil.copytree(content.files.path(_HASH).parent, begun)
    kept: list[tuple[int, int]] = []
    with _recorded(f"{_HASH.hex()}.part", random.Random(8)) as recording:
        progress = FileProgress(_WANTED, content.parts)
        progress.is_nearby = is_nearby
        now_us = 1
        while not progress.is_complete:
            assert progress.keep([_SEALED[progress.position : progress.position + progress.next_bytes]], now_us)
            now_us += between_us
            kept.append((len(recording.events), progress.position))
        assert progress.synchronise()
        kept.append((len(recording.events), progress.position))
    assert content.files.complete(_HASH)
    return _Fetching(begun, recording, tuple(kept))


def _fetch_rest(files: ContentFiles, position: int) -> None:
    """Fetch what is not here, and see that it is the file."""
    for begin in range(position, len(_SEALED), CHUNK_BYTES):
        files.write(_HASH, begin, _SEALED[begin : begin + CHUNK_BYTES])
    assert files.complete(_HASH)
    assert files.path(_HASH).read_bytes() == _SEALED


@pytest.fixture(scope="module", params=[False, True], ids=["a link", "a network"])
def in_time(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _Fetching:
    """Chunks come as quick as any link, or twice as quick as a gigabit, and the disk takes each one in time."""
    with (
        patch("covey.core.content.progress.DISK_WAIT_US", 60_000_000),
        patch("covey.core.content.progress.NEAR_DISK_WAIT_US", 60_000_000),
    ):
        return _fetched(tmp_path_factory.mktemp("in-time"), is_nearby=request.param, between_us=NEAR_SYNC_US)


@pytest.mark.parametrize("seed", parameters(range(_STATES), quick=20, plain=60))
def test_at_most_one_chunk_comes_twice(in_time: _Fetching, tmp_path: Path, seed: int) -> None:
    files, had, here = in_time.cut(seed, tmp_path / "state.content")
    assert had - here <= CHUNK_BYTES, "more than one chunk comes twice"
    _fetch_rest(files, here)


_GROUP_CHUNKS = 2


@pytest.fixture(scope="module", params=[True, False], ids=["a network", "a link, and a disk that is slower"])
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _Fetching:
    """The same, quicker than the disk, with small groups."""
    with (
        patch("covey.core.content.progress.SYNC_GROUP_BYTES", _GROUP_CHUNKS * CHUNK_BYTES),
        patch("covey.core.content.progress.SYNC_SHARE", 10**9),  # after the first one, groups alone count
        patch("covey.core.content.progress.DISK_WAIT_US", 0),
        patch("covey.core.content.progress.NEAR_DISK_WAIT_US", 0),
    ):
        return _fetched(tmp_path_factory.mktemp("quick"), is_nearby=request.param, between_us=0)


@pytest.mark.parametrize("seed", parameters(range(_STATES // 3), quick=10, plain=30))
def test_a_download_faster_than_the_disk_repeats_at_most_two_groups(
    quick: _Fetching, tmp_path: Path, seed: int
) -> None:
    files, had, here = quick.cut(seed, tmp_path / "state.content")
    assert had - here <= 2 * _GROUP_CHUNKS * CHUNK_BYTES
    _fetch_rest(files, here)


@pytest.mark.parametrize("seed", range(20))
def test_a_disk_that_is_full_at_any_chunk_costs_none_of_those_before(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = ContentFiles(tmp_path / "state.content")
    files.save_index(_HASH, _INDEX)
    full_at = chance.randrange(len(_INDEX) // HASH_BYTES)

    class Full(_System):
        def pwrite(self, descriptor: int, content: bytes, offset: int) -> int:
            if offset >= full_at * CHUNK_BYTES:
                os.pwrite(descriptor, content[: chance.randrange(len(content))], offset)
                raise OSError(28, "No space left on device")
            return os.pwrite(descriptor, content, offset)

    with (
        patch("covey.adapters.content_files.os", Full(Recording(), "", chance)),
        pytest.raises(DiskFullError),
    ):
        _fetch_rest(files, 0)
    assert files.fetched(_HASH, _INDEX, len(_SEALED)) == full_at * CHUNK_BYTES
    _fetch_rest(files, full_at * CHUNK_BYTES)
