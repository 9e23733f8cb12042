"""The bodies of messages that carry history (docs/protocol/history.md, "History").

* `OPERATIONS`: `[[operation, ...], more]`: operations, each after those that it follows; `more` means that the sender
  has others that it believes the recipient lacks.
* `HISTORY_PULL`: `[[[author, incarnation, number], ...], [id, ...]]`: how far the asker has come in each log, and
  operations that it wants by id. To members that support it: `[salt, only, tags, least, [number, ...], [id, ...]]`,
  where short tags replace the logs, and numbers count from `least`: so comparing a hundred logs costs an eighth. `only`
  means that it asks for nothing of other logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from covey.core import crypto
from covey.core.history.operation import ID_BYTES, Log
from covey.core.ids import INCARNATION_BYTES, KEY_BYTES, OperationId
from covey.core.wire import cbor
from covey.core.wire.envelope import sealed_length
from covey.errors import MalformedError
from covey.limits.history import (
    BUNDLE_OPERATION_BYTES,
    BUNDLE_OPERATIONS,
    LOG_TAG_BYTES,
    MAXIMUM_LOGS,
    MAXIMUM_OPERATION_BYTES,
    MAXIMUM_WANTED,
)
from covey.limits.message import MAXIMUM_SEQUENCE, MESSAGE_OVERHEAD_BYTES

_TAG_DOMAIN = b"covey/1 log tag"
LOG_SALT_BYTES = 8
_FIELDS = 2
"""Of a request that names logs by themselves."""
_END_FIELDS = 3
_BUNDLE_BYTES = BUNDLE_OPERATION_BYTES + MAXIMUM_OPERATION_BYTES + 16
_PULL_BYTES = MAXIMUM_LOGS * (KEY_BYTES + INCARNATION_BYTES + 16) + MAXIMUM_WANTED * (ID_BYTES + 2) + 16


@dataclass(frozen=True, slots=True)
class OperationBundle:
    """Operations, oldest first, and about how many more their sender believes the recipient to lack."""

    operations: tuple[bytes, ...] = field(repr=False)
    more: int = 0

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode_growing([list(self.operations), self.more])

    @classmethod
    def from_wire(cls, body: bytes) -> OperationBundle:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode_growing(body, _BUNDLE_BYTES),
                "operations",
                cbor.many(cbor.octets_to(MAXIMUM_OPERATION_BYTES), BUNDLE_OPERATIONS),
                cbor.uint(),
            )
        )


def bundle_payload_bytes(operations: int, length: int) -> int:
    """Return how large a publish is at most that carries some operations, which are `length` bytes together."""
    return sealed_length(length + 5 * operations + 16 + MESSAGE_OVERHEAD_BYTES)


@dataclass(frozen=True, slots=True)
class TaggedEnds:
    """How far an asker has come in logs that are identified only by tags, new for each salt."""

    salt: bytes
    numbers: dict[bytes, int]


def log_tag(salt: bytes, log: Log) -> bytes:
    """Return a log's tag in a request with this salt."""
    return crypto.digest(_TAG_DOMAIN, salt + log.author + log.incarnation)[:LOG_TAG_BYTES]


