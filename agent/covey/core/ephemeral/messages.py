"""Messages to members that are online; no device stores them (docs/protocol/history.md, "Ephemeral messages").

1. A message carries its time, by its author's clock; each message of an author is later than the one before.
2. It is accepted if its time is within `EPHEMERAL_US` of the receiver's clock, and later than that of the last one
   accepted from its author: so nothing is accepted twice, and nothing old.
3. An author's rate is limited by these times. So a relay that delays messages and delivers them together makes no
   author exceed it, and an author cannot exceed it by claiming other times.
4. Neither side writes anything, and nobody answers. A message that no relay has accepted in that time is dropped.

All of it is in memory and bounded: a receiver remembers authors within the time of rule 2, and these are members.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from covey.core.ephemeral.state import Author, Ephemeral, EphemeralState, ReceivedEphemeral, Waiting
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.windows import Windows
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.message import Message
from covey.errors import LocalError, NotAMemberError, RateError, RelayError, RollbackError, TransientError
from covey.limits.ephemeral import EPHEMERAL_PER_SECOND, EPHEMERAL_US, MAXIMUM_EPHEMERAL_BYTES


class EphemeralMessages:
    """This device's ephemeral messages, and others'."""

    def __init__(self, own: DeviceKey, groups: Groups, windows: Windows, state: EphemeralState) -> None:
        self._own = own
        self._groups = groups
        self._windows = windows
        self._state = state

    # -- one's own ----------------------------------------------------------------------------------------------------

    def say(self, group_id: GroupId, content: bytes, now: Now) -> int:
        """Say something to every other member of a group that is no board; return to how many.

        Raises:
            LocalError: too long.
            RelayError: there is no relay now.
            TransientError: too many in a short time.
            UnknownGroupError: this device is not in the group.
        """
        if len(content) > MAXIMUM_EPHEMERAL_BYTES:
            raise LocalError(f"an ephemeral message must have at most {MAXIMUM_EPHEMERAL_BYTES} bytes")
        others = (each for each in self._groups.group(group_id).members if not each.is_board)
        members = deque(key for each in others if (key := each.keys.signing_public) != self._own)
        if not self._windows.is_connected:
            raise RelayError(
                "no relay is reached; nothing was sent",
                hint="try again when a relay is up, or send without --ephemeral: then the message waits",
            )
        if not self._state.own.is_recent(now):
            self._state.own = Author()
        said_at_us = max(now.wall_us, self._state.own.last_us + 1)
        if self._state.own.wait_us(said_at_us):
            raise TransientError(
                "too many ephemeral messages at once", hint=f"send at most {EPHEMERAL_PER_SECOND} per second"
            )
        self._state.own.said(said_at_us)
        body = Ephemeral(said_at_us, content).to_wire()
        self._drop_old(now)
        self._state.waiting.append(Waiting(group_id, body, now.monotonic_us + EPHEMERAL_US, members))
        return len(members)

    def due(self, now: Now) -> Iterator[tuple[DeviceKey, GroupId, bytes]]:
        """Yield (member, group, body) of what is to be sent. Where the caller stops, that one is yielded once more."""
        self._drop_old(now)
        waiting = self._state.waiting
        while waiting:
            first = waiting[0]
            while first.members:
                if self._is_member(first.members[0], first.group_id):
                    yield first.members[0], first.group_id, first.body
                first.members.popleft()
            waiting.popleft()

    def _drop_old(self, now: Now) -> None:
        waiting = self._state.waiting
        while waiting and now.monotonic_us >= waiting[0].until_us:
            waiting.popleft()

    def _is_member(self, device: DeviceKey, group_id: GroupId) -> bool:
        return any(each.group_id == group_id and each.member(device) is not None for each in self._groups.joined())

    # -- others' ------------------------------------------------------------------------------------------------------

    def receive(self, message: Message, now: Now) -> None:
        """Take what a member of the message's group says.

        Raises:
            RemoteError: a rule is broken.
        """
        member = self._groups.group(message.group_id).member(message.author)
        if member is None or member.is_board:
            raise NotAMemberError("an EPHEMERAL by a device that is not a member of its group")
        said = Ephemeral.from_wire(message.body)
        if abs(said.said_at_us - now.wall_us) > EPHEMERAL_US:
            raise RollbackError("an EPHEMERAL with a time too far from now")
        author = self._author(message.author, now)
        if said.said_at_us <= author.last_us:
            raise RollbackError("an EPHEMERAL that is not newer than the last one")
        if author.wait_us(said.said_at_us):
            raise RateError("the author sends EPHEMERALs too fast")
        author.said(said.said_at_us)
        self._state.received.add(ReceivedEphemeral(message.group_id, message.author, said.said_at_us, said.content))

    def take_received(self) -> list[ReceivedEphemeral]:
        """Return what came since the last time, oldest first."""
        return self._state.received.take()

    def _author(self, device: DeviceKey, now: Now) -> Author:
        authors = self._state.authors
        if device not in authors or not authors[device].is_recent(now):
            for each in [key for key, known in authors.items() if not known.is_recent(now)]:
                del authors[each]
            authors[device] = Author()
        return authors[device]
