"""What the world knows for certain, and the invariants that it holds everybody to."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import cbor2

from covey.core.crypto import NONCE_BYTES
from covey.core.group.messages import Bundle
from covey.core.ids import KEY_BYTES, DeviceKey, Incarnation, LinkSeq
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, split_number
from covey.core.telemetry.decoding import read_batch
from covey.core.telemetry.summaries import numbers_of, read_summary
from covey.core.wire.envelope import LINKED, TAG_BYTES
from covey.core.wire.message import Loss, Message, MessageType, read_message
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import MAXIMUM_RECEIVED_RANGES

MARK = b"covey-sim-plaintext:"
"""Stands in everything submitted: a relay that sees it sees plaintext."""


class ViolationError(BaseException):
    """An invariant does not hold. The product may not catch it, whatever it guards against."""


def check(holds: object, rule: str) -> None:
    """Raise unless a rule holds."""
    if not holds:
        raise ViolationError(rule)


@dataclass(frozen=True, slots=True)
class Submission:
    """Something that an application handed over, and that a commit accepted."""

    author: DeviceKey
    recipients: frozenset[DeviceKey]
    telemetry: bool


@dataclass(frozen=True, slots=True)
class Backup:
    """What was so when a device was backed up."""

    accepted: frozenset[bytes]
    inbox: tuple[bytes, ...]
    erased: tuple[bytes, ...]
    sequences: set[tuple[DeviceKey, Incarnation, int]]
    link_sequences: set[tuple[DeviceKey, Incarnation, DeviceKey, LinkSeq]]


class Ledger:
    """Every fact here was committed somewhere, or seen by the relay."""

    def __init__(self, members: frozenset[DeviceKey] = frozenset()) -> None:
        self.members = members
        self.accepted: dict[bytes, Submission] = {}
        self.delivered: dict[tuple[bytes, bytes], Message] = {}
        self.landed: dict[tuple[bytes, bytes, int], bytes] = {}
        self.landed_bodies: dict[bytes, int] = {}
        self.refused = 0
        self.linked = 0
        self._batches: dict[bytes, Message] = {}
        self._forgotten: set[tuple[bytes, bytes]] = set()
        """What was set aside by a life of its author that is lost, with the record of it."""
        self._losses: list[tuple[bytes, bytes, Loss]] = []
        self._queued_summaries: list[Message] = []
        self._thinned: set[tuple[bytes, bytes, int]] = set()
        """Author, incarnation and number of each batch that a summary in a vault has taken the place of."""
        self.summaries = 0
        self._withdrawn: dict[tuple[DeviceKey, bytes], Message] = {}
        self._received: dict[tuple[DeviceKey, DeviceKey, Incarnation], SequenceSet] = {}
        self._received_in_lost: dict[tuple[DeviceKey, DeviceKey, Incarnation], list[SequenceSet]] = defaultdict(list)
        self._sequences: dict[tuple[DeviceKey, Incarnation, int], bytes] = {}
        self._link_sequences: set[tuple[DeviceKey, Incarnation, DeviceKey, LinkSeq]] = set()
        self._links_of_lost: set[tuple[DeviceKey, Incarnation, DeviceKey, LinkSeq]] = set()
        """Numbers that a life has given which is lost, and that the next one may give again."""
        self._nonces: dict[bytes, bytes] = {}
        self.inboxes: dict[bytes, list[bytes]] = {}
        self.erased: dict[bytes, list[bytes]] = {}
        """What an inbox lost unread, with the group in which it came."""
        self._came: set[tuple[bytes, bytes]] = set()
        self._excused: set[tuple[DeviceKey, bytes]] = set()
        self.parted: set[DeviceKey] = set()
        """Devices that shared a group with others which was destroyed: what waited for them need not come."""
        self.without_imprints: set[tuple[DeviceKey, DeviceKey]] = set()
        """(author, recipient): the recipient has acknowledged without imprints, so what it gets it may get twice."""
        self._to_report: set[tuple[DeviceKey, bytes]] = set()
        """Blobs that were accepted in commits that a disk has lost: what has not come counts as lost."""

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
        link = _link_sequence(message)
        check(link not in self._link_sequences, "a link sequence was used twice")
        self._link_sequences.add(link)
        if message.type is MessageType.GROUP_MANIFEST and message.recipient not in self.members:
            check(not Bundle.from_wire(message.body).secrets, "a secret for somebody who is in no group of its author")
        if message.type is MessageType.TELEMETRY:
            self._batches[content(message)] = message
        if message.type is MessageType.SUMMARY:
            self._queued_summaries.append(message)

    def withdraw(self, raw: bytes) -> None:
        """Note that a commit has set a message aside that no relay carries."""
        message = read_message(raw, verify=False)
        self._withdrawn[message.recipient, content(message)] = message

    def receive(self, recipient: DeviceKey, author: DeviceKey, incarnation: Incarnation, received: SequenceSet) -> None:
        """Note that a commit holds what has come over a link."""
        check(len(received.ranges) <= MAXIMUM_RECEIVED_RANGES, "a link remembers more than is bounded")
        self._received[recipient, author, incarnation] = received

    def deliver(self, recipient: DeviceKey, message: Message) -> None:
        """Note that a commit holds a blob in an inbox."""
        submission = self.accepted.get(message.body)
        check(submission is not None, "something that nobody submitted came to an inbox")
        assert submission is not None
        check(submission.author == message.author, "a blob came under another author's name")
        check(recipient in submission.recipients and not submission.telemetry, "a blob came to the wrong inbox")
        before = self.delivered.get((recipient, message.body))
        if before is not None and (message.author, recipient) not in self.without_imprints:
            check(self._was_mistaken(before) or self._was_mistaken(message), "a blob came twice")
        self.delivered[recipient, message.body] = message
        self._came.add((recipient, message.body))
        self.inboxes.setdefault(recipient, []).append(message.body)

    def erase(self, recipient: DeviceKey, bodies: list[bytes]) -> None:
        """Note that a commit has erased unread blobs together with their group."""
        self.erased.setdefault(recipient, []).extend(bodies)

    def _was_mistaken(self, message: Message) -> bool:
        """Say whether its number stood for another message, of a lost life, for a life of its recipient that is lost.

        That life's acknowledgement may come after all, and has the author send under a new number what has come under
        this one (docs/protocol/groups.md, section 20, what holds).
        """
        lost = self._received_in_lost.get((message.recipient, message.author, message.incarnation), ())
        return _link_sequence(message) in self._links_of_lost and any(message.link_seq in received for received in lost)

    def land(self, raw: bytes) -> None:
        """Note that a vault manifest lists a segment with this message."""
        message = read_message(raw)
        key = (message.author, message.incarnation, message.seq)
        check(self.landed.get(key, raw) == raw, "another message has landed under a number")
        check(key not in self.landed, "a message landed twice")
        self.landed[key] = raw
        if message.type is MessageType.TELEMETRY:
            batch = content(message)
            submission = self.accepted.get(batch)
            check(submission is not None and submission.author == message.author, "a stranger's telemetry landed")
            self.landed_bodies[batch] = self.landed_bodies.get(batch, 0) + 1
        elif message.type is MessageType.SUMMARY:
            self._land_summary(message)
        elif message.type is MessageType.LOSS:
            loss = Loss.from_wire(message.body)
            self._losses.append((message.author, loss.incarnation or message.incarnation, loss))

    def _land_summary(self, message: Message) -> None:
        """Note which batches a summary replaces, and check that it says of their readings what they said."""
        numbers, summary = read_summary(message.body)
        covered = {number for first, last in numbers for number in range(first, last + 1)}
        self._thinned |= {(message.author, message.incarnation, number) for number in covered}
        self.summaries += 1
        batches = [
            read_batch(body)
            for body, batch in self._batches.items()
            if batch.author == message.author and split_number(batch.body)[0] in covered
        ]
        if len(batches) != len(covered):  # another life has used a number for another batch
            return
        said = [value for batch in batches for name, _, _, value in batch.readings() if name == "n"]
        tenths = [round(float(value) * 10) for value in said]
        (series,) = [each for each in summary.series if each.name == "n"]
        windows, places = series.windows, 10 ** (1 - series.scale)
        check(sum(window.readings for window in windows) == len(tenths), "a summary counts other readings")
        check(places * sum(window.total for window in windows) == sum(tenths), "a summary's sum is wrong")
        check(places * min(window.minimum for window in windows) == min(tenths), "a summary's minimum is wrong")
        check(places * max(window.maximum for window in windows) == max(tenths), "a summary's maximum is wrong")

    def check_freed(self, raw: bytes, *, lands: bool) -> None:
        """Check that a sender may forget a message: its recipient holds it durably."""
        message = read_message(raw, verify=False)
        if self.parted & {message.recipient, message.author}:
            return
        link = (message.recipient, message.author, message.incarnation)
        held = [self._received.get(link, SequenceSet()), *self._received_in_lost.get(link, ())]
        check(
            any(message.link_seq in received for received in held),
            "an outbox row was freed before its recipient had it",
        )
        if message.type is MessageType.BLOB:
            came = (message.recipient, message.body) in self._came
            reported = self._loss_reported(message.recipient, message.body)
            excused = reported or (message.recipient, message.body) in self._excused
            check(came or excused, "a blob was freed before it was delivered")
        elif message.type is MessageType.SUMMARY:
            key = (message.author, message.incarnation, message.seq)
            admitted = [self._number_reported(message, first) for first, _ in numbers_of(message)]
            check(self.landed.get(key) == raw or any(admitted), "a summary was freed before it landed")
        elif message.type is MessageType.TELEMETRY or lands:
            key = (message.author, message.incarnation, message.seq)
            body = content(message)
            gone = self._reported(body) or (message.recipient, body) in self._excused
            check(self.landed.get(key) == raw or gone, "telemetry was freed before it landed")

    # -- restored devices ---------------------------------------------------------------------------------------------

    def back_up(self, device: DeviceKey) -> Backup:
        """Return what has been promised by and to a device so far."""
        return Backup(
            frozenset(self.accepted),
            tuple(self.inboxes.get(device, ())),
            tuple(self.erased.get(device, ())),
            {key for key in self._sequences if key[0] == device},
            {key for key in self._link_sequences if key[0] == device},
        )

    def restore(self, device: DeviceKey, backup: Backup, *, noticed: bool, reports: bool = False) -> None:
        """Forget what the device has lost: what it accepted and got since.

        Where it does not know of it, it gives the same numbers again; what it accepts from now on comes all the same.
        `reports`: it knows how far it had come, and its recipients are to hear what they lack.
        """
        for body in self.inboxes.get(device, [])[len(backup.inbox) :]:
            self.delivered.pop((device, body), None)
            self._excused.add((device, body))
        self.inboxes[device] = list(backup.inbox)
        self.erased[device] = list(backup.erased)
        self._excused |= {key for key in self._withdrawn if key[0] == device and self._loss_reported(*key)}
        self._forgotten |= {key for key, message in self._withdrawn.items() if message.author == device}
        for body, submission in self.accepted.items():
            if submission.author == device and body not in backup.accepted:
                gone = {(recipient, body) for recipient in submission.recipients}
                self._excused |= gone
                if reports and not submission.telemetry:
                    self._to_report |= gone
        self._to_report = {key for key in self._to_report if key[0] != device}  # it has forgotten what it was told
        for link, received in self._received.items():
            if link[0] == device:  # an acknowledgement of it may still be under way
                self._received_in_lost[link].append(received)
        if noticed:
            return
        lost = {key for key in self._link_sequences if key[0] == device} - backup.link_sequences
        self._link_sequences -= lost
        self._links_of_lost |= lost
        for key in {key for key in self._sequences if key[0] == device} - backup.sequences:
            del self._sequences[key]

    def lose(self, device: DeviceKey) -> None:
        """Forget all that a collector has lost with its database: all but what has landed."""
        self.restore(device, Backup(frozenset(), (), (), set(), set()), noticed=True)

    # -- the relay's eyes ---------------------------------------------------------------------------------------------

    def seen_by_relay(self, payload: bytes) -> None:
        """Check what a relay sees of an envelope."""
        check(MARK not in payload, "plaintext at the relay")
        kind, first, second, _ = cbor2.loads(payload)  # whether it is well formed is for its recipient to check
        if kind == LINKED:
            tag, counter = first, second
            check(len(tag) == TAG_BYTES, "a tag of another length")
            self.linked += 1
            self.seen_nonce(tag + counter.to_bytes(16), payload)
            return
        check((len(first), len(second)) == (KEY_BYTES, NONCE_BYTES), "a key or a nonce of another length")
        self.seen_nonce(first + second, payload)

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
                [recipient] = submission.recipients
                gone = not landed and (
                    self._is_thinned(body) or self._reported(body) or (recipient, body) in self._excused
                )
                check(landed == 1 or gone, "accepted telemetry is not in the vault, once")
                continue
            for recipient in submission.recipients:
                come = (recipient, body) in self.delivered or (recipient, body) in self._excused
                check(come or self._loss_reported(recipient, body), "an accepted blob never came")

    def check_counted(self, recipient: DeviceKey, lost: int) -> None:
        """Check that whatever was set aside on its way to a device counts there as lost, whatever closed its place."""
        reported = sum(
            self._loss_reported(*key)
            for key, message in self._withdrawn.items()
            if key[0] == recipient and message.type is MessageType.BLOB
            if key not in self._came | self._excused | self._forgotten
            if _link_sequence(message) not in self._links_of_lost  # its place there is the lost life's (section 20)
        )
        reported += sum(key[0] == recipient for key in self._to_report - self._came)
        check(lost >= reported, "a loss that its recipient does not count")

    def _reported(self, body: bytes) -> bool:
        """Say whether a signed loss record in the vault covers a batch.

        One that was signed again for a later incarnation has another place there, and the number that it always had.
        """
        batch = self._batches[body]
        return self._number_reported(batch, split_number(batch.body)[0])

    def _number_reported(self, batch: Message, number: int) -> bool:
        places = [batch.link_seq] + [
            each.link_seq
            for each in self._queued_summaries
            if (each.author, each.incarnation) == (batch.author, batch.incarnation)
            and any(first <= number <= last for first, last in numbers_of(each))
        ]
        return any(
            author == batch.author
            and any(first <= number <= last for first, last in loss.numbers)
            and (
                incarnation != batch.incarnation
                or any(first <= place <= last for first, last in loss.places for place in places)
            )
            for author, incarnation, loss in self._losses
        )

    def _is_thinned(self, body: bytes) -> bool:
        """Say whether a summary in a vault has taken the place of a batch."""
        batch = self._batches[body]
        number = split_number(batch.body)[0]
        return any(author == batch.author and number == thinned for author, _, thinned in self._thinned)

    def _loss_reported(self, recipient: DeviceKey, body: bytes) -> bool:
        """Say whether a blob was set aside, and its recipient knows that it will not come."""
        message = self._withdrawn.get((recipient, body))
        return message is not None and message.link_seq in self._received.get(
            (recipient, message.author, message.incarnation), SequenceSet()
        )


def measured(number: int, said: bytes) -> bytes:
    """Return a batch of two readings: a number, of which sums are known, and what marks the batch."""
    builder = BatchBuilder()
    at = _EPOCH_US + number * 7_000_000
    builder.add("n", "", at, number / 10)
    builder.add("said", "", at, said)
    return builder.body(ClockReading(bytes(8), 1, at, ClockKind.ASSERTED))


_EPOCH_US = 1_790_000_000_000_000


def content(message: Message) -> bytes:
    """Return what an application handed over: of telemetry the batch, without the number that it was given."""
    return split_number(message.body)[1] if message.type is MessageType.TELEMETRY else message.body


def _link_sequence(message: Message) -> tuple[DeviceKey, Incarnation, DeviceKey, LinkSeq]:
    return message.author, message.incarnation, message.recipient, message.link_seq
