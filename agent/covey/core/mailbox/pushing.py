"""What a sender pushes to mailboxes: the messages of recipients that do not answer (ADR 76).

1. A recipient's messages are pushed when a relay reports that nobody listens there (PUBACK 0x10), after
   `SILENT_RETRIES` retries without an answer, or when a person asks for it. Messages for a board go to its gateway's
   inbox, as the gateway would forward them; so a sleeping gateway finds them, too.
2. They go, each sealed for the recipient and in the order of its queue, to the first `MAILBOXES_AT_ONCE` mailboxes of a
   group that both are in, in an order that all senders agree on.
3. A mailbox's answer frees nothing: a message waits in the outbox until its recipient has acknowledged it, and its
   retries continue. So a dishonest mailbox delays messages, and loses nothing while its sender exists.
4. A blob's id is derived from the message, so a mailbox keeps it once, however often it is pushed. The place up to
   which a mailbox has everything is durable: after a start the next one follows. Messages that still wait after
   `PUSH_RENEWAL_US`, and those of a restored mailbox, are pushed again.
5. A mailbox is asked to keep a message for as long as its sender lets it wait; without a limit, as long as the mailbox
   likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.group.manifest import MAILBOX, GroupManifest
from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.link.carriage import Carriage
from covey.core.link.windows import Windows
from covey.core.mailbox.messages import BLOB_ID_BYTES, Error, Push, PushAck, fits_relay
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.limits.mailbox import (
    HELLO_US,
    MAILBOXES_AT_ONCE,
    MAXIMUM_BLOB_TTL_S,
    PUSH_RENEWAL_US,
    PUSH_WINDOW,
    PUSH_WINDOW_BYTES,
    REFUSED_US,
    SILENT_RETRIES,
)

if TYPE_CHECKING:
    from covey.core.records import Records

_TIMES = 3
"""How often a blob is pushed before its mailbox counts as silent."""
_CLOCK_SET_BACK_US = 86_400_000_000
"""A time so far ahead is one of a clock that was wrong."""
_LOOK_US = 5_000_000
"""Before a queue that had nothing more is looked at again."""


def blob_id_of(message: bytes) -> bytes:
    """Return the UUID (version 8, RFC 9562) of a message's blob: it follows from the message, signature and all."""
    digest = bytearray(hashlib.blake2b(message, digest_size=BLOB_ID_BYTES, person=b"covey/1 blob").digest())
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


def ranked(recipient: DeviceKey, mailboxes: Iterable[DeviceKey]) -> list[DeviceKey]:
    """Return mailboxes in the order in which everybody prefers them for a recipient: rendezvous hashing."""
    return sorted(mailboxes, key=lambda key: crypto.digest(b"covey/1 mailbx", recipient + key))


def mailboxes_of(
    groups: list[GroupManifest], own: DeviceKey, inbox: DeviceKey | None
) -> list[tuple[DeviceKey, GroupId]]:
    """Return the mailboxes of an inbox, each with a group that all three are in, in everybody's order (rule 2)."""
    if inbox is None:
        return []
    found: dict[DeviceKey, GroupId] = {}
    for group in groups:
        member = group.member(inbox)
        if member is not None and not member.is_board:
            for mailbox in group.with_capability(MAILBOX):
                found.setdefault(mailbox.keys.signing_public, group.group_id)
    return [(key, found[key]) for key in ranked(inbox, found.keys() - {own, inbox})[:MAILBOXES_AT_ONCE]]


@dataclass(slots=True)
class _OnItsWay:
    """A blob that its mailbox has not acknowledged yet."""

    recipient: DeviceKey
    place: Place
    size: int
    group_id: GroupId
    pushed_at_us: int
    times: int = 1

    def is_overdue(self, now: Now) -> bool:
        """Say whether its mailbox should have answered."""
        return now.monotonic_us >= self.pushed_at_us + HELLO_US


