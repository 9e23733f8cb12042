"""Sealed files in an object store, in parts, under names that only who knows a file's hash can derive."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from covey.errors import PeerError
from covey.limits.content import CHUNK_BYTES, STORED_PART_BYTES

if TYPE_CHECKING:
    from covey.ports import ObjectStore

_PERSON = b"covey/1 stored\0\0"


class ContentStore:
    """Implements `ports.ContentPlace`, and puts files there. An object's key is `content/TAG/PART`."""

    name = "the object store"
    on_this_network = False

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def read(self, content: bytes, position: int, end: int) -> Iterator[bytes] | None:
        """Give bytes of what has a hash; None where it is not there.

        Raises:
            PeerError: a part is missing, or has another length.
            StorageError: the store could not be read.
        """
        number, offset = divmod(position, STORED_PART_BYTES)
        first = self._objects.get(_key(content, number), STORED_PART_BYTES)
        if first is None:
            return None
        return self._pieces(content, number, first, offset, end - position)

    def _pieces(self, content: bytes, number: int, part: bytes, offset: int, left: int) -> Iterator[bytes]:
        while True:
            for begin in range(offset, min(len(part), offset + left), CHUNK_BYTES):
                piece = part[begin : min(begin + CHUNK_BYTES, offset + left)]
                left -= len(piece)
                offset += len(piece)
                yield piece
            if not left:
                return
            number, offset = number + 1, 0
            found = self._objects.get(_key(content, number), STORED_PART_BYTES)
            if not found:
                raise PeerError(f"{self.name} lacks a part of a file")
            part = found

    def close(self) -> None:
        """Do nothing: a store holds nothing open."""

    def put(self, content: bytes, file: BinaryIO) -> None:
        """Put what has a hash there, its first part last: a reader sees all of it or nothing. Once is enough.

        Raises:
            StorageError: the store refused.
        """
        if _key(content, 0) in self._objects.keys(_folder(content)):
            return
        size = file.seek(0, 2)
        for number in reversed(range(max(1, -(-size // STORED_PART_BYTES)))):
            file.seek(number * STORED_PART_BYTES)
            self._objects.put(_key(content, number), file.read(STORED_PART_BYTES))


def _folder(content: bytes) -> str:
    return f"content/{hashlib.blake2b(key=content, digest_size=32, person=_PERSON).hexdigest()}/"


def _key(content: bytes, number: int) -> str:
    return f"{_folder(content)}{number:05}"
