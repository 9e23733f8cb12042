"""Sealed files in an object store, in parts."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from covey.adapters.objects.content import ContentStore
from covey.adapters.objects.folder import DirectoryStore
from covey.errors import PeerError, StorageError
from covey.limits.content import CHUNK_BYTES, STORED_PART_BYTES

HASH = bytes(range(32))


@pytest.mark.parametrize("size", [1, CHUNK_BYTES, STORED_PART_BYTES, STORED_PART_BYTES + 1, 3 * STORED_PART_BYTES - 7])
def test_a_stored_file_reads_from_any_position(tmp_path: Path, size: int) -> None:
    content, store = random.Random(size).randbytes(size), ContentStore(DirectoryStore(tmp_path))
    assert store.read(HASH, 0, size) is None
    store.put(HASH, io.BytesIO(content))
    for position in {0, size // 2, size - 1, min(size - 1, STORED_PART_BYTES)}:
        pieces = [*(store.read(HASH, position, size) or [])]
        assert b"".join(pieces) == content[position:]
        assert max(map(len, pieces)) <= CHUNK_BYTES


def test_a_name_in_the_store_says_nothing_of_the_hash(tmp_path: Path) -> None:
    ContentStore(DirectoryStore(tmp_path)).put(HASH, io.BytesIO(b"sealed"))
    names = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert names
    assert not any(HASH.hex() in name for name in names)


def test_a_file_whose_putting_broke_off_is_not_there_and_is_put_again(tmp_path: Path) -> None:
    content = random.Random(3).randbytes(2 * STORED_PART_BYTES + 9)
    store = ContentStore(DirectoryStore(tmp_path))
    store.put(HASH, io.BytesIO(content))
    first = next(tmp_path.rglob("00000"))
    first.unlink()
    assert store.read(HASH, 0, len(content)) is None
    store.put(HASH, io.BytesIO(content))
    assert b"".join(store.read(HASH, 0, len(content)) or []) == content
    next(tmp_path.rglob("00001")).unlink()
    with pytest.raises(PeerError):
        b"".join(store.read(HASH, 0, len(content)) or [])


def test_a_part_that_is_too_short_is_not_filled_up_with_the_next_one(tmp_path: Path) -> None:
    content = random.Random(4).randbytes(STORED_PART_BYTES + 9)
    store = ContentStore(DirectoryStore(tmp_path))
    store.put(HASH, io.BytesIO(content))
    part = next(tmp_path.rglob("00000"))
    part.write_bytes(content[: CHUNK_BYTES + 1])
    pieces: list[bytes] = []
    with pytest.raises(PeerError):
        pieces.extend(store.read(HASH, 0, len(content)) or ())
    assert b"".join(pieces) == content[: CHUNK_BYTES + 1]


def test_the_reason_of_a_refusal_is_known_until_it_ends(tmp_path: Path) -> None:
    folder, store = tmp_path / "store", ContentStore(DirectoryStore(tmp_path / "store"))
    folder.write_bytes(b"no folder")
    with pytest.raises(StorageError):
        store.put(HASH, io.BytesIO(b"sealed"))
    assert "store" in store.trouble
    folder.unlink()
    store.put(HASH, io.BytesIO(b"sealed"))
    assert not store.trouble