class Pushing:
    """What goes to mailboxes.

    `seal` gives a message's envelope, None where its recipient has no address; `inbox` says whose inbox it is for.
    """

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        records: Records,
        windows: Windows,
        carriage: Carriage,
        seal: Callable[[DeviceKey, bytes, Now], bytes | None],
        inbox: Callable[[DeviceKey], DeviceKey | None],
    ) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._windows = windows
        self._carriage = carriage
        self._seal = seal
        self._inbox = inbox
        self._on_their_way: dict[DeviceKey, dict[bytes, _OnItsWay]] = {}
        self._highest: dict[tuple[DeviceKey, DeviceKey], Place] = {}
        self._renewed: set[tuple[DeviceKey, DeviceKey]] = set()
        """(recipient, mailbox) of what is pushed once more, until the first of it is acknowledged."""
        self._rests: dict[tuple[DeviceKey, DeviceKey], int] = {}
        self._unheard: set[DeviceKey] = set()
        self._handed_over: dict[DeviceKey, Place] = {}
        self._mailboxes: dict[DeviceKey, list[tuple[DeviceKey, GroupId]]] = {}

    def refresh(self) -> None:
        """Take up what another process wrote, and groups that changed."""
        self._handed_over = self._records.mailbox.handed_over()
        self._mailboxes.clear()
        self._rests = {pair: until for pair, until in self._rests.items() if pair[0] not in self._handed_over}

    def nobody_listens(self, recipient: DeviceKey) -> None:
        """Note that a relay knows of nobody who would get what is sent to a recipient."""
        if self._of(recipient):
            self._unheard.add(recipient)

    def seen(self, device: DeviceKey) -> None:
        """Note that a device is there."""
        self._unheard.discard(device)

    def _of(self, recipient: DeviceKey) -> list[tuple[DeviceKey, GroupId]]:
        inbox = self._inbox(recipient)
        if inbox is None:
            return []
        if inbox not in self._mailboxes:
            self._mailboxes[inbox] = mailboxes_of(self._groups.joined(), self._own, inbox)
        return self._mailboxes[inbox]

    def _recipients(self) -> dict[DeviceKey, Place | None]:
        """Return the recipients whose messages go to mailboxes: up to a place, or all if None (rule 1)."""
        silent = {*self._windows.silent(SILENT_RETRIES), *self._unheard}
        found: dict[DeviceKey, Place | None] = dict(self._handed_over)
        found.update(dict.fromkeys(silent))
        return found

    def wanted(self) -> set[DeviceKey]:
        """Return the mailboxes that something goes to."""
        return {mailbox for recipient in self._recipients() for mailbox, _ in self._of(recipient)}

    # -- what is sent -------------------------------------------------------------------------------------------------

    def due(self, is_open: Callable[[DeviceKey], bool], now: Now) -> Iterator[tuple[DeviceKey, GroupId, Push]]:
        """Yield (mailbox, group, message) of what is to be pushed to mailboxes that have welcomed this device."""
        self._rests = {pair: until for pair, until in self._rests.items() if until > now.monotonic_us}
        for mailbox, flight in self._on_their_way.items():
            if flight and not is_open(mailbox):
                self.forget(mailbox)
        yield from self._overdue(now)
        for recipient, upto in self._recipients().items():
            for mailbox, group_id in self._of(recipient):
                if (recipient, mailbox) not in self._rests and is_open(mailbox):
                    yield from self._of_queue(recipient, mailbox, group_id, upto, now)

    def _overdue(self, now: Now) -> Iterator[tuple[DeviceKey, GroupId, Push]]:
        """Yield pushes without an answer again, unless their recipient has the message by now."""
        for mailbox, flight in self._on_their_way.items():
            for blob_id, each in [*flight.items()]:
                if each.is_overdue(now):
                    rows = self._records.outbox.queued(each.recipient, Place(each.place - 1), 1, 1)
                    is_there = bool(rows) and rows[0][0] == each.place
                    push = self._push(blob_id, each.recipient, each.place, rows[0][1], now) if is_there else None
                    if push is None:
                        del flight[blob_id]
                        continue
                    yield mailbox, each.group_id, push
                    each.pushed_at_us, each.times = now.monotonic_us, each.times + 1

    def _of_queue(
        self, recipient: DeviceKey, mailbox: DeviceKey, group_id: GroupId, upto: Place | None, now: Now
    ) -> Iterator[tuple[DeviceKey, GroupId, Push]]:
        flight, pair = self._on_their_way.setdefault(mailbox, {}), (recipient, mailbox)
        room, size = PUSH_WINDOW - len(flight), PUSH_WINDOW_BYTES - sum(each.size for each in flight.values())
        if room <= 0 or size <= 0:
            return
        after = self._highest.get(pair, Place(0)) if pair in self._renewed else self._pushed_upto(pair, now)
        rows = self._records.outbox.queued(recipient, after, room, size)
        rows = [(place, message) for place, message in rows if upto is None or place <= upto]
        if not rows:
            self._rests[pair] = now.monotonic_us + _LOOK_US
        for place, message in rows:
            blob_id = blob_id_of(message)
            push = self._push(blob_id, recipient, place, message, now)
            if push is None:
                return
            if fits_relay(len(push.payload), self._carriage.maximum_payload):
                yield mailbox, group_id, push
                flight[blob_id] = _OnItsWay(recipient, place, len(message), group_id, now.monotonic_us)
            self._highest[pair] = place

    def _pushed_upto(self, pair: tuple[DeviceKey, DeviceKey], now: Now) -> Place:
        """Return the place up to which everything was pushed; start again if that was too long ago (rule 4)."""
        kept, since_us = self._records.mailbox.pushed_upto(*pair)
        if kept and not -_CLOCK_SET_BACK_US < now.wall_us - since_us < PUSH_RENEWAL_US:
            self._renewed.add(pair)
            self._highest.pop(pair, None)
            return Place(0)
        return max(kept, self._highest.get(pair, Place(0)))

    def _push(self, blob_id: bytes, recipient: DeviceKey, place: Place, message: bytes, now: Now) -> Push | None:
        """Return a message's push with its lifetime (rule 5); None if it cannot be pushed now."""
        inbox, envelope = self._inbox(recipient), self._seal(recipient, message, now)
        if inbox is None or envelope is None:
            return None
        left_us = self._records.mailbox.lifetime_left_us(recipient, place)
        ttl = 0 if left_us is None else min(max(1, -(-left_us // 1_000_000)), MAXIMUM_BLOB_TTL_S)
        return Push(blob_id, envelope, ttl, inbox)

    def silent(self, now: Now) -> list[DeviceKey]:
        """Return the mailboxes that have left a blob without an answer; what was on its way there goes again later."""
        return [
            mailbox
            for mailbox, flight in self._on_their_way.items()
            if any(each.times >= _TIMES and each.is_overdue(now) for each in flight.values())
        ]

    def next_deadline(self) -> int | None:
        """Return when `due` or `silent` has something to say, in monotonic microseconds."""
        found = [each.pushed_at_us + HELLO_US for flight in self._on_their_way.values() for each in flight.values()]
        found += self._rests.values()
        return min(found, default=None)

    # -- what comes ---------------------------------------------------------------------------------------------------

    def acknowledged(self, mailbox: DeviceKey, answer: PushAck, now: Now) -> bool:
        """Note that a mailbox keeps a blob; return whether it was pushed. Inside a transaction."""
        pushed = self._on_their_way.get(mailbox, {}).pop(answer.blob_id, None)
        if pushed is None:
            return False
        pair = pushed.recipient, mailbox
        before = [each.place for each in self._on_their_way[mailbox].values() if each.recipient == pushed.recipient]
        upto = Place(min(before) - 1) if before else self._highest.get(pair, pushed.place)
        kept, since_us = self._records.mailbox.pushed_upto(*pair)
        if pair in self._renewed or not kept:
            self._renewed.discard(pair)
            self._records.mailbox.set_pushed(*pair, upto, now.wall_us)
        elif upto > kept:
            self._records.mailbox.set_pushed(*pair, upto, since_us)
        return True

    def restored(self, mailbox: DeviceKey) -> None:
        """Push again messages of a mailbox whose state was replaced. Inside a transaction."""
        self._records.mailbox.forget_pushed(mailbox)
        self.forget(mailbox)
        self._highest = {pair: place for pair, place in self._highest.items() if pair[1] != mailbox}

    def refused(self, mailbox: DeviceKey, error: Error, now: Now) -> bool:
        """Push nothing more for a recipient for a while, as its mailbox has refused a blob; return whether it had."""
        pushed = self._on_their_way.get(mailbox, {}).get(error.blob_id)
        if pushed is None:
            return False
        self._take_back(mailbox, pushed.recipient)
        self._rests[pushed.recipient, mailbox] = now.monotonic_us + (HELLO_US if error.code == "rate" else REFUSED_US)
        return True

    def forget(self, mailbox: DeviceKey) -> None:
        """Push again, when it returns, messages that a mailbox has not acknowledged."""
        for recipient in {each.recipient for each in self._on_their_way.get(mailbox, {}).values()}:
            self._take_back(mailbox, recipient)

    def _take_back(self, mailbox: DeviceKey, recipient: DeviceKey) -> None:
        flight = self._on_their_way[mailbox]
        for blob_id in [key for key, each in flight.items() if each.recipient == recipient]:
            del flight[blob_id]
        self._highest.pop((recipient, mailbox), None)
        self._rests.pop((recipient, mailbox), None)
