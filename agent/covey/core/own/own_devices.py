"""What a device does about its person's other devices (docs/protocol/history.md, "A person's devices").

1. The personal group is the one that the person has named on this device, of mode personal, while the device is a
   member. No other group can order anything here.
2. A device announces each of its groups that is not known as held. It also announces a held group that it left by an
   order which no longer counts, because the order's author was removed: then a member invites it (5). If a person
   retires a device, another device first repeats in its own name what the retired one left or erased. A device
   that created a group says so.
3. A group that another own device left is left here as well, once a member has what this device wrote there, or after
   an hour. An erased group is erased at once, with its epoch secrets. Each operation is obeyed once, so a device that
   is added again later stays, and announces the group (rule 2).
4. A device that has left a group announces that it is erased once nothing of it is here any more: by then another
   member knows. A device that sees a group destroyed erases it, left or held, with all unsent messages, and announces
   that.
5. A member of a held group invites the other own devices, each once for each announcement, as far as the group permits,
   and no more at a time than it would accept. These accept by themselves the invitations that own devices send for a
   held group, up to a bound: each one, because the sender of an earlier one may have lost its state.
6. An own device in another incarnation may have lost its state, or have one older than its groups: it is invited again,
   also to held groups that list it. A device that is in the group ignores that. Invitations unanswered for
   `UNANSWERED_US` end then: the incarnation that had them may be over, and they would block others for a week.
7. So is a device that a held group has listed for `LISTED_IN_VAIN_US`, and that does not name the group in its reports:
   the device that added it may have lost its state before the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Mode, read_manifest
from covey.core.history.history import History
from covey.core.history.personal import Holding, OwnGroup
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.membership.actions import GroupActions
from covey.core.membership.groups import Groups
from covey.core.membership.requests import unanswered
from covey.core.now import Now
from covey.core.own.state import KnownGroup, PersonalState, personal_state
from covey.core.pairing.pending import OpenInvite
from covey.core.pairing.preview import GroupDescription
from covey.errors import LocalError, OutboxFullError
from covey.limits.pairing import GROUP_REQUEST_US, MAXIMUM_GROUP_REQUESTS_OF_ONE
from covey.limits.personal import JOINED_UNASKED, LAST_WORDS_US, LISTED_IN_VAIN_US, UNANSWERED_US

if TYPE_CHECKING:
    from covey.core.records import Records


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an own device's announcement: `what` is told, left, erased, invited or asked."""

    what: str
    group_id: GroupId
    device: DeviceKey


