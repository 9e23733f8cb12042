"""`covey.app.api.opened_device`: what is asked again with its key is done once, whatever happens in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.api.opened_device import digest_of, once
from covey.errors import IdempotencyError, UsageError
from covey.limits.storage import IDEMPOTENCY_KEY_LENGTH, IDEMPOTENCY_KEYS
from tests.fleet import Device, found


class _Sender:
    """A device that sends blobs to another one, by request."""

    def __init__(self, folder: Path) -> None:
        self.ann = Device("ann", folder)
        self.group_id = found(self.ann, Device("ben", folder))

    def send(self, content: bytes, key: str | None) -> int:
        """Queue a blob as the local API does."""
        ann = self.ann

        def work() -> int:
            return ann.node.send_blob(self.group_id, content, ann.now)

        with ann.store.transaction():
            return once(ann.store.idempotency, key, digest_of("send", content), work)

    @property
    def queued(self) -> int:
        """Messages that wait."""
        return self.ann.store.outbox.totals()[0]


@pytest.fixture
def sender(tmp_path: Path) -> _Sender:
    return _Sender(tmp_path)


def test_a_request_that_is_tried_again_queues_nothing_more(sender: _Sender) -> None:
    assert [sender.send(b"photo", "a") for _ in range(3)] == [1, 1, 1]
    sender.ann.restart()
    assert sender.send(b"photo", "a") == 1
    assert sender.queued == 1


def test_without_a_key_or_with_another_one_it_is_another_request(sender: _Sender) -> None:
    for key in (None, None, "a", "b"):
        assert sender.send(b"photo", key) == 1
    assert sender.queued == 4


def test_another_request_with_the_same_key_is_refused(sender: _Sender) -> None:
    sender.send(b"photo", "a")
    with pytest.raises(IdempotencyError):
        sender.send(b"another", "a")
    assert sender.queued == 1


def test_a_rolled_back_send_is_not_remembered(sender: _Sender) -> None:
    sender.ann.on_a_full_disk(
        lambda: once(
            sender.ann.store.idempotency,
            "a",
            digest_of("send", b"photo"),
            lambda: sender.ann.node.send_blob(sender.group_id, b"photo", sender.ann.now),
        )
    )
    assert sender.queued == 0
    assert sender.send(b"photo", "a") == 1
    assert sender.queued == 1


@pytest.mark.parametrize("key", ["", "k" * (IDEMPOTENCY_KEY_LENGTH + 1), "new\nline", "ö"])
def test_an_invalid_idempotency_key_is_refused(sender: _Sender, key: str) -> None:
    with pytest.raises(UsageError):
        sender.send(b"photo", key)
    assert sender.queued == 0


def test_a_bounded_number_is_kept(sender: _Sender) -> None:
    records = sender.ann.store.idempotency
    with sender.ann.store.transaction():
        for number in range(IDEMPOTENCY_KEYS + 10):
            records.keep(f"{number}", b"digest", number)
    assert [number for number in range(20) if records.find(f"{number}")] == [*range(10, 20)]
    assert records.find(f"{IDEMPOTENCY_KEYS + 9}") == (b"digest", IDEMPOTENCY_KEYS + 9)
