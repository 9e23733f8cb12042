"""Mailboxes in one node: sessions with those that it uses, pushes to them, and the inboxes that it keeps itself.

Nothing here is queued: lost messages are repeated. A wrong message is answered with an ERROR and its code; an ERROR is
never answered.

After each welcome a device tells the mailbox how to wake it (002.15, 002.16). Before the first such message of each
run, an UNREGISTER_PUSH without a target deletes all earlier hooks.

Mailboxes learn of removals at once: REVOKE_DEVICE with the signed manifest, until DEVICE_REVOKED arrives (002.13). The
manifest also goes to a mailbox as to every member, and only that counts: a lost REVOKE_DEVICE does no harm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.group.manifest import MAILBOX
from covey.core.group.messages import Bundle
from covey.core.ids import DeviceKey, GroupId, truncate_utf8
from covey.core.link.carriage import Carriage
from covey.core.link.windows import Windows
from covey.core.mailbox.client import MailboxSession
from covey.core.mailbox.messages import (
    DeviceRevoked,
    Error,
    Hook,
    MailboxMessage,
    MailboxWelcome,
    Notify,
    PullResponse,
    PushAck,
    RegisterPush,
    RevokeDevice,
    UnregisterPush,
    WakeHook,
    read_mailbox_message,
)
from covey.core.mailbox.pushing import Pushing
from covey.core.mailbox.service import MailboxService
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.message import Message
from covey.errors import MailboxSessionError, NotAMemberError, RemoteError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.mailbox import ANSWERS_WAITING, HELLO_US, MAILBOXES_GREETED, MAXIMUM_ERROR_BYTES, WAKES_WAITING

if TYPE_CHECKING:
    from covey.core.records import Records

_TRIES = 3


class Revoking:
    """The removals that this device has issued in this run, and which mailboxes have not confirmed yet."""

    def __init__(self, own: DeviceKey, groups: Groups) -> None:
        self._own = own
        self._groups = groups
        self._members: dict[GroupId, frozenset[DeviceKey]] = {}
        self._open: dict[tuple[DeviceKey, DeviceKey], tuple[GroupId, int, int]] = {}
        """By mailbox and device: the group, how often it was said, and when it is to be said next."""

    def follow(self, mailboxes: Collection[DeviceKey]) -> None:
        """Look at who is gone from groups by this device's own word."""
        for group in self._groups.joined():
            members = frozenset(each.keys.signing_public for each in group.members)
            before = self._members.get(group.group_id, members)
            self._members[group.group_id] = members
            if group.issuer == self._own:
                for device in before - members:
                    self._open.update(
                        {(mailbox, device): (group.group_id, 0, 0) for mailbox in mailboxes if mailbox in members}
                    )
        self._open = {pair: each for pair, each in self._open.items() if pair[0] in mailboxes}

    def due(self, is_open: Callable[[DeviceKey], bool], now: Now) -> Iterator[tuple[DeviceKey, GroupId, RevokeDevice]]:
        """Yield (mailbox, group, message) of what is to be said."""
        for (mailbox, device), (group_id, times, at_us) in list(self._open.items()):
            group = next((each for each in self._groups.joined() if each.group_id == group_id), None)
            if group is None or times >= _TRIES or group.member(device) is not None:
                del self._open[mailbox, device]
            elif now.monotonic_us >= at_us and is_open(mailbox):
                yield mailbox, group_id, RevokeDevice(device, Bundle((group.raw,)).to_wire())
                self._open[mailbox, device] = group_id, times + 1, now.monotonic_us + HELLO_US

    def done(self, mailbox: DeviceKey, device: DeviceKey) -> bool:
        """Note that a mailbox takes nothing of a device any more; return whether it was told."""
        return self._open.pop((mailbox, device), None) is not None


class HookRegistration:
    """The hooks that are wanted, and after which of its welcomes each mailbox was told."""

    def __init__(self) -> None:
        self.wanted: tuple[WakeHook, ...] = ()
        self._reported: dict[DeviceKey, int] = {}

    def due(self, mailbox: DeviceKey, welcomes: int) -> Iterator[RegisterPush | UnregisterPush]:
        """Yield what a mailbox is to be told."""
        if mailbox not in self._reported:
            yield UnregisterPush(Hook.MQTT, "")
        if self._reported.get(mailbox, 0) < welcomes:
            for hook in self.wanted:
                yield RegisterPush(hook.kind, hook.target)
            self._reported[mailbox] = welcomes


