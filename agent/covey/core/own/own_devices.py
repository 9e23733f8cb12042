"""What a device does about the other devices of its person (docs/protocol.md, "A person's devices").

1. The personal group is the one that the person has named on this very device, of mode personal, while the device is a
   member. No other group orders anything here.
2. Each group that this device is in, and that is not known as held, it tells of.
3. A group that another device says was left is left here as well, as soon as a member has what this one wrote there, or
   after an hour; an erased one is erased at once, with the secrets of its epochs. Each operation is obeyed once, so who
   is let in again later stays, and tells of it (rule 2).
4. Whoever has left a group says that it is erased when nothing of it is here any more: then another member knows.
5. A held group's member invites the other own devices, each once, as far as the group lets it, and no more at a time
   than it would take; these accept by themselves what an own device sends of a held group, up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Mode
from covey.core.group_actions import GroupActions
from covey.core.history.history import History
from covey.core.history.personal import Holding, OwnGroup
from covey.core.history.records import OperationRecords
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.membership.groups import Groups
from covey.core.membership.records import GroupRecords, InviteRecords, JoinRecords, RequestRecords
from covey.core.membership.requests import unanswered
from covey.core.now import Now
from covey.core.own.state import KnownGroup, PersonalState, personal_state
from covey.errors import LocalError, OutboxFullError
from covey.limits.pairing import MAXIMUM_GROUP_REQUESTS_OF_ONE
from covey.limits.personal import JOINED_UNASKED, LAST_WORDS_US


class AgreedRecords(Protocol):
    """What a person has agreed to with a group's invite."""

    def forget(self, group_id: GroupId) -> None:
        """Forget that."""


class PersonalRecords(Protocol):
    """Which group is the person's own, and what was done about its history."""

    def pinned(self) -> GroupId | None:
        """Return the personal group that a person has named on this device."""

    def pin(self, group_id: GroupId) -> None:
        """Name it, and forget what was done about another one."""

    def unpin(self) -> None:
        """Name none any more."""

    def obeyed(self, group_id: GroupId) -> OperationId | None:
        """Return by which operation a group was left or erased here last."""

    def note_obeyed(self, group_id: GroupId, operation: OperationId) -> None:
        """Note that it was."""

    def invited(self, group_id: GroupId) -> set[DeviceKey]:
        """Return which own devices this one has invited to a group."""

    def note_invited(self, group_id: GroupId, device: DeviceKey) -> None:
        """Note that it has."""


class OwnRecords(Protocol):
    """The durable state that this needs."""

    @property
    def personal(self) -> PersonalRecords:
        """Which group is the person's own."""

    @property
    def operations(self) -> OperationRecords:
        """What groups have said."""

    @property
    def groups(self) -> GroupRecords:
        """Manifests and secrets."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""

    @property
    def invites(self) -> InviteRecords:
        """This device's invites."""

    @property
    def requests(self) -> RequestRecords:
        """Invitations to further groups."""

    @property
    def invited_operators(self) -> AgreedRecords:
        """Whom a group's invite has let order this device."""


@dataclass(frozen=True, slots=True)
class Done:
    """What was done because of another own device: `what` is told, left, erased, invited or asked."""

    what: str
    group_id: GroupId
    device: DeviceKey


