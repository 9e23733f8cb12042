"""A store whose link is slow: what has come of an object is given before the rest of it is there."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from http import HTTPStatus

import pytest

from covey.adapters.objects.cloud import CloudStore, open_cloud_store
from covey.adapters.objects.content import ContentStore
from covey.errors import StorageError
from covey.limits.content import CHUNK_BYTES, STORED_PART_BYTES
from tests.waiting import GUARD_S

HASH = bytes(range(32))
_FILE = bytes(range(256)) * (STORED_PART_BYTES // 256)


class SlowStore(http.server.ThreadingHTTPServer):
    """Speaks as much S3 as a reader of ranges needs, and gives a chunk when it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.chunks = threading.Semaphore(0)
        self.asked: list[int] = []
        self.patience_s = float(GUARD_S)


class _Answer(http.server.BaseHTTPRequestHandler):
    server: SlowStore

    def do_GET(self) -> None:
        """Answer with a range, chunk by chunk, and break off where no more is to come."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert found
        begin, end = int(found[1]), int(found[2]) + 1
        self.server.asked.append(begin)
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Length", str(end - begin))
        self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(_FILE)}")
        self.send_header("ETag", '"one"')
        self.send_header("Last-Modified", "Thu, 26 Nov 2026 12:00:00 GMT")
        self.end_headers()
        while begin < end and self.server.chunks.acquire(timeout=self.server.patience_s):
            self.wfile.write(_FILE[begin : min(end, begin + CHUNK_BYTES)])
            begin += CHUNK_BYTES
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def slow() -> Iterator[SlowStore]:
    with SlowStore() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def store(slow: SlowStore, monkeypatch: pytest.MonkeyPatch) -> CloudStore:
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{slow.server_address[1]}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return open_cloud_store("s3://files/one", timedelta(seconds=2 * GUARD_S))


def test_each_chunk_is_given_when_it_has_come_and_one_request_brings_a_part(slow: SlowStore, store: CloudStore) -> None:
    size, taken = STORED_PART_BYTES, b""
    pieces = ContentStore(store).read(HASH, CHUNK_BYTES, size)
    assert pieces is not None
    while len(taken) < size - CHUNK_BYTES:
        slow.chunks.release()  # the next one does not come before this one was taken
        taken += next(pieces)
    assert next(pieces, None) is None
    assert taken == _FILE[CHUNK_BYTES:]
    assert slow.asked == [CHUNK_BYTES]


@pytest.mark.slow
def test_a_read_continues_after_a_broken_link(slow: SlowStore, store: CloudStore) -> None:
    slow.patience_s = 0.0
    for _ in range(3):
        slow.chunks.release()
    pieces: list[bytes] = []
    with pytest.raises(StorageError):
        pieces.extend(ContentStore(store).read(HASH, 0, STORED_PART_BYTES) or ())
    taken = b"".join(pieces)
    assert taken == _FILE[: len(taken)]
    assert 2 * CHUNK_BYTES <= len(taken) <= 3 * CHUNK_BYTES, (len(taken), slow.asked)
    for _ in range(STORED_PART_BYTES // CHUNK_BYTES):
        slow.chunks.release()
    rest = ContentStore(store).read(HASH, len(taken), STORED_PART_BYTES)
    assert taken + b"".join(rest or ()) == _FILE