Said = tuple[DeviceKey, GroupId, MailboxMessage]


@dataclass(frozen=True, slots=True)
class MailboxParts:
    """What the exchange does elsewhere in the node.

    `seal` gives a message's envelope, None where its recipient has no address, and `inbox` whose it is: a board's is
    its gateway's; `take` deals with an envelope that was kept, and returns whether that is done; `take_manifests` deals
    with a body of GROUP_MANIFEST.
    """

    seal: Callable[[DeviceKey, bytes, Now], bytes | None]
    inbox: Callable[[DeviceKey], DeviceKey | None]
    take: Callable[[bytes, Now], bool]
    take_manifests: Callable[[Message, bytes, Now], None]


class MailboxExchange:
    """What a node says to mailboxes, and as one. All but what `records` keeps is in memory, and bounded."""

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        records: Records,
        windows: Windows,
        carriage: Carriage,
        parts: MailboxParts,
    ) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._carriage = carriage
        self._parts = parts
        self._sessions: dict[DeviceKey, MailboxSession] = {}
        self._pushing = Pushing(own, groups, records, windows, carriage, parts.seal, parts.inbox)
        self._revoking = Revoking(own, groups)
        self._hooks = HookRegistration()
        self._errors: deque[Said] = deque(maxlen=ANSWERS_WAITING)
        self._topics: deque[DeviceKey] = deque(maxlen=WAKES_WAITING)
        self._service: MailboxService | None = None
        self._generation = -1

    def serve(self, maximum_bytes: int) -> MailboxService:
        """Be a mailbox, of so many bytes, from now on."""
        if self._service is None:
            self._service = MailboxService(
                self._own,
                self._groups,
                self._records.mailbox,
                self._carriage,
                maximum_bytes,
                self._parts.take_manifests,
            )
        return self._service

    def be_woken(self, hooks: tuple[WakeHook, ...]) -> None:
        """Ask every mailbox to wake this device so when something waits."""
        self._hooks.wanted = hooks

    def wake_by_topic(self, device: DeviceKey) -> None:
        """Have something published where a device, or what switches it on, listens."""
        self._topics.append(device)

    def due_topics(self) -> Iterator[DeviceKey]:
        """Yield the devices that are to be woken by a publish. Where the caller stops, that one comes once more."""
        while self._topics:
            yield self._topics[0]
            self._topics.popleft()

    # -- what happens -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take up what another process wrote."""
        self._pushing.refresh()

    def connected(self, now: Now) -> None:
        """Greet mailboxes: a relay is reached again."""
        for session in self._sessions.values():
            session.connected(now)

    def look_once_more(self, now: Now) -> None:
        """Ask once more for what could not be taken: a board is on its line."""
        for session in self._sessions.values():
            session.look_once_more(now)

    def seen(self, device: DeviceKey) -> None:
        """Note that a device is there."""
        self._pushing.seen(device)

    def nobody_listens(self, device: DeviceKey) -> None:
        """Note that a relay knows of nobody who would get what is sent to a device."""
        self._pushing.nobody_listens(device)

    def _follow_groups(self, now: Now) -> None:
        if self._generation == self._groups.generation:
            return
        self._generation = self._groups.generation
        named: dict[DeviceKey, tuple[GroupId, str]] = {}
        for group in self._groups.joined():
            own = group.member(self._own)
            for member in group.with_capability(MAILBOX):
                label = own.label if own is not None else ""
                named.setdefault(member.keys.signing_public, (group.group_id, label))
        named.pop(self._own, None)
        for mailbox in self._sessions.keys() - named.keys():
            self._sessions.pop(mailbox).close()
        for mailbox, (group_id, label) in [*named.items()][:MAILBOXES_GREETED]:
            session = self._sessions.get(mailbox)
            if session is None:
                name = truncate_utf8(label, MAXIMUM_LABEL_BYTES)
                self._sessions[mailbox] = MailboxSession(mailbox, group_id, name, self._records.mailbox)
            else:
                session.group_id = group_id
                session.groups_changed(now)
        self._pushing.refresh()
        self._revoking.follow([*named])

    # -- what comes ---------------------------------------------------------------------------------------------------

    def receive(self, message: Message, now: Now) -> bool:
        """Process a member's MAILBOX message; return whether it was useful. Inside a transaction.

        Raises:
            RemoteError: a rule is broken; its author gets the code.
        """
        self._follow_groups(now)
        said: MailboxMessage | None = None
        try:
            member = self._groups.group(message.group_id).member(message.author)
            if member is None or member.is_board:
                raise NotAMemberError("a MAILBOX by a device that is not a member of its group")
            said = read_mailbox_message(message.body)
            if self._service is not None and self._service.receive(message, said, now):
                return True
            return self._receive_of_mailbox(message.author, said, now)
        except RemoteError as error:
            if not isinstance(said, Error):
                blob_id = getattr(said, "blob_id", None)
                words = truncate_utf8(str(error), MAXIMUM_ERROR_BYTES)
                answer = Error(error.code, words) if blob_id is None else Error(error.code, words, blob_id)
                self._errors.append((message.author, message.group_id, answer))
            raise

    def _receive_of_mailbox(self, author: DeviceKey, said: MailboxMessage, now: Now) -> bool:
        session = self._sessions.get(author)
        if isinstance(said, Error):
            self._records.counters.count("mailbox_errors")
            return session is not None and self._receive_error(session, said, now)
        if session is None:
            raise MailboxSessionError("a mailbox's message by a device that is not a mailbox")
        if isinstance(said, MailboxWelcome):
            known = session.relay_id
            welcomed = session.receive_welcome(said, self._generation, now)
            if known and session.relay_id != known:
                self._pushing.restored(author)
            return welcomed
        if isinstance(said, PullResponse):
            return session.receive_response(
                said, lambda envelope: self._parts.take(envelope, now), self._generation, now
            )
        if isinstance(said, Notify):
            return session.receive_notify(said, now)
        if isinstance(said, PushAck):
            return self._pushing.acknowledged(author, said, now)
        if isinstance(said, DeviceRevoked):
            return self._revoking.done(author, said.device)
        raise MailboxSessionError("a message to a mailbox, but this device is not one")

    def _receive_error(self, session: MailboxSession, error: Error, now: Now) -> bool:
        if error.code == MailboxSessionError.code:
            self._pushing.forget(session.mailbox)
            session.greet_soon(now)
            return True
        return self._pushing.refused(session.mailbox, error, now)

    # -- what is sent -------------------------------------------------------------------------------------------------

    def due(self, now: Now) -> Iterator[Said]:
        """Yield (device, group, message) of what is to be said. Where the caller stops, that one comes once more."""
        self._follow_groups(now)
        while self._errors:
            yield self._errors[0]
            self._errors.popleft()
        if self._service is not None:
            yield from self._service.due(now)
        for mailbox in self._pushing.silent(now):
            self._pushing.forget(mailbox)
            if mailbox in self._sessions and self._sessions[mailbox].is_open:
                self._sessions[mailbox].end(now)
        for session in self._sessions.values():
            for said in session.due(now):
                yield session.mailbox, session.group_id, said
            if session.is_open:
                for registration in self._hooks.due(session.mailbox, session.welcomes):
                    yield session.mailbox, session.group_id, registration
        yield from self._revoking.due(self._is_open, now)
        yield from self._pushing.due(self._is_open, now)

    def _is_open(self, mailbox: DeviceKey) -> bool:
        session = self._sessions.get(mailbox)
        return session is not None and session.is_open

    def next_deadline(self) -> int | None:
        """Return when `due` has something to say, if nothing comes before, in monotonic microseconds."""
        if self._errors or self._generation != self._groups.generation:
            return 0
        found = [session.next_deadline() for session in self._sessions.values()]
        found.append(self._pushing.next_deadline())
        if self._service is not None:
            found.append(self._service.next_deadline())
        return min((each for each in found if each is not None), default=None)
