"""What a vault holds: the readings and losses that members have signed, and all that is not right in it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tests.outside.members import Membership, read_manifest
from tests.outside.messages import (
    LOSS,
    REASONS,
    SUMMARY,
    TELEMETRY,
    Message,
    is_operation,
    landed_manifest,
    read_loss,
    read_message,
    read_operation,
)
from tests.outside.primitives import RefusedError
from tests.outside.telemetry import Batch, read_summary, read_telemetry
from tests.outside.vault import Erasure, Node, Record, Vault


class Kind(StrEnum):
    """What can be wrong."""

    UNREADABLE = "unreadable"
    FORGED = "forged"
    STRANGER = "stranger"
    GAP = "gap"
    DOUBLED = "doubled"
    LOST = "lost"
    CHANGED = "changed"
    UNSAID = "unsaid"
    UNERASED = "unerased"


class Finding(NamedTuple):
    """Something that is wrong: where, and what."""

    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        """Return a line for people."""
        return f"{self.kind}: {self.where}: {self.what}"


class Key(NamedTuple):
    """What names a telemetry message for good; bytes in hex, as tables have them."""

    author: str
    incarnation: str
    seq: int
    boot: str
    batch_number: int


class Landing(NamedTuple):
    """Who landed a message, and when it had come there."""

    collector: str
    received_at: int


class Link(NamedTuple):
    """An author's incarnation; bytes in hex."""

    author: str
    incarnation: str


class Admission(NamedTuple):
    """A range that its author admits to have lost: places of a link, or numbers of batches."""

    author: str
    incarnation: str
    reason: str
    first: int | None
    last: int | None
    first_number: int | None
    last_number: int | None


@dataclass(slots=True)
class Holdings:
    """What was found in vaults; without `members` nobody is asked for membership."""

    members: Membership | None = None
    batches: dict[Key, Batch] = field(default_factory=dict)
    landings: dict[Key, set[Landing]] = field(default_factory=dict)
    admissions: set[Admission] = field(default_factory=set)
    erased: dict[Link, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Numbers of batches that nodes say were erased on purpose."""
    findings: list[Finding] = field(default_factory=list)

    def take(self, vault: Vault) -> None:
        """Read all that a vault's nodes list."""
        for node_id in vault.nodes():
            place = f"node {node_id.hex()}"
            try:
                node = vault.node(node_id)
            except RefusedError as error:
                self._note(Kind.UNREADABLE, f"manifest of {place}", str(error))
                continue
            if self.members and not self.members.was_member(node.device):
                self._note(Kind.STRANGER, place, f"of {node.device.hex()}")
            for entry in node.entries:
                try:
                    records, erased = vault.segment(node_id, entry)
                except RefusedError as error:
                    self._note(Kind.UNREADABLE, f"segment {entry.number} of {place}", str(error))
                    continue
                for each in erased:
                    numbers = self.erased[Link(each.author.hex(), each.incarnation.hex())]
                    numbers.update(*(range(first, last + 1) for first, last in each.numbers))
                for place_in_it, record in enumerate(records):
                    self._take_record(node, record, f"record {place_in_it} of segment {entry.number} of {place}")

    def is_erased(self, author: str, incarnation: str, first: int, last: int) -> bool:
        """Say whether nodes say of all these numbers that they were erased."""
        return not {*range(first, last + 1)} - self.erased.get(Link(author, incarnation), set())

    def _take_record(self, node: Node, record: Record, where: str) -> None:
        try:
            if (landed := landed_manifest(record.content)) is not None:
                manifest = read_manifest(landed)
                self._is_members(manifest.issuer, manifest.group, where)
                return
            if is_operation(record.content):
                self._is_members(*read_operation(record.content), where)
                return
            message = read_message(record.content)
            if any(_should_be_gone(each, message, record) for each in node.erasures):
                self._note(Kind.UNERASED, where, f"signed by {message.author.hex()}")
            group = None if message.type == LOSS else message.group
            if not self._is_members(message.author, group, where):
                return
            if message.type == TELEMETRY:
                self._take_batch(node, record, message)
            elif message.type == SUMMARY:
                self._take_summary(message)
            elif message.type == LOSS:
                self._take_loss(message)
        except RefusedError as error:
            self._note(Kind.FORGED, where, str(error))

    def _is_members(self, author: bytes, group: bytes | None, where: str) -> bool:
        """Say whether the author may have signed this, and note it where not."""
        known = self.members is None or self.members.was_member(author, group)
        if not known:
            self._note(Kind.STRANGER, where, f"signed by {author.hex()}")
        return known

    def _take_batch(self, node: Node, record: Record, message: Message) -> None:
        batch = read_telemetry(message.body)
        key = Key(message.author.hex(), message.incarnation.hex(), message.seq, batch.boot.hex(), batch.number)
        self.batches.setdefault(key, batch)
        self.landings.setdefault(key, set()).add(Landing(node.device.hex(), record.received_at))

    def _take_loss(self, message: Message) -> None:
        loss = read_loss(message.body)
        of = (
            message.author.hex(),
            (loss.earlier or message.incarnation).hex(),
            REASONS.get(loss.reason, f"reason_{loss.reason}"),
        )
        self.admissions |= {Admission(*of, *places, None, None) for places in loss.places}
        self.admissions |= {Admission(*of, None, None, *numbers) for numbers in loss.numbers}

    def _take_summary(self, message: Message) -> None:
        summary = read_summary(message.body)
        of = message.author.hex(), message.incarnation.hex(), f"thinned {summary.ratio}"
        self.admissions |= {Admission(*of, None, None, *numbers) for numbers in summary.numbers}

    def readings(self) -> Counter[str]:
        """Return how many different readings each author has."""
        return Counter(key.author for key, batch in self.batches.items() for _ in batch.readings)

    def gaps(self) -> Iterator[Finding]:
        """Find the numbers that no batch and no admission of their author accounts for (section 11)."""
        known: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for key in self.batches:
            known[key.author][key.incarnation].add(key.batch_number)
        for each in self.admissions:
            if each.first_number is not None and each.last_number is not None:
                known[each.author][each.incarnation].update(range(each.first_number, each.last_number + 1))
        for link, numbers in self.erased.items():
            known[link.author][link.incarnation] |= numbers
        for author, incarnations in sorted(known.items()):
            board = self.members is not None and bytes.fromhex(author) in self.members.boards
            missing = [] if board else [_missing(set().union(*incarnations.values()), 1)]
            missing += [_missing(numbers, 1 if board else min(numbers)) for numbers in incarnations.values()]
            for first, last in runs(set().union(*missing)):
                yield Finding(Kind.GAP, f"batches of {author}", f"{first} to {last} came from nobody")

    def _note(self, kind: Kind, where: str, what: str) -> None:
        self.findings.append(Finding(kind, where, what))


def _should_be_gone(erasure: Erasure, message: Message, record: Record) -> bool:
    """Say whether a node has said that a message of this kind, number and time is gone (section 13, *Erasing*)."""
    if not erasure.completed_at or record.number > erasure.last:
        return False
    if erasure.author is None:
        return message.type in {TELEMETRY, SUMMARY, LOSS} and record.received_at < erasure.until
    return message.author == erasure.author and record.received_at <= erasure.until


def _missing(numbers: set[int], first: int) -> set[int]:
    return set(range(first, max(numbers) + 1)) - numbers


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as runs without a hole."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        begins = not found or number > found[-1][1] + 1
        found[len(found) - (not begins) :] = [(number if begins else found[-1][0], number)]
    return found
