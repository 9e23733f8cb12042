"""A board without its firmware: what it signs, seals and opens, by the code that real boards run."""

from __future__ import annotations

import hashlib
import random
from collections import deque
from typing import Any

from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import BOARD, GroupManifest, Member
from covey.core.ids import DeviceKey, GroupId
from covey.ports import SerialDown, SerialMessage, SerialUp
from covey_boards.device.identity import Identity
from covey_boards.shared import cbor, line_orders, link_machine, messages
from tests.fleet import Device

BATCH = b"a batch"


class Board:
    """One board, which may be told a collector."""

    def __init__(self, name: str) -> None:
        self._rng = random.Random(name)

        def secret(kind: str) -> bytes:
            return hashlib.blake2b(f"{name} {kind}".encode(), digest_size=32).digest()

        self.name = name
        self.identity = Identity(secret("signing"), secret("noise"))
        self.keys = DeviceKeys(self.identity.signing_public, self.identity.noise_public)
        self.incarnation = self._rng.randbytes(8)
        self.sent = 0

    @property
    def key(self) -> DeviceKey:
        """By what others know it."""
        return self.keys.signing_public

    @property
    def member(self) -> Member:
        """How a group lists it."""
        return Member(self.keys, self.name, capabilities=(BOARD,))

    def message(self, to: DeviceKeys, group_id: GroupId, kind: int = messages.TELEMETRY, body: bytes = BATCH) -> bytes:
        """Return the next message, sealed."""
        self.sent += 1
        return self.sealed(to, group_id, kind, body, self.sent)

    def sealed(self, to: DeviceKeys, group_id: GroupId, kind: int, body: bytes, number: int) -> bytes:
        """Return a message with a sequence of the caller's choice, sealed."""
        message = messages.write_message(
            self.identity, kind, to.signing_public, group_id, self.incarnation, number, number, 0, body
        )
        return bytes(messages.seal(message, to.noise_public, self._rng.randbytes(32), self._rng.randbytes(24)))

    def acknowledged(self, envelope: bytes) -> int:
        """Return up to where the acknowledgement in an envelope reaches."""
        fields = messages.read_message(messages.open_sealed(envelope, self.identity.noise_secret))
        assert fields[0] == messages.ACK
        assert fields[2] == self.key
        incarnation, upto, _ = messages.read_acknowledgement(fields[8])
        assert incarnation == self.incarnation
        return int(upto)


def enrol(board: Board, gateway: Device, group_id: GroupId) -> None:
    """Let a board into a group, as its gateway does."""

    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        return draft.adding(board.member)

    with gateway.store.transaction():
        gateway.node.actions.change(group_id, edit, gateway.now)


