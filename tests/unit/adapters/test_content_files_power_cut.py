"""A file on its way under power cuts at any write: what is fetched twice is bounded, and no other file comes of it.

On a link that brings less than a chunk while the disk takes one, that is one chunk; on a quicker one, two groups.

The disk is one that remembers (`tests/powercut.py`): a cut keeps what was synchronised, and of what was written since
any part, down to its sectors. Each state is opened as at a start, and the fetch goes on from there to its end.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from covey.adapters.content_files import ContentFiles
from covey.core.content.progress import FileProgress
from covey.core.content.records import WantedFile
from covey.core.crypto import blake3_hash
from covey.core.history.files import HASH_BYTES
from covey.core.ids import ContentHash, DeviceKey, GroupId
from covey.errors import DiskFullError
from covey.limits.content import CHUNK_BYTES
from tests.fleet import Device
from tests.powercut import Recording, Sync, Write

_STATES = 300
_SEALED = random.Random(4).randbytes(5 * CHUNK_BYTES + 99)
_INDEX = b"".join(blake3_hash(_SEALED[at : at + CHUNK_BYTES]) for at in range(0, len(_SEALED), CHUNK_BYTES))
_HASH, _INDEX_HASH = ContentHash(blake3_hash(_SEALED)), ContentHash(blake3_hash(_INDEX))


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


def _fetch(files: ContentFiles, position: int, recording: Recording | None = None) -> int:
    """Fetch what is not here; return how many chunks came."""
    came = 0
    while position < len(_SEALED):
        chunk = _SEALED[position : position + CHUNK_BYTES]
        files.write(_HASH, position, chunk)
        files.synchronise_part(_HASH)
        position += len(chunk)
        came += 1
        if recording is not None:
            recording.mark(position)
    return came


@pytest.fixture(scope="module")
def fetching(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recording]:
    """The folder as it is when the index has come, and what fetching writes then."""
    folder = tmp_path_factory.mktemp("fetching") / "state.content"
    files = ContentFiles(folder)
    files.save_index(_HASH, _INDEX)
    begun = folder.with_name("begun")
    shutil.copytree(folder, begun)
    with _recorded(f"{_HASH.hex()}.part", random.Random(8)) as recording:
        _fetch(files, 0, recording)
    assert files.complete(_HASH)
    return begun, recording


@pytest.mark.parametrize("seed", range(_STATES))
def test_at_most_one_chunk_comes_twice(fetching: tuple[Path, Recording], tmp_path: Path, seed: int) -> None:
    begun, recording = fetching
    chance = random.Random(seed)
    cut = chance.randint(0, len(recording.events))
    folder = tmp_path / "state.content"
    shutil.copytree(begun, folder)
    for name, content in recording.states_at(cut, chance).items():
        (folder / name).write_bytes(content)
    kept = max((int(str(what)) for place, what in recording.marks if place <= cut), default=0)
    files = ContentFiles(folder)
    assert files.index(_HASH, _INDEX_HASH) == _INDEX
    here = files.fetched(_HASH, _INDEX, len(_SEALED))
    assert here >= kept, "what counted was lost"
    chunks = len(_INDEX) // HASH_BYTES
    begun_chunks = sum(isinstance(event, Sync) for event in recording.events[:cut]) + 1
    assert _fetch(files, here) + begun_chunks <= chunks + 1, "more than one chunk came twice"
    assert files.complete(_HASH)
    assert files.path(_HASH).read_bytes() == _SEALED


_GROUP_CHUNKS = 2


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recording, list[tuple[int, int]]]:
    """The same, as a network brings it that is quicker than the disk; and where each chunk had come."""
    content = Device("ben", tmp_path_factory.mktemp("quick")).store.content
    wanted = WantedFile(_HASH, _INDEX_HASH, len(_SEALED), GroupId(bytes(32)), DeviceKey(bytes(32)))
    content.parts.save_index(wanted, _INDEX)
    begun = content.files.path(_HASH).parent.with_name("begun")
    shutil.copytree(content.files.path(_HASH).parent, begun)
    come: list[tuple[int, int]] = []
    with (
        patch("covey.core.content.progress.SYNC_GROUP_BYTES", _GROUP_CHUNKS * CHUNK_BYTES),
        patch("covey.core.content.progress.SYNC_SHARE", 10**9),  # after the first one, groups alone count
        _recorded(f"{_HASH.hex()}.part", random.Random(8)) as recording,
    ):
        progress = FileProgress(wanted, content.parts)
        while not progress.is_complete:
            assert progress.keep([_SEALED[progress.position : progress.position + progress.next_bytes]], 1)
            come.append((len(recording.events), progress.position))
        assert progress.synchronise()
        come.append((len(recording.events), progress.position))
    assert content.files.complete(_HASH)
    return begun, recording, come


@pytest.mark.parametrize("seed", range(_STATES // 3))
def test_of_what_a_quick_network_brings_no_more_than_two_groups_come_twice(
    quick: tuple[Path, Recording, list[tuple[int, int]]], tmp_path: Path, seed: int
) -> None:
    begun, recording, come = quick
    chance = random.Random(seed)
    cut = chance.randint(0, len(recording.events))
    folder = tmp_path / "state.content"
    shutil.copytree(begun, folder)
    for name, content in recording.states_at(cut, chance).items():
        (folder / name).write_bytes(content)
    had = max((position for place, position in come if place <= cut), default=0)
    files = ContentFiles(folder)
    here = files.fetched(_HASH, _INDEX, len(_SEALED))
    assert had - here <= 2 * _GROUP_CHUNKS * CHUNK_BYTES
    if cut == len(recording.events):
        assert here == len(_SEALED), "all is on the disk at the end"
    _fetch(files, here)
    assert files.complete(_HASH)
    assert files.path(_HASH).read_bytes() == _SEALED


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
        _fetch(files, 0)
    assert files.fetched(_HASH, _INDEX, len(_SEALED)) == full_at * CHUNK_BYTES
    _fetch(files, full_at * CHUNK_BYTES)
    assert files.complete(_HASH)
