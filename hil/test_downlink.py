"""What a collector sends down: each blob counts once and in order, through loss, power cuts and strangers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from covey_boards.device import received
from covey_boards.device.identity import Identity
from covey_boards.device.received import SETTINGS_FILE
from covey_boards.shared import cbor, messages
from hil.on_board.firmware_simulation import GROUP, World

INCARNATION = b"collects"
EXPIRED = 2  # docs/protocol/core.md, section 7


class Downlink:
    """A board that is enrolled, and its collector's half of the link."""

    def __init__(self) -> None:
        self.world = World(1, interval_us=10_000_000)
        self.world.run(5)
        assert self.world.gateway.identified
        self.world.gateway.receive = self._receive
        self.taken: list[bytes] = []

    def _receive(self, message: list[Any], _now_us: int) -> None:
        if message[0] == messages.CARRY:
            self.taken.append(message[2])

    def send(
        self, kind: int, number: int, body: bytes, incarnation: bytes = INCARNATION, author: Any = None
    ) -> tuple[bytes, int] | None:
        """Hand a message down; return what the board acknowledges, if it answers."""
        author = author or self.world.collector.identity
        board = self.world.collector.board
        sequence = 0 if kind == messages.RESUME else number
        raw = messages.write_message(
            author, kind, board.signing_public, GROUP, incarnation, sequence, sequence, 0, body
        )
        envelope = messages.seal(raw, board.noise_public, bytes([number % 250 + 1]) * 32, bytes(24))
        self.taken.clear()
        self.world.gateway.link.send(messages.to_line(messages.DELIVER, envelope))
        self.world.run(3, lambda: bool(self.taken))
        opened = [
            messages.read_message(messages.open_sealed(each, self.world.collector.identity.noise_secret))
            for each in self.taken
        ]
        acknowledgements = [messages.read_acknowledgement(each[8]) for each in opened if each[0] == messages.ACK]
        return acknowledgements[-1][:2] if acknowledgements else None

    def restart(self) -> None:
        """Cut the power: only files stay."""
        self.world.boot()
        self.world.run(3)


@pytest.fixture
def got(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what the board's owner has been given."""
    contents: list[bytes] = []
    monkeypatch.setattr(received, "received", lambda content, _storage: contents.append(content))
    return contents


def test_blobs_count_once_and_in_order(got: list[bytes]) -> None:
    downlink = Downlink()
    assert downlink.send(messages.BLOB, 1, b"one") == (INCARNATION, 1)
    assert downlink.send(messages.BLOB, 3, b"three") is None, "not the next: silence, so that it comes again"
    assert downlink.send(messages.BLOB, 2, b"two") == (INCARNATION, 2)
    assert downlink.send(messages.BLOB, 1, b"one") == (INCARNATION, 2)
    assert downlink.send(messages.BLOB, 3, b"three") == (INCARNATION, 3)
    downlink.restart()
    assert downlink.send(messages.BLOB, 3, b"three") == (INCARNATION, 3)
    assert got == [b"one", b"two", b"three"]


def test_the_board_continues_without_messages_reported_lost(got: list[bytes]) -> None:
    downlink = Downlink()
    assert downlink.send(messages.LOSS, 3, messages.write_loss(EXPIRED, [(1, 2)], [])) == (INCARNATION, 3)
    assert downlink.send(messages.RESUME, 1, cbor.encode([[4, 9]])) == (INCARNATION, 9)
    assert downlink.send(messages.BLOB, 10, b"ten") == (INCARNATION, 10)
    assert downlink.send(messages.BLOB, 1, b"anew", b"another!") == (b"another!", 1)
    assert got == [b"ten", b"anew"]


def test_a_board_listens_to_its_collector_alone(got: list[bytes]) -> None:
    downlink = Downlink()
    stranger = Identity(b"\x01" * 32, b"\x02" * 32)
    refused = downlink.world.board.counters["refused"]
    assert downlink.send(messages.BLOB, 1, b"mine", author=stranger) is None
    assert downlink.send(messages.TELEMETRY, 1, b"odd") is None
    assert downlink.world.board.counters["refused"] == refused + 2
    assert got == []


def test_a_blob_that_cannot_be_used_does_not_come_back_for_ever() -> None:
    downlink = Downlink()
    for number, content in enumerate((b"\xff", b"[]", b'{"uart": 1}', b'{"interval_seconds": 0}', b"{"), 1):
        assert downlink.send(messages.BLOB, number, content) == (INCARNATION, number)
    assert [downlink.world.board.counters[name] for name in ("blobs", "blobs_failed")] == [0, 5]
    assert SETTINGS_FILE not in downlink.world.files.held
    assert not downlink.world.board.restart_wanted


def test_settings_come_from_the_collector() -> None:
    downlink = Downlink()
    downlink.world.files.write(SETTINGS_FILE, b'{"mtu": 256, "interval_seconds": 10}')
    downlink.send(messages.BLOB, 1, b'{"interval_seconds": 60, "batch_seconds": 600}')
    assert json.loads(downlink.world.files.held[SETTINGS_FILE]) == {
        "mtu": 256,
        "interval_seconds": 60,
        "batch_seconds": 600,
    }
    assert downlink.world.board._settings.interval_us == 60_000_000, "without a restart"  # noqa: SLF001
    assert not downlink.world.board.restart_wanted


@pytest.mark.parametrize("seed", range(3))
def test_blobs_through_a_damaged_line(got: list[bytes], seed: int) -> None:
    downlink = Downlink()
    downlink.world.permille, downlink.world.rng.state = 10, seed + 1
    for number in range(1, 6):
        while downlink.send(messages.BLOB, number, b"%d" % number) != (INCARNATION, number):
            continue
    assert got == [b"1", b"2", b"3", b"4", b"5"]


def test_a_collector_tells_its_boards_a_new_key() -> None:
    downlink = Downlink()
    collector = downlink.world.collector
    renewed = Identity(b"\x07" * 32, b"\x0b" * 32)
    for number, unusable in enumerate((b"", bytes(32), bytes(31)), 1):
        assert downlink.send(messages.COLLECTOR_KEY, number, unusable) is None
    assert downlink.send(messages.BLOB, 1, b"still heard") == (INCARNATION, 1)
    was, collector.identity = collector.identity, renewed
    assert downlink.send(messages.COLLECTOR_KEY, 2, renewed.noise_public, author=was) == (INCARNATION, 2)
    downlink.restart()
    assert downlink.send(messages.BLOB, 3, b"under the new key") == (INCARNATION, 3)
