"""`covey.core.content.progress` over a real folder: pieces of any size are the chunks that they are pieces of."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from covey.adapters.sqlite.content import ContentTable
from covey.core.content.messages import WantedFile
from covey.core.content.progress import FileProgress
from covey.core.crypto import blake3_hash
from covey.core.ids import ContentHash, DeviceKey, GroupId
from covey.errors import WrongContentError
from covey.limits.content import CHUNK_BYTES
from tests.fleet import Device

SEALED = random.Random(6).randbytes(40 * CHUNK_BYTES + 77)
INDEX = b"".join(blake3_hash(SEALED[at : at + CHUNK_BYTES]) for at in range(0, len(SEALED), CHUNK_BYTES))
WANTED = WantedFile(
    ContentHash(blake3_hash(SEALED)),
    ContentHash(blake3_hash(INDEX)),
    len(SEALED),
    GroupId(bytes(32)),
    DeviceKey(bytes(32)),
)


@pytest.fixture
def content(tmp_path: Path) -> ContentTable:
    return Device("ben", tmp_path).store.content


def _begun(content: ContentTable, wanted: WantedFile = WANTED) -> FileProgress:
    progress = FileProgress(wanted, content.parts)
    if not progress.has_index:
        assert progress.keep([INDEX[:7], INDEX[7:]], 0)
    return progress


def _keep_to(progress: FileProgress, end: int, chance: random.Random) -> None:
    """Keep some chunks at a time, in pieces of any size."""
    while progress.position < end:
        size = progress.whole_bytes(min(end - progress.position, chance.randint(1, 12) * CHUNK_BYTES))
        chunks = SEALED[progress.position : progress.position + size]
        cuts = sorted(chance.randrange(size) for _ in range(5))
        pieces = [chunks[first:last] for first, last in zip([0, *cuts], [*cuts, size], strict=True)]
        assert progress.keep(pieces, 0)


@pytest.mark.parametrize("seed", range(8))
def test_many_chunks_at_once_come_whole_and_the_whole_is_proved_without_reading_it(
    content: ContentTable, seed: int
) -> None:
    progress = _begun(content)
    _keep_to(progress, len(SEALED), random.Random(seed))
    assert progress.is_complete
    assert progress.synchronise()
    content.files.path(WANTED.hash, ".part").unlink()
    assert content.parts.take_proof(WANTED), "by what came"
    assert not content.parts.take_proof(WANTED), "once"


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_reads_earlier_pieces_for_the_proof(content: ContentTable, tmp_path: Path, seed: int) -> None:
    _keep_to(_begun(content), 21 * CHUNK_BYTES, random.Random(seed))
    second = Device("ben", tmp_path).store.content
    progress = _begun(second)
    assert progress.position == 21 * CHUNK_BYTES
    _keep_to(progress, len(SEALED), random.Random(seed))
    assert second.parts.take_proof(WANTED)
    assert content.files.complete(WANTED.hash, is_proved=True)
    assert content.files.path(WANTED.hash).read_bytes() == SEALED


def test_of_chunks_that_come_together_those_before_a_wrong_one_are_kept(content: ContentTable) -> None:
    progress = _begun(content)
    wrong = bytearray(SEALED[: 5 * CHUNK_BYTES])
    wrong[3 * CHUNK_BYTES + 1] ^= 1
    with pytest.raises(WrongContentError):
        progress.keep([bytes(wrong)], 0)
    assert progress.position == 3 * CHUNK_BYTES
    _keep_to(progress, len(SEALED), random.Random(1))
    assert content.parts.take_proof(WANTED)


# accepts: 003.74
def test_a_file_whose_chunks_are_right_and_whose_whole_is_not_proves_nothing(content: ContentTable) -> None:
    wanted = WantedFile(ContentHash(bytes(32)), *[getattr(WANTED, each) for each in WANTED.__slots__[1:]])
    progress = _begun(content, wanted)
    _keep_to(progress, len(SEALED), random.Random(1))
    assert progress.is_complete
    assert not content.parts.take_proof(wanted)
    assert not content.files.complete(wanted.hash)
    assert not content.files.path(wanted.hash).exists()


def test_an_index_that_is_not_of_the_file_is_refused(content: ContentTable) -> None:
    progress = FileProgress(WANTED, content.parts)
    assert not progress.whole_bytes(len(INDEX) - 1)
    with pytest.raises(WrongContentError):
        progress.keep([INDEX[:-1] + b"x"], 0)
    with pytest.raises(WrongContentError):
        progress.keep([INDEX, b"x"], 0)
    assert not progress.has_index
