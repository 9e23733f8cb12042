"""Gives files to peers of this network: HTTP, two kinds of GET, ranges (RFC 9110, section 14).

Only chunks whose hashes are those of a file's index are given, and no other byte (003.72). So a card that has lost a
bit, and a file that a power cut has torn on its way, cost nobody else anything.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import BinaryIO

from covey.adapters.http.exchange import Exchange
from covey.adapters.http.listener import Listener, listening_at
from covey.adapters.http.places import Bounds, ConnectedClient, Phase, Places
from covey.adapters.lan.tags import AT_RELAY, CONTENT_PATH, SALT_BYTES, SALT_PATH, is_near, tag_of
from covey.core.crypto import blake3_hash, same
from covey.core.history.files import HASH_BYTES
from covey.core.ids import ContentHash
from covey.errors import ConfigurationError
from covey.limits.content import CHUNK_BYTES, GIVEN_CHUNKS, LAN_CLIENTS, LAN_SECONDS, LAN_SILENCE_S
from covey.ports import GivenFile


class GivenChunks:
    """One file, open; an index is a file of one chunk, which its own hash is the index of."""

    def __init__(self, file: BinaryIO, hashes: bytes, size: int, *, is_whole: bool) -> None:
        self.file = file
        self.is_whole = is_whole
        self._hashes, self._size = hashes, size
        self._read = bytearray(CHUNK_BYTES)

    def verified_to(self, position: int) -> int:
        """Return up to which byte, from a position on, the file was read just now, and is what it should be.

        That is some chunks further at most, and no further where the first of them is not here, or damaged.
        """
        number = position // CHUNK_BYTES
        good = next((each for each in range(GIVEN_CHUNKS) if not self._is_good(number + each)), GIVEN_CHUNKS)
        return min(self._size, (number + good) * CHUNK_BYTES) if good else position

    def _is_good(self, number: int) -> bool:
        expected = self._hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES]
        length = min(CHUNK_BYTES, self._size - number * CHUNK_BYTES)
        if length <= 0 or not expected:
            return False
        found = memoryview(self._read)[:length]
        come = os.preadv(self.file.fileno(), [found], number * CHUNK_BYTES)
        return come == length and same(blake3_hash(found), expected)


@contextlib.contextmanager
def given_chunks(given: GivenFile) -> Iterator[GivenChunks | None]:
    """Open a file, or what has come of it; None where that is nothing."""
    hashes = _hashes(given)
    for path in (given.path, given.part):
        with contextlib.suppress(FileNotFoundError):
            with path.open("rb") as file:
                yield GivenChunks(file, hashes, given.size, is_whole=path == given.path)
            return
    yield None


def _hashes(given: GivenFile) -> bytes:
    if given.index is None:
        return given.index_hash
    try:
        index = given.index.read_bytes()
    except OSError:
        return b""
    return index if same(blake3_hash(index), given.index_hash) else b""


_BOUNDS = Bounds(strangers=LAN_CLIENTS, known=LAN_CLIENTS, request_s=LAN_SILENCE_S, silence_s=LAN_SILENCE_S)
_RANGE = re.compile(r"bytes=([0-9]{1,12})-([0-9]{1,12})?")


class LanServer:
    """Serves until closed. What is offered, `offer` says."""

    def __init__(
        self,
        host: str,
        port: int,
        bounds: Bounds = _BOUNDS,
        damaged: Callable[[ContentHash], None] = lambda _: None,
    ) -> None:
        """Listen; `damaged` hears, in any thread, which file is not what it should be.

        Raises:
            ConfigurationError: that is no address of this machine's, or it is in use.
        """
        self.salt = secrets.token_bytes(SALT_BYTES)
        self.damaged = damaged
        self._offered: Mapping[str, GivenFile] = {}
        try:
            listening = listening_at(host, port)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"the LAN file server cannot listen on {host}:{port}: {error}",
                hint="covey config set content.lan_listen HOST:PORT",
            ) from error
        self._listener = Listener(
            listening,
            "lan",
            lambda client, places: FileConversation(client, places, self).converse(),
            bounds,
            admits=is_near,
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.port

    def offer(self, files: Mapping[ContentHash, GivenFile]) -> None:
        """Give these, by their hashes, and nothing else, from now on."""
        self._offered = {tag_of(content, self.salt): each for content, each in files.items()}

    def offered(self, tag: str) -> GivenFile | None:
        """Return what a tag names; None: it names nothing that is here, or on its way."""
        return self._offered.get(tag)

    def close(self) -> None:
        """Stop listening; what is being given ends with the process."""
        self._listener.close()


class FileConversation(Exchange):
    """One connection. A request that is none of the two is answered by its status alone."""

    def __init__(self, client: ConnectedClient, places: Places, owner: LanServer) -> None:
        """Note until when it is served."""
        self._owner = owner
        self._ends = time.monotonic() + LAN_SECONDS
        super().__init__(client, places)

    def refuse_head(self, status: HTTPStatus, why: str) -> None:
        """Answer what is no request, by its status alone."""
        del why
        self.close_connection = True
        self._answer(status, 0)

    def respond(self) -> None:
        """Give the salt, or a part of what a tag names."""
        if time.monotonic() >= self._ends:
            self.close_connection = True
        elif self.command != "GET":
            self.refuse_head(HTTPStatus.NOT_IMPLEMENTED, "")
        elif self.path == SALT_PATH:
            self._answer(HTTPStatus.OK, len(self._owner.salt))
            self.write(self._owner.salt)
        elif (given := self._given()) is None:
            self._answer(HTTPStatus.NOT_FOUND, 0)
        elif not self.recognise() or not self.enter(Phase.ANSWERED):  # a tag proves that its peer knows the hash
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, 0)
            self.close_connection = True
        else:
            self._give(given)

    def _given(self) -> GivenFile | None:
        if not self.path.startswith(CONTENT_PATH):
            return None
        return self._owner.offered(self.path.removeprefix(CONTENT_PATH))

    def _give(self, given: GivenFile) -> None:
        """Send the requested part as far as it is here; 202 if nothing of it is here yet."""
        size = given.size
        asked = _RANGE.fullmatch(self.headers.get("Range", "bytes=0-"))
        first, last = (int(asked[1]), int(asked[2] or size - 1)) if asked else (size, 0)
        last = min(last, size - 1)
        if first > last:
            self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, {"Content-Range": f"bytes */{size}"})
            return
        with given_chunks(given) as chunks:
            verified = first if chunks is None else chunks.verified_to(first)
            if chunks is not None and verified > first:
                self._send(chunks, given, first, verified, min(last + 1, size if chunks.is_whole else verified))
            elif chunks is not None and chunks.is_whole:
                self._answer(HTTPStatus.NOT_FOUND, 0)
                self._owner.damaged(given.content)
            else:
                self._answer(HTTPStatus.ACCEPTED, 0, {} if given.looked_for else {AT_RELAY: "1"})

    def _send(self, chunks: GivenChunks, given: GivenFile, first: int, verified: int, end: int) -> None:
        """Send the bytes from `first` to `end`; those up to `verified` unchecked. Fewer if one is damaged."""
        self._answer(
            HTTPStatus.PARTIAL_CONTENT, end - first, {"Content-Range": f"bytes {first}-{end - 1}/{given.size}"}
        )
        while first < end and verified > first and time.monotonic() < self._ends:
            sent = self.connection.sendfile(chunks.file, first, min(end, verified) - first)
            if not sent:
                break
            first += sent
            if first >= verified:
                verified = chunks.verified_to(first)
        if chunks.is_whole and verified <= first < end:
            self._owner.damaged(given.content)
        self.close_connection = self.close_connection or first < end

    def _answer(self, status: HTTPStatus, size: int, fields: Mapping[str, str] | None = None) -> None:
        content = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        with contextlib.suppress(OSError):
            self.begin(status, {**content, **(fields or {})})