class BoardOnLine(Board):
    """A board at its end of a serial line: bytes in, bytes out, in milliseconds of its own."""

    def __init__(self, name: str, mtu: int = 256) -> None:
        super().__init__(name)
        self._mtu = mtu
        self.collector: DeviceKeys | None = None
        self.group_id = messages.NO_GROUP
        self.times: list[tuple[int, bool]] = []
        self.ring: list[tuple[int, bytes]] = []
        self.acknowledged_up_to = 0
        self.blobs: list[bytes] = []
        self.deaf = False
        self.boots = 0
        self.boot()

    def boot(self) -> None:
        """Start: what is not stored is gone."""
        self.boots += 1
        self.link = link_machine.Link(self._rng.randbytes(8), mtu=self._mtu)
        self.numbers: dict[int, int] = {}

    def measure(self, body: bytes = BATCH) -> None:
        """Write a message, and keep it until the collector has it."""
        assert self.collector is not None
        self.ring.append((self.sent + 1, self.message(self.collector, self.group_id, body=body)))
        self.carry(*self.ring[-1])

    def carry(self, number: int, envelope: bytes) -> None:
        """Give an envelope to the link."""
        assert self.collector is not None
        self.say(messages.CARRY, self.collector.signing_public, envelope)
        self.numbers[len(self.numbers)] = number

    def say(self, kind: int, *fields: object) -> None:
        """Queue any message of the line."""
        assert self.link.send(messages.to_line(kind, *fields)) is not None

    def identify(self) -> None:
        """Say who this is."""
        collector = self.collector.signing_public if self.collector else bytes(32)
        keys = self.key, self.keys.noise_public, self.identity.proof
        self.say(messages.IDENTIFY, *keys, collector, "a test's board 1")

    def turn(self, received: bytes, now_ms: int) -> bytes:
        """Take bytes, do what is due, and return what goes to the line."""
        self.link.receive_bytes(received, now_ms)
        deadline = self.link.next_deadline()
        if deadline is not None and now_ms >= deadline:
            self.link.handle_deadline(now_ms)
        while (event := self.link.next_event()) is not None:
            if isinstance(event, link_machine.LinkUp):
                self.identify()
            elif isinstance(event, link_machine.Message):
                self.link.acknowledge(event.token)
                if line_orders.from_line(event.data)[0] == messages.RESTART:
                    last_words = bytes(self.link.bytes_to_send(now_ms))
                    self.boot()
                    return last_words
                self._receive(*line_orders.from_line(event.data))
        return bytes(self.link.bytes_to_send(now_ms))

    def _receive(self, kind: int, *fields: Any) -> None:
        if kind == messages.TIME:
            self.times.append((fields[0], fields[1]))
        elif kind == messages.ENROL and self.collector is None:
            self.group_id, self.collector = fields[0], DeviceKeys(fields[1], fields[2])
            self.identify()
        elif kind == messages.DELIVER:
            opened = messages.read_message(messages.open_sealed(fields[0], self.identity.noise_secret))
            if opened[0] == messages.BLOB:
                self._take_blob(opened)
                return
            self.acknowledged_up_to = self.acknowledged(fields[0])
            self.ring = [entry for entry in self.ring if entry[0] > self.acknowledged_up_to]

    def _take_blob(self, opened: list[Any]) -> None:
        """Take a blob that is the next one, and answer what is not beyond it; as a board that is out of order, it may
        also do neither."""
        incarnation, link_seq = opened[4], opened[6]
        if self.deaf or link_seq > len(self.blobs) + 1:
            return
        if link_seq > len(self.blobs):
            self.blobs.append(opened[8])
        answer = cbor.encode([incarnation, [len(self.blobs), []]])
        assert self.collector is not None
        envelope = self.sealed(self.collector, messages.NO_GROUP, messages.ACK, answer, 0)
        self.say(messages.CARRY, self.collector.signing_public, envelope)


class MemoryLine:
    """Implements `ports.SerialLink`: both ends' links in step, without a port. `broken` loses everything."""

    def __init__(self, board: BoardOnLine, port: str = "/dev/ttyTEST") -> None:
        self.port = port
        self.board = board
        self.link = link_machine.Link(random.Random(port).randbytes(8))
        self.broken = False
        self._up = False
        self.now_ms = 0
        self._downwards = b""
        self.events: deque[SerialUp | SerialDown | SerialMessage] = deque()

    def start(self) -> None:
        """Nothing to open."""

    def stop(self) -> None:
        """Nothing to close."""

    def send(self, message: bytes) -> bool:
        """Queue a message for the board."""
        return self._up and self.link.send(message) is not None

    def next_event(self) -> SerialUp | SerialDown | SerialMessage | None:
        """Return what happened."""
        return self.events.popleft() if self.events else None

    def acknowledge(self, message: SerialMessage) -> None:
        """Let the board forget a message."""
        self.link.acknowledge(message.token)

    def statistics(self) -> dict[str, int]:
        """Return a counter of the line."""
        return {"messages_received": self.link.statistics.messages_received}

    def pass_bytes(self, milliseconds: int = 10) -> None:
        """Let time go by, with both ends speaking."""
        for _ in range(milliseconds):
            self.now_ms += 1
            upwards = self.board.turn(b"" if self.broken else self._downwards, self.now_ms)
            self.link.receive_bytes(b"" if self.broken else upwards, self.now_ms)
            deadline = self.link.next_deadline()
            if deadline is not None and self.now_ms >= deadline:
                self.link.handle_deadline(self.now_ms)
            while (event := self.link.next_event()) is not None:
                if isinstance(event, link_machine.LinkUp):
                    self._up = True
                    self.events.append(SerialUp(event.restarted))
                elif isinstance(event, link_machine.LinkDown):
                    self._up = False
                    self.events.append(SerialDown(event.reason))
                elif isinstance(event, link_machine.Message):
                    self.events.append(SerialMessage(bytes(event.data), event.token))
            self._downwards = bytes(self.link.bytes_to_send(self.now_ms))