class OwnDevices:
    """One device, as one of its person's. What writes belongs inside a transaction."""

    def __init__(
        self, identity: Identity, groups: Groups, history: History, actions: GroupActions, records: Records
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

        `at_once`: erase what it said, and its secrets, before any other member has acknowledged that; what others have
        not heard by then they never do.

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
            self._erase(group_id, now)

    def speak_for(self, device: DeviceKey, now: Now) -> None:
        """Say in this one's name what another own device has left or erased, so that it holds without that one.

        Raises:
            LocalError: nobody keeps more of this device's history.
        """
        personal = self.group()
        if personal is None:
            return
        for each in self.state(personal).groups.values():
            if each.author != device or each.holding is Holding.HELD:
                continue
            said = OwnGroup(each.group_id, each.holding, each.title)
            if self._records.personal.obeyed(each.group_id) == each.operation:
                self._write(personal, said, now)
            else:  # it is still to be obeyed here
                self._history.write(personal.group_id, said, now)

    def turn(self, label: str, now: Now) -> Iterator[Done]:
        """Do what is due, and yield what a person may want to know; `label` is what this device calls itself.

        Raises:
            LocalError: the outbox is full, or nobody keeps more of this device's history: the caller rolls back.
        """
        personal = self.group()
        if personal is None or self._history.awaits_past(personal.group_id):
            return
        known = self.state(personal).groups
        for each in known.values():
            if each.holding is not Holding.HELD and self._records.personal.obeyed(each.group_id) != each.operation:
                yield from self._obey(each, now)
        yield from self._announce(personal, known, now)
        others = [each.keys.signing_public for each in personal.members if not each.is_board]
        others.remove(self._own)
        known = self.state(personal).groups
        held = {each.group_id: each.operation for each in known.values() if each.holding is Holding.HELD}
        self._note_incarnations(others)
        for group in self._shared():
            if group.group_id in held:
                yield from self._invite(group, held[group.group_id], others, now)
        yield from self._accept(held.keys(), others, label, now)

    def _shared(self) -> list[GroupManifest]:
        return [each for each in self._groups.joined() if each.mode is not Mode.PERSONAL]

    def _title(self, group_id: GroupId) -> str:
        return self._history.profile(group_id).title

    def _obey(self, known: KnownGroup, now: Now) -> Iterator[Done]:
        """Leave, and perhaps erase, groups as other own devices ordered (rule 3)."""
        group_id, trust = known.group_id, self._groups.trust_of(known.group_id)
        if trust is not None and trust.current is not None and trust.current.mode is Mode.PERSONAL:
            return
        if self._has_last_words(known, now):
            return
        self._drop_invitations(group_id)
        if any(each.group_id == group_id for each in self._records.joins.pending()):
            return  # it may be let in by now: then it has to leave
        if any(group.group_id == group_id for group in self._groups.joined()):
            self._actions.leave(group_id, now)
            yield Done("left", group_id, known.author)
        if known.holding is Holding.ERASED and self._groups.trust_of(group_id) is not None:
            self._erase(group_id, now)
            yield Done("erased", group_id, known.author)
        self._records.personal.note_obeyed(group_id, known.operation)

    def _erase(self, group_id: GroupId, now: Now) -> None:
        """Erase a left group's history and secrets, and messages in it for the others."""
        self._records.groups.erase_content(group_id)
        self._actions.withdraw_words(group_id, now)

    def _erase_content(self, group_id: GroupId, now: Now) -> None:
        """Erase a group's history and secrets, and this device's unsent messages in it."""
        self._records.groups.erase_content(group_id)
        self._actions.withdraw_secrets(group_id, now)

    def _drop_invitations(self, group_id: GroupId) -> None:
        personal = self.group()
        for request in self._records.requests.pending():
            inviter = request.inviter.signing_public
            if request.group_id == group_id and (personal is None or personal.member(inviter) is None):
                self._records.requests.drop(group_id, inviter)

    def _has_last_words(self, known: KnownGroup, now: Now) -> bool:
        """Return whether this device's operations in a group must reach a member before it leaves (rule 3)."""
        inside = any(group.group_id == known.group_id for group in self._groups.joined())
        waits = inside and known.holding is Holding.LEFT and 0 <= now.wall_us - known.made_at_us < LAST_WORDS_US
        if not waits or self._history.is_known(known.group_id):
            return False
        self._history.hand_over(known.group_id, now)
        return True

    def _announce(self, personal: GroupManifest, known: Mapping[GroupId, KnownGroup], now: Now) -> Iterator[Done]:
        """Announce the groups that this device is in (rule 2), and those that it has erased (rule 4)."""
        for group in self._shared():
            found = known.get(group.group_id)
            if found is None or self._is_back(found):
                title, created = self._title(group.group_id), self._has_created(group.group_id)
                self._write(personal, OwnGroup(group.group_id, Holding.HELD, title, created), now)
                yield Done("told", group.group_id, self._own)
        for found in known.values():
            if self._is_out_in_vain(personal, found):
                operation = self._history.write(
                    personal.group_id, OwnGroup(found.group_id, Holding.HELD, found.title), now
                )
                self._records.personal.note_obeyed(found.group_id, operation.id)
                yield Done("told", found.group_id, self._own)
            gone = found.holding is Holding.LEFT and self._is_forgotten(personal, found.group_id)
            if found.holding is Holding.LEFT and self._is_out_by_others(found.group_id):
                self._erase_content(found.group_id, now)
            destroyed = found.holding is not Holding.ERASED and self._groups.is_revoked(found.group_id)
            if (gone and found.author == self._own) or destroyed:
                self._write(personal, OwnGroup(found.group_id, Holding.ERASED, found.title), now)
                self._erase(found.group_id, now)

    def _has_created(self, group_id: GroupId) -> bool:
        first = self._records.groups.manifests_from(group_id, 1, 1)
        created = read_manifest(first[0], verify=False) if first else None
        return created is not None and created.version == 1 and created.issuer == self._own

    def _is_forgotten(self, personal: GroupManifest, group_id: GroupId) -> bool:
        """Return whether nobody needs to know any more that this device left a group: own devices leave it by
        themselves."""
        trust = self._groups.trust_of(group_id)
        if trust is None:
            return True
        others = () if trust.current is None else trust.current.members
        return all(personal.member(each.keys.signing_public) is not None for each in others)

    def _is_out_by_others(self, group_id: GroupId) -> bool:
        """Return whether another member's manifest leaves this device out, so that a member knows it has left."""
        trust = self._groups.trust_of(group_id)
        if trust is None or self._groups.is_in(group_id):
            return False
        return any(each.issuer != self._own and each.member(self._own) is None for each in trust.heads())

    def _is_back(self, known: KnownGroup) -> bool:
        """Return whether this device was added to a group again after it left as ordered."""
        return known.holding is not Holding.HELD and self._records.personal.obeyed(known.group_id) == known.operation

    def _is_out_in_vain(self, personal: GroupManifest, known: KnownGroup) -> bool:
        """Return whether this device left a held group by an order that no longer counts (rule 2)."""
        group_id, obeyed = known.group_id, self._records.personal.obeyed(known.group_id)
        if known.holding is not Holding.HELD or obeyed is None:
            return False
        if self._groups.is_in(group_id) or self._groups.is_revoked(group_id):
            return False
        order = self._records.operations.held(personal.group_id, obeyed)
        if order is None:
            return False
        return personal.member(order.log.author) is None or obeyed in self._history.standing(personal.group_id).void

    def _write(self, personal: GroupManifest, body: OwnGroup, now: Now) -> None:
        operation = self._history.write(personal.group_id, body, now)
        if body.holding is not Holding.HELD:
            self._records.personal.note_obeyed(body.group_id, operation.id)

    def _invite(self, group: GroupManifest, held_by: OperationId, others: list[DeviceKey], now: Now) -> Iterator[Done]:
        """Invite own devices that are not in a group, each once, and those that may have lost it (rules 5 to 7)."""
        missing = {each for each in others if group.member(each) is None}
        if missing:
            missing -= self._records.personal.invited(group.group_id, held_by)
        owed = self._records.personal.owed(group.group_id).intersection(others) | self._lacking(group, others, now)
        for device in sorted(missing | owed):
            if device in owed:
                self._end_unanswered(device, now)
            if len(self._unanswered(device, now)) >= MAXIMUM_GROUP_REQUESTS_OF_ONE:  # it would take no more of us
                continue
            try:
                self._actions.invite_member(
                    *(group.group_id, device, (), now, GroupDescription(self._title(group.group_id))),
                    may_be_member=device in owed,
                )
            except OutboxFullError:
                raise
            except LocalError:  # an admin's to do, or too many are open: it is tried again
                continue
            self._records.personal.note_invited(group.group_id, device, held_by)
            yield Done("invited", group.group_id, device)

    def _note_incarnations(self, others: list[DeviceKey]) -> None:
        """Note own devices in a new incarnation (rule 6)."""
        for device in others:
            received = [incarnation for incarnation, _ in self._records.received.links(device)]
            if self._records.personal.note_incarnations(device, received):
                self._records.personal.owe_invitations(device, [each.group_id for each in self._shared()])

    def _lacking(self, group: GroupManifest, others: list[DeviceKey], now: Now) -> set[DeviceKey]:
        """Return the listed own devices that have reported since that they are not in a group, without those with an
        open invitation (rule 7)."""
        listed_by_us = self._records.groups.changed_at(group.group_id) + LISTED_IN_VAIN_US
        if now.wall_us < listed_by_us:
            return set()
        said = self._records.heads.all()
        return {
            each
            for each in others
            if group.member(each) is not None
            and (last := said.get(each)) is not None
            and last.seen_at_us >= listed_by_us
            and last.report is not None
            and group.group_id not in {head.group_id for head in last.heads}
            and not any(invite.group_id == group.group_id for invite in self._unanswered(each, now))
        }

    def _end_unanswered(self, device: DeviceKey, now: Now) -> None:
        """End unanswered invitations of an own device that is owed others: a lost incarnation had them."""
        for invite in self._unanswered(device, now):
            if invite.expires_at_us - GROUP_REQUEST_US + UNANSWERED_US <= now.wall_us:
                self._records.invites.use(invite.secret_hash, device)

    def _unanswered(self, device: DeviceKey, now: Now) -> list[OpenInvite]:
        bound = (each for each in self._records.invites.all() if each.bound_to == device and each.used_by is None)
        return [each for each in bound if each.expires_at_us > now.wall_us]

    def _accept(self, held: Collection[GroupId], others: list[DeviceKey], label: str, now: Now) -> Iterator[Done]:
        """Accept own devices' invitations (rule 5)."""
        for request in unanswered(self._groups, self._records.requests, now.wall_us):
            wanted = request.group_id in held and request.inviter.signing_public in others
            waiting = {each.group_id for each in self._records.joins.pending()} - {request.group_id}
            if not wanted or len(self._groups) + len(waiting) >= JOINED_UNASKED:
                continue
            self._records.invited_operators.forget(request.group_id)
            self._actions.accept_request(request, label, now)
            yield Done("asked", request.group_id, request.inviter.signing_public)
