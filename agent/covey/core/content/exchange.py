"""Files between members: fetch what this device wants, and give what it has (docs/protocol/content.md, "Content").

1. Nothing is sent without a request, and nothing is queued: a lost pull is repeated.
2. A pull is answered if its author is a member of the file's group and no board, and the file is here completely. A
   member has one portion in progress of each of two files, and receives `PARTS_PER_SECOND`; members take turns.
3. Parts are sent after everything that waits in queues, a few in each turn of the agent, as large as a relay accepts.
4. A device that has fetched a file reports that to its author.
5. A file that is found damaged when a member asks for it is fetched again, as if it had never been complete.
6. The secret that opens a file is requested and given like a file (`secrets.py`), among members only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.content.events import FileArrived, FileDamaged, FileRefused
from covey.core.content.fetch import Fetch
from covey.core.content.messages import ContentAcknowledgement, ContentPart, ContentPull, WantedFile
from covey.core.content.progress import FileProgress
from covey.core.content.secrets import EpochSecrets, SecretProgress
from covey.core.group.manifest import COLLECTOR
from covey.core.ids import ContentHash, DeviceKey, GroupId, OperationId
from covey.core.link.carriage import Carriage
from covey.core.link.rates import TokenBucket
from covey.core.link.send_queue import SendQueue
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.message import Message, MessageType
from covey.errors import NotAMemberError, RateError
from covey.limits.content import (
    CHUNK_BYTES,
    FETCHES_AT_ONCE,
    PARTS_AT_ONCE,
    PARTS_PER_SECOND,
    PARTS_SAVED,
    SECRETS_AT_ONCE,
    SERVED_MEMBERS,
)

if TYPE_CHECKING:
    from covey.core.records.content import ContentRecords

_AROUND_PART = 1_024
"""Bytes of an envelope in addition to the part in it, and a reserve."""

_PORTIONS = 2 * FETCHES_AT_ONCE
"""What one member may be owed: a portion of each file that it fetches, and the next one."""


@dataclass(slots=True)
class _Portion:
    """What is still to be given of a pull."""

    group_id: GroupId
    hash: ContentHash
    position: int
    end: int


@dataclass(slots=True)
class _Served:
    """A member that is owed something."""

    portions: list[_Portion] = field(default_factory=list)
    bucket: TokenBucket = field(default_factory=lambda: TokenBucket(PARTS_PER_SECOND, PARTS_SAVED))


class ContentExchange:
    """What this device asks of members and gives them. All but what `records` keeps is in memory, and bounded."""

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        records: ContentRecords,
        secrets: EpochSecrets,
        queue: SendQueue,
        carriage: Carriage,
    ) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._secrets = secrets
        self._queue = queue
        self._carriage = carriage
        self._fetches: dict[ContentHash, Fetch] | None = None
        self._served: dict[DeviceKey, _Served] = {}

    def refresh(self) -> None:
        """Look at what another process wrote."""
        kept, self._fetches = self._fetches or {}, None
        self._fetches = {
            each.hash: kept.get(each.hash) or Fetch(each, FileProgress(each, self._records.parts))
            for each in self._wanted()
        }
        for secret in self._secrets.wanted()[:SECRETS_AT_ONCE]:
            asked = secret.asked
            if self._holds(asked.group_id):
                self._fetches[asked.hash] = kept.get(asked.hash) or Fetch(asked, SecretProgress(secret))

    def _wanted(self) -> list[WantedFile]:
        return [each for each in self._records.wanted() if self._holds(each.group_id)][:FETCHES_AT_ONCE]

    def _current(self) -> dict[ContentHash, Fetch]:
        if self._fetches is None:
            self.refresh()
        assert self._fetches is not None, "just looked"
        return self._fetches

    def _open_fetches(self) -> list[Fetch]:
        open_now = (each for each in self._current().values() if not each.is_complete)
        return [each for each in open_now if self._holds(each.wanted.group_id)]

    def _holds(self, group_id: GroupId) -> bool:
        return any(each.group_id == group_id for each in self._groups.joined())

    def seen(self, device: DeviceKey, now: Now) -> None:
        """Note that a device is there."""
        for fetch in (self._fetches or {}).values():
            fetch.seen(device, now)

    # -- what is sent -------------------------------------------------------------------------------------------------

    def due(self, now: Now) -> Iterator[tuple[DeviceKey, GroupId, MessageType, bytes]]:
        """Yield (member, group, type, body) of what is to be sent. Where the caller stops, that one comes once more."""
        for fetch in self._open_fetches():
            if fetch.holder is not None and not self._is_member(fetch.holder, fetch.wanted.group_id):  # any more
                fetch.end_turn()
            pull = fetch.ask(lambda fetch=fetch: self._candidates(fetch.wanted), now)  # type: ignore[misc]
            if pull is not None and fetch.holder is not None:
                yield fetch.holder, fetch.wanted.group_id, MessageType.CONTENT_PULL, pull.to_wire()
                fetch.asked(pull, now)
        for _ in range(PARTS_AT_ONCE):
            found = self._next_served(now)
            if found is None:
                return
            member, served = found
            portion = served.portions[0]
            if not self._is_member(member, portion.group_id):  # any more
                served.portions.pop(0)
                continue
            part = self._part(portion)
            yield member, portion.group_id, MessageType.CONTENT_PART, part.to_wire()
            served.bucket.spend(1, now.monotonic_us)
            portion.position += len(part.content or b"")
            if part.content is None or portion.position >= portion.end:
                served.portions.pop(0)
            del self._served[member]
            self._served[member] = served  # members take turns

    def next_deadline(self) -> int | None:
        """Return when `due` has something to say, if nothing comes before, in monotonic microseconds."""
        found = [fetch.deadline_us for fetch in self._open_fetches()]
        found += [served.bucket.next_us() for served in self._served.values() if served.portions]
        return min(found, default=None)

    def _candidates(self, wanted: WantedFile) -> Iterator[DeviceKey]:
        """Yield the members to ask: the one that offered the file, collectors, then the others, in this device's own
        order."""
        group = self._groups.group(wanted.group_id)
        collectors = {each.keys.signing_public for each in group.with_capability(COLLECTOR)}
        members = {each.keys.signing_public for each in group.members if not each.is_board}
        if wanted.author in members - {self._own}:  # this device lacks its own: its disk has changed it, or it let go
            yield wanted.author

        def place(key: DeviceKey) -> tuple[bool, bytes]:
            return key not in collectors, hashlib.blake2b(self._own + wanted.hash + key, digest_size=8).digest()

        yield from sorted(members - {self._own, wanted.author}, key=place)

    def _next_served(self, now: Now) -> tuple[DeviceKey, _Served] | None:
        for member, served in list(self._served.items()):
            if not served.portions:
                if served.bucket.is_full(now.monotonic_us):
                    del self._served[member]
            elif not served.bucket.wait_us(now.monotonic_us):
                return member, served
        return None

    def _part(self, portion: _Portion) -> ContentPart:
        """Return the next part, within one chunk; empty if it is not here, or not given (rule 5)."""
        left_of_chunk = CHUNK_BYTES - portion.position % CHUNK_BYTES
        size = min(left_of_chunk, portion.end - portion.position, max(1, self._carriage.maximum_payload - _AROUND_PART))
        content = self._records.read(portion.group_id, portion.hash, portion.position, size)
        if content is None:
            secret = self._secrets.given(portion.group_id, OperationId(portion.hash))
            content = None if secret is None else secret[portion.position : portion.position + size]
        return ContentPart(portion.hash, portion.position, content or None)

    def _is_member(self, device: DeviceKey, group_id: GroupId) -> bool:
        for group in self._groups.joined():
            if group.group_id == group_id:
                member = group.member(device)
                return member is not None and not member.is_board
        return False

    # -- what comes ---------------------------------------------------------------------------------------------------

    def receive(self, message: Message, now: Now) -> list[FileArrived | FileRefused] | None:
        """Take a pull, or a part of what was asked for; return what happened, None where it was of no use.

        Raises:
            RemoteError: a rule is broken, or it is not of the file.
        """
        if not self._is_member(message.author, message.group_id):
            raise NotAMemberError(f"a {message.type.name} by a device that is not a member of its group")
        if message.type is MessageType.CONTENT_PULL:
            self._owe(message, ContentPull.from_wire(message.body))
            return []
        return self._take(message, ContentPart.from_wire(message.body), now)

    def _owe(self, message: Message, pull: ContentPull) -> None:
        served = self._served.get(message.author)
        if served is None:
            if len(self._served) >= SERVED_MEMBERS:
                raise RateError("too many members request files at the same time")
            served = self._served[message.author] = _Served()
        if len(served.portions) >= _PORTIONS:
            raise RateError("the member requests more than its share at once")
        end = pull.position + pull.size
        served.portions.append(_Portion(message.group_id, pull.hash, pull.position, end))

    def _take(self, message: Message, part: ContentPart, now: Now) -> list[FileArrived | FileRefused] | None:
        for fetch in self._current().values():
            wanted = fetch.wanted
            is_its = part.hash in {wanted.hash, wanted.index} and message.group_id == wanted.group_id
            if is_its and message.author == fetch.holder and not fetch.is_complete:
                if not fetch.take(part, now):
                    return None
                return self._finish(fetch, now) if fetch.is_complete else []
        return None

    def has_work(self) -> bool:
        """Say whether `maintain` has something to do."""
        return self._records.has_damaged or any(fetch.is_complete for fetch in self._current().values())

    def maintain(self, now: Now) -> list[FileArrived | FileDamaged | FileRefused]:
        """Take for whole what others than members brought, or what lacked only that when the power went.

        Fetch again what turned out to be damaged when it was asked for.
        """
        damaged = self._records.fetch_damaged(now)
        if damaged:
            self._fetches = None
        events: list[FileArrived | FileDamaged | FileRefused] = [
            FileDamaged(each.group_id, each.hash, each.sealed_size) for each in damaged
        ]
        complete = (fetch for fetch in [*self._current().values()] if fetch.is_complete)
        return [*events, *(event for fetch in complete for event in self._finish(fetch, now))]

    def _finish(self, fetch: Fetch, now: Now) -> list[FileArrived | FileRefused]:
        wanted, holder = fetch.wanted, fetch.holder
        if isinstance(fetch.progress, SecretProgress):
            self._secrets.keep(fetch.progress, now)
            self._fetches = None  # another one may begin
            return []
        whole = self._records.complete(wanted)
        self._fetches = None  # another one may begin
        if not whole:
            return [FileRefused(wanted.group_id, wanted.hash, wanted.author)]
        if wanted.author != self._own and self._is_member(wanted.author, wanted.group_id):
            body = ContentAcknowledgement(wanted.hash).to_wire()
            self._queue.queue(wanted.author, MessageType.CONTENT_ACK, wanted.group_id, body, now)  # rule 4
        return [FileArrived(wanted.group_id, wanted.hash, wanted.sealed_size, holder)]

    def acknowledge(self, message: Message) -> None:
        """Note who has a file that this device offers.

        Raises:
            RemoteError: malformed, or by nobody who is in the file's group.
        """
        content = ContentAcknowledgement.from_wire(message.body).hash
        if not self._is_member(message.author, message.group_id):
            raise NotAMemberError("a CONTENT_ACK by a device that is not a member of its group")
        self._records.note_holder(message.group_id, content, message.author)
