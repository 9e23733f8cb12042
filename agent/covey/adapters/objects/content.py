"""Sealed files in an object store, in parts, under names that only who knows a file's hash can derive."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from covey.errors import PeerError, StorageError
from covey.limits.content import STORED_PART_BYTES

if TYPE_CHECKING:
    from covey.ports import PiecewiseStore

_PERSON = b"covey/1 stored\0\0"


class ContentStore:
    """Implements `ports.ContentPlace`, and puts files there. An object's key is `content/TAG/PART`."""

    name = "the object store"
    on_this_network = False

    def __init__(self, objects: PiecewiseStore) -> None:
        self._objects = objects
        self._troubles: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """Why it could not be written, or read, the last time; empty where it could."""
        return next((each for each in self._troubles.values() if each), "")

    def read(self, content: bytes, position: int, end: int) -> Iterator[bytes] | None:
        """Give bytes of what has a hash; None where it is not there.

        Raises:
            PeerError: a part is missing, or is too short; also while the bytes are taken.
            StorageError: the store could not be read; also while the bytes are taken.
        """
        first = self._part(content, position, end)
        return None if first is None else self._pieces(content, first, position, end)

    def _pieces(self, content: bytes, part: Iterator[bytes] | None, position: int, end: int) -> Iterator[bytes]:
        while part is not None:
            left = min(end, _part_end(position)) - position
            for piece in part:
                yield piece[:left]
                position += len(piece[:left])
                left -= len(piece[:left])
                if not left:
                    break
            if left:
                raise PeerError(f"{self.name} holds an incomplete part of the file")
            if position == end:
                return
            part = self._part(content, position, end)
        raise PeerError(f"{self.name} lacks a part of the file")

    def _part(self, content: bytes, position: int, end: int) -> Iterator[bytes] | None:
        number, offset = divmod(position, STORED_PART_BYTES)
        size = min(end, _part_end(position)) - position
        with self._noted("read"):
            return self._objects.pieces(_key(content, number), offset, offset + size)

    def close(self) -> None:
        """Do nothing: a store holds nothing open."""

    def put(self, content: bytes, file: BinaryIO) -> None:
        """Put what has a hash there, its first part last: a reader sees all of it or nothing. Once is enough.

        Raises:
            StorageError: the store refused.
        """
        with self._noted("written"):
            if _key(content, 0) in self._objects.keys(_folder(content)):
                return
            size = file.seek(0, 2)
            for number in reversed(range(max(1, -(-size // STORED_PART_BYTES)))):
                file.seek(number * STORED_PART_BYTES)
                self._objects.put(_key(content, number), file.read(STORED_PART_BYTES))

    @contextmanager
    def _noted(self, how: str) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            self._troubles[how] = str(error)
            raise
        self._troubles[how] = ""


def _part_end(position: int) -> int:
    return (position // STORED_PART_BYTES + 1) * STORED_PART_BYTES


def _folder(content: bytes) -> str:
    return f"content/{hashlib.blake2b(key=content, digest_size=32, person=_PERSON).hexdigest()}/"


def _key(content: bytes, number: int) -> str:
    return f"{_folder(content)}{number:05}"
