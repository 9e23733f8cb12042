"""What the world knows for certain, and the invariants that it holds everybody to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from agent.core import wire
from agent.core.message import Loss, Message, MessageType, read_message
from agent.core.sequences import SequenceSet

MARK = b"covey-sim-plaintext:"
"""Stands in everything submitted: a relay that sees it sees plaintext."""


class ViolationError(AssertionError):
    """An invariant does not hold."""


def check(holds: object, rule: str) -> None:
    """Raise unless a rule holds."""
    if not holds:
        raise ViolationError(rule)


@dataclass(frozen=True, slots=True)
class Submission:
    """Something that an application handed over, and that a commit accepted."""

    author: bytes
    recipients: frozenset[bytes]
    telemetry: bool


class Ledger:
    """Every fact here was committed somewhere, or seen by the relay."""

    def __init__(self) -> None:
        self.accepted: dict[bytes, Submission] = {}
        self.delivered: dict[tuple[bytes, bytes], bytes] = {}
        self.landed: dict[tuple[bytes, bytes, int], bytes] = {}
        self.landed_bodies: dict[bytes, int] = {}
        self.refused = 0
        self._batches: dict[bytes, Message] = {}
        self._losses: list[tuple[bytes, bytes, Loss]] = []
        self._withdrawn: dict[tuple[bytes, bytes], Message] = {}
        self._received: dict[tuple[bytes, bytes, bytes], SequenceSet] = {}
        self._sequences: dict[tuple[bytes, bytes, int], bytes] = {}
        self._link_sequences: set[tuple[bytes, bytes, bytes, int]] = set()
        self._nonces: dict[bytes, bytes] = {}

    # -- commits ------------------------------------------------------------------------------------------------------

    def accept(self, body: bytes, submission: Submission) -> None:
        """Note that a commit holds a submission."""
        check(body not in self.accepted, "the world submits everything once")
        self.accepted[body] = submission

    def queue(self, raw: bytes) -> None:
        """Note that a commit holds a message for somebody else."""
        message = read_message(raw, verify=False)
        key = (message.author, message.incarnation, message.seq)
        check(self._sequences.setdefault(key, raw) == raw, "an (author, incarnation, seq) was used twice")
        link = (message.author, message.incarnation, message.recipient, message.link_seq)
        check(link not in self._link_sequences, "a link sequence was used twice")
        self._link_sequences.add(link)
        if message.type is MessageType.TELEMETRY:
            self._batches[message.body] = message

    def withdraw(self, raw: bytes) -> None:
        """Note that a commit has set a message aside that no relay carries."""
        message = read_message(raw, verify=False)
        self._withdrawn[message.recipient, message.body] = message

    def receive(self, recipient: bytes, author: bytes, incarnation: bytes, received: SequenceSet) -> None:
        """Note that a commit holds what has come over a link."""
        self._received[recipient, author, incarnation] = received

    def deliver(self, recipient: bytes, message: Message) -> None:
        """Note that a commit holds a blob in an inbox."""
        submission = self.accepted.get(message.body)
        check(submission is not None, "something that nobody submitted came to an inbox")
        assert submission is not None
        check(submission.author == message.author, "a blob came under another author's name")
        check(recipient in submission.recipients and not submission.telemetry, "a blob came to the wrong inbox")
        check((recipient, message.body) not in self.delivered, "a blob came twice")
        self.delivered[recipient, message.body] = message.author

    def land(self, raw: bytes) -> None:
        """Note that a vault manifest lists a segment with this message."""
        message = read_message(raw)
        key = (message.author, message.incarnation, message.seq)
        check(key not in self.landed, "a message landed twice")
        self.landed[key] = raw
        if message.type is MessageType.TELEMETRY:
            submission = self.accepted.get(message.body)
            check(submission is not None and submission.author == message.author, "a stranger's telemetry landed")
            self.landed_bodies[message.body] = self.landed_bodies.get(message.body, 0) + 1
        elif message.type is MessageType.LOSS:
            self._losses.append((message.author, message.incarnation, Loss.from_wire(message.body)))

    def check_freed(self, raw: bytes, *, lands: bool) -> None:
        """Check that a sender may forget a message: its recipient holds it durably."""
        message = read_message(raw, verify=False)
        received = self._received.get((message.recipient, message.author, message.incarnation), SequenceSet())
        check(message.link_seq in received, "an outbox row was freed before its recipient had it")
        if message.type is MessageType.BLOB:
            check((message.recipient, message.body) in self.delivered, "a blob was freed before it was delivered")
        elif message.type is MessageType.TELEMETRY or lands:
            key = (message.author, message.incarnation, message.seq)
            check(key in self.landed, "telemetry was freed before it landed")

    # -- the relay's eyes ---------------------------------------------------------------------------------------------

    def seen_by_relay(self, payload: bytes) -> None:
        """Check what a relay sees of an envelope."""
        check(MARK not in payload, "plaintext at the relay")
        _, ephemeral_public, nonce, _ = wire.record(
            wire.decode(payload, 2_000_000), "envelope", wire.uint(), wire.octets(32), wire.octets(24), _anything
        )
        self.seen_nonce(ephemeral_public + nonce, payload)

    def seen_nonce(self, nonce: bytes, sealed: bytes) -> None:
        """Check that a nonce seals one thing only."""
        digest = hashlib.blake2b(sealed, digest_size=16).digest()
        check(self._nonces.setdefault(nonce, digest) == digest, "a nonce was used twice")

    # -- the end ------------------------------------------------------------------------------------------------------

    def check_complete(self) -> None:
        """Check that everything accepted has come to everybody it was for, once, or is reported lost."""
        for body, submission in self.accepted.items():
            if submission.telemetry:
                landed = self.landed_bodies.get(body, 0)
                check(landed == 1 or (not landed and self._reported(body)), "accepted telemetry is not in the vault")
                continue
            for recipient in submission.recipients:
                come = (recipient, body) in self.delivered
                check(come or self._told(recipient, body), "an accepted blob never came")

    def _reported(self, body: bytes) -> bool:
        """Say whether a signed loss record in the vault covers a batch."""
        batch = self._batches[body]
        return any(
            (author, incarnation) == (batch.author, batch.incarnation) and loss.first <= batch.link_seq <= loss.last
            for author, incarnation, loss in self._losses
        )

    def _told(self, recipient: bytes, body: bytes) -> bool:
        """Say whether a blob was set aside, and its recipient knows that it will not come."""
        message = self._withdrawn.get((recipient, body))
        return message is not None and message.link_seq in self._received.get(
            (recipient, message.author, message.incarnation), SequenceSet()
        )


def _anything(value: object) -> object:
    return value