@dataclass(frozen=True, slots=True)
class HistoryPull:
    """What an asker has, and what it wants besides what comes after that.

    Where the logs are named by tags, `tagged` says how far it has come, and `among` which logs these are. `only` says
    that it asks for nothing of other logs.
    """

    ends: dict[Log, int]
    wanted: tuple[OperationId, ...] = ()
    tagged: TaggedEnds | None = None
    only: bool = False

    def end_of(self, log: Log) -> int:
        """Return after which number of a log the asker lacks what there is."""
        return self.ends.get(log, MAXIMUM_SEQUENCE if self.only else 0)

    def with_tags(self, salt: bytes) -> HistoryPull:
        """Return the same with tags for its logs; as it is where two would have the same one."""
        numbers = {log_tag(salt, log): number for log, number in self.ends.items()}
        if len(numbers) < len(self.ends):
            return self
        return HistoryPull({}, self.wanted, TaggedEnds(salt, numbers), self.only)

    def among(self, logs: Iterable[Log]) -> HistoryPull:
        """Return the same with the logs themselves, of some; one whose tag another one has, too, is left out."""
        if self.tagged is None:
            return self
        salt, numbers = self.tagged.salt, self.tagged.numbers
        tags = [(log_tag(salt, log), log) for log in logs]
        times = Counter(tag for tag, _ in tags)
        ends = {log: numbers[tag] for tag, log in tags if tag in numbers and times[tag] == 1}
        return HistoryPull(ends, self.wanted, only=self.only)

    def to_wire(self) -> bytes:
        """Return the body."""
        if self.tagged is not None:
            tags = sorted(self.tagged.numbers)
            least = min(self.tagged.numbers.values(), default=0)
            numbers = [self.tagged.numbers[tag] - least for tag in tags]
            return cbor.encode_growing(
                [self.tagged.salt, self.only, b"".join(tags), least, numbers, sorted(self.wanted)]
            )
        ends = sorted((log.author, log.incarnation, number) for log, number in self.ends.items())
        return cbor.encode_growing([[list(end) for end in ends], sorted(self.wanted)])

    @classmethod
    def from_wire(cls, body: bytes) -> HistoryPull:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        fields = cbor.decode_growing(body, _PULL_BYTES)
        if isinstance(fields, list) and len(fields) > _FIELDS:
            return _with_tags(fields)
        ends, wanted = cbor.record(
            fields,
            "history pull",
            _ends,
            cbor.many(cbor.octets(ID_BYTES), MAXIMUM_WANTED),
        )
        return cls(ends, wanted)


NOTHING_ASKED = HistoryPull({}, tagged=TaggedEnds(bytes(LOG_SALT_BYTES), {}), only=True)
"""Every member takes it, and has nothing to answer but its acknowledgement."""


def _with_tags(fields: list[object]) -> HistoryPull:
    salt, only, joined, least, numbers, wanted = cbor.record(
        fields,
        "history pull",
        cbor.octets(LOG_SALT_BYTES),
        cbor.boolean,
        cbor.octets_to(MAXIMUM_LOGS * LOG_TAG_BYTES),
        cbor.uint(MAXIMUM_SEQUENCE),
        cbor.many(cbor.uint(MAXIMUM_SEQUENCE), MAXIMUM_LOGS),
        cbor.many(cbor.octets(ID_BYTES), MAXIMUM_WANTED),
    )
    if least != 0 and 0 not in numbers:
        raise MalformedError("the numbers start below their minimum")
    tags = [joined[start : start + LOG_TAG_BYTES] for start in range(0, len(joined), LOG_TAG_BYTES)]
    if len(joined) != LOG_TAG_BYTES * len(numbers) or tags != sorted(set(tags)):
        raise MalformedError("the log tags must ascend, be distinct, and match the numbers in count")
    found = {tag: least + number for tag, number in zip(tags, numbers, strict=True)}
    return HistoryPull({}, wanted, TaggedEnds(salt, found), only)


def _ends(value: object) -> dict[Log, int]:
    """Read how far the asker has come in each log; those of a group of 1,000 members all at once."""
    ends = _plain_ends(value)
    if ends is None:
        ends = list(cbor.many(_end, MAXIMUM_LOGS)(value))  # which says what is wrong
    logs = dict(ends)
    if len(logs) < len(ends):
        raise MalformedError("a log is listed twice")
    return logs


def _plain_ends(value: object) -> list[tuple[Log, int]] | None:
    """Return them if nothing is wrong with any of them."""
    if type(value) is not list or not 0 < len(value) <= MAXIMUM_LOGS:
        return None
    if {*map(type, value)} != {list} or {*map(len, value)} != {_END_FIELDS}:
        return None
    authors, incarnations, numbers = zip(*value, strict=True)
    if {*map(type, authors)} != {bytes} or {*map(type, incarnations)} != {bytes} or {*map(type, numbers)} != {int}:
        return None
    if {*map(len, authors)} != {KEY_BYTES} or {*map(len, incarnations)} != {INCARNATION_BYTES}:
        return None
    if min(numbers) < 0 or max(numbers) > MAXIMUM_SEQUENCE:
        return None
    return [*zip(map(Log, authors, incarnations), numbers, strict=True)]


def _end(value: object) -> tuple[Log, int]:
    author, incarnation, number = cbor.record(
        value, "log", cbor.octets(KEY_BYTES), cbor.octets(INCARNATION_BYTES), cbor.uint(MAXIMUM_SEQUENCE)
    )
    return Log(author, incarnation), number