class OwnDevices:
    """One device, as one of its person's. What writes belongs inside a transaction."""

    def __init__(
        self, identity: Identity, groups: Groups, history: History, actions: GroupActions, records: OwnRecords
    ) -> None:
        self._own = identity.signing_public
        self._groups = groups
        self._history = history
        self._actions = actions
        self._records = records

    def group(self) -> GroupManifest | None:
        """Return the personal group as it is; None where there is none (rule 1)."""
        pinned = self._records.personal.pinned()
        found = (each for each in self._groups.joined() if each.group_id == pinned and each.mode is Mode.PERSONAL)
        return next(found, None)

    def state(self, personal: GroupManifest) -> PersonalState:
        """Return what the personal group's history comes to."""
        members = {member.keys.signing_public for member in personal.members}
        void = self._history.standing(personal.group_id).void
        return personal_state(self._records.operations, personal.group_id, void, members)

    def shared_with(self, device: DeviceKey) -> list[GroupManifest]:
        """Return the groups of this one and the person's own devices alone; it may be only invited."""
        personal = self.group()
        own = {self._own} if personal is None else {each.keys.signing_public for each in personal.members}
        return [
            group
            for group in self._shared()
            if ({each.keys.signing_public for each in group.members} | {group.invited}) - own - {None} == {device}
        ]

    def leave(self, group_id: GroupId, now: Now, *, at_once: bool = False) -> None:
        """Leave a group, on all devices of the person; the personal group itself on this one alone.

        `at_once`: erase what it said, and its secrets, before any other member has acknowledged that.

        Raises:
            UnknownGroupError: this device is not in it.
            LocalError: the outbox is full, or nobody keeps more of this device's history.
        """
        personal, title = self.group(), self._title(group_id)
        self._actions.leave(group_id, now)
        if self._records.personal.pinned() == group_id:
            self._records.personal.unpin()
        elif personal is not None:
            holding = Holding.ERASED if at_once else Holding.LEFT
            self._write(personal, OwnGroup(group_id, holding, title), now)
        if at_once:
            self._records.groups.erase_content(group_id)

    def turn(self, label: str, now: Now) -> Iterator[Done]:
        """Do what is due, and yield what a person may want to know; `label` is what this device calls itself.

        Raises:
            LocalError: the outbox is full, or nobody keeps more of this device's history: the caller rolls back.
        """
        personal = self.group()
        if personal is None:
            return
        for known in self.state(personal).groups.values():
            if known.holding is not Holding.HELD and self._records.personal.obeyed(known.group_id) != known.operation:
                yield from self._obey(known, now)
        yield from self._announce(personal, now)
        others = [each.keys.signing_public for each in personal.members if not each.is_board]
        others.remove(self._own)
        held = {each.group_id for each in self.state(personal).groups.values() if each.holding is Holding.HELD}
        for group in self._shared():
            if group.group_id in held:
                yield from self._invite(group, others, now)
        yield from self._accept(held, others, label, now)

    def _shared(self) -> list[GroupManifest]:
        """Return the groups that this device is in beside the personal ones."""
        return [each for each in self._groups.joined() if each.mode is not Mode.PERSONAL]

    def _title(self, group_id: GroupId) -> str:
        return self._history.profile(group_id).title

    def _obey(self, known: KnownGroup, now: Now) -> Iterator[Done]:
        """Leave, and perhaps erase, what another own device says (rule 3)."""
        group_id, trust = known.group_id, self._groups.trust_of(known.group_id)
        if trust is not None and trust.current is not None and trust.current.mode is Mode.PERSONAL:
            return
        if self._has_last_words(known, now):
            return
        self._records.requests.drop(group_id)
        self._records.joins.end(group_id)
        if any(group.group_id == group_id for group in self._groups.joined()):
            self._actions.leave(group_id, now)
            yield Done("left", group_id, known.author)
        if known.holding is Holding.ERASED and self._groups.trust_of(group_id) is not None:
            self._records.groups.erase_content(group_id)
            yield Done("erased", group_id, known.author)
        self._records.personal.note_obeyed(group_id, known.operation)

    def _has_last_words(self, known: KnownGroup, now: Now) -> bool:
        """Say whether what this device wrote in a group has to reach a member before it leaves (rule 3)."""
        inside = any(group.group_id == known.group_id for group in self._groups.joined())
        waits = inside and known.holding is Holding.LEFT and 0 <= now.wall_us - known.made_at_us < LAST_WORDS_US
        if not waits or self._history.is_known(known.group_id):
            return False
        self._history.hand_over(known.group_id, now)
        return True

    def _announce(self, personal: GroupManifest, now: Now) -> Iterator[Done]:
        """Tell of what this device holds (rule 2), and of what it has erased (rule 4)."""
        known = self.state(personal).groups
        for group in self._shared():
            found = known.get(group.group_id)
            if found is None or self._is_back(found):
                self._write(personal, OwnGroup(group.group_id, Holding.HELD, self._title(group.group_id)), now)
                yield Done("told", group.group_id, self._own)
        for found in known.values():
            gone = found.holding is Holding.LEFT and self._groups.trust_of(found.group_id) is None
            destroyed = found.holding is Holding.HELD and self._groups.is_revoked(found.group_id)
            if (gone and found.author == self._own) or destroyed:
                self._write(personal, OwnGroup(found.group_id, Holding.ERASED, found.title), now)

    def _is_back(self, known: KnownGroup) -> bool:
        """Say whether this device is in a group although it has left it, as it was told to: it was let in since."""
        return known.holding is not Holding.HELD and self._records.personal.obeyed(known.group_id) == known.operation

    def _write(self, personal: GroupManifest, body: OwnGroup, now: Now) -> None:
        operation = self._history.write(personal.group_id, body, now)
        if body.holding is not Holding.HELD:
            self._records.personal.note_obeyed(body.group_id, operation.id)

    def _invite(self, group: GroupManifest, others: list[DeviceKey], now: Now) -> Iterator[Done]:
        """Invite own devices that are not in a group, each once (rule 5)."""
        missing = [each for each in others if group.member(each) is None]
        for device in sorted(set(missing) - self._records.personal.invited(group.group_id) if missing else ()):
            if self._unanswered_by(device, now) >= MAXIMUM_GROUP_REQUESTS_OF_ONE:  # it would take no more of us
                continue
            try:
                self._actions.invite_member(group.group_id, device, (), now, self._title(group.group_id))
            except OutboxFullError:
                raise
            except LocalError:  # an admin's to do, or too many are open: it is tried again
                continue
            self._records.personal.note_invited(group.group_id, device)
            yield Done("invited", group.group_id, device)

    def _unanswered_by(self, device: DeviceKey, now: Now) -> int:
        """Return how many invitations of this device another one has not answered."""
        bound = (each for each in self._records.invites.all() if each.bound_to == device and each.used_by is None)
        return sum(each.expires_at_us > now.wall_us for each in bound)

    def _accept(self, held: set[GroupId], others: list[DeviceKey], label: str, now: Now) -> Iterator[Done]:
        """Accept what own devices sent (rule 5)."""
        for request in unanswered(self._groups, self._records.requests, now.wall_us):
            wanted = request.group_id in held and request.inviter.signing_public in others
            waiting = {each.group_id for each in self._records.joins.pending()}
            if not wanted or request.group_id in waiting or len(self._groups) + len(waiting) >= JOINED_UNASKED:
                continue
            self._records.invited_operators.forget(request.group_id)
            self._actions.accept_request(request, label, now)
            yield Done("asked", request.group_id, request.inviter.signing_public)
