"""Recurring work for groups: end conflicts, ask for missing manifests, and give manifests to devices that ask.

1. A manifest that follows something unknown was kept: this device asks its sender for the versions from the one that it
   holds, then other members at random, alternating between these versions and ever earlier ones, a bounded number of
   times.
2. A manifest that follows all heads and lists their result ends a conflict: by an issuer of one of the heads after a
   random wait, and if none does, by any member after a longer one (000.17). A device with less than `ENDING_ALLOWANCE`
   leaves that to others.
3. A device that lacks the epoch's secret asks for it in the same way.
   An asker gets two answers, for the next versions and for those after them, and then as often as it may ask, because
   an answer is up to 2,500 times its question. A device that asks for what follows everything given before continues at
   once. It gets as much as a relay carries, and nothing if not even the first manifest fits. If it asks for the same
   again, it gets what follows, because rivals of one version may exceed one answer.
   A device that has asked several times in vain asks half as often each time, down to once an hour, until something
   arrives. A device that has asked `SECRET_PULLS` times for the secret in vain, and may do so, begins another epoch:
   the secret was lost with the device that drew it, and without one the group can send and write nothing.
4. Manifests left over by the bound of one turn's work are applied in the next one.
5. A group that lists a retired or lost noise key of this device gets the current one (`membership/rotation.py`).
6. Devices of a fleet that arrived at about the same time are admitted (`membership/gathering.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, is_exempt, manifest_hash, read_manifest
from covey.core.group.messages import Bundle, GroupSend, first_within, pull_from_wire, pull_to_wire
from covey.core.group.policy import may_renew
from covey.core.group.resolver import GroupState
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.link.carriage import Carriage
from covey.core.link.queued import MessageClass
from covey.core.link.send_queue import groups_of_waiting, more_waits
from covey.core.link.send_window import Jitter
from covey.core.membership.groups import Groups
from covey.core.membership.membership import Membership
from covey.core.membership.rotation import announce_in, lost, outdated
from covey.core.now import Now
from covey.core.wire.message import Message, MessageType
from covey.errors import LocalError
from covey.limits.group import (
    BUNDLE_BYTES,
    BUNDLE_MANIFESTS,
    ENDING_ALLOWANCE,
    MAINTENANCE_US,
    PULL_US,
    PULL_US_MAX,
    PULLS_ANSWERED,
    RECONCILE_ANYBODY_US,
    RECONCILE_ISSUER_US,
    SECRET_PULLS,
)
from covey.limits.heads import PACED
from covey.limits.key import LOST_KEY_PAUSE_US, LOST_KEY_US
from covey.limits.pairing import VISIT_US

if TYPE_CHECKING:
    from covey.core.membership.gathering import Gathering
    from covey.core.records import Records

_PULLS_MAX = 6
"""Times that something is asked for which no member has, before it is forgotten, and asked for less often."""


@dataclass(slots=True)
class _Pulls:
    """How often was asked while the same was held, and when to ask next; `open` says that something is missing."""

    held: tuple[bytes, ...]
    due_us: int
    times: int = 0
    open: bool = True


class GroupMaintenance:
    """Recurring work in the groups of one device. Nothing of it is durable: after a restart it begins again."""

    def __init__(self, identity: Identity, records: Records, jitter: Jitter, carriage: Carriage) -> None:
        self._gathering: Gathering | None = None
        self._identity = identity
        self._own = identity.signing_public
        self._records = records
        self._jitter = jitter
        self._carriage = carriage
        self._reconcile_at: dict[GroupId, int] = {}
        self._pulls: dict[GroupId, _Pulls] = {}
        self._announced_at_us: int | None = None
        self._lost: list[GroupId] = []
        """The groups that list a noise key that this device does not hold, since `_lost_at_us`."""
        self._lost_of: tuple[int, NoisePublic] | None = None
        self._lost_at_us: int | None = None
        self._lost_rests_until_us = 0
        self._answered: dict[tuple[DeviceKey, GroupId], list[int]] = {}
        self._given: dict[tuple[DeviceKey, GroupId, int], int] = {}
        """How many manifests the answers to a request had so far, where there are more."""
        self._ends: dict[tuple[DeviceKey, GroupId], int] = {}
        """The highest version that an asker was given."""
        self._looked = False
        if any(each.request is not None for each in records.invites.all()):
            self.gathering()

    def gathering(self) -> Gathering:
        """Return who waits to be let in with others; loaded where somebody does, as few devices let fleets in."""
        if self._gathering is None:
            from covey.core.membership.gathering import Gathering

            self._gathering = Gathering(self._records.invites, self._records.counters)
        return self._gathering

    def answer_pull(self, groups: Groups, message: Message, now: Now) -> list[GroupSend]:
        """Give a member the manifests that it asks for, and the secret of the epoch; nothing to who asks too much.

        Raises:
            RemoteError: malformed.
        """
        from_version = pull_from_wire(message.body)
        asker, since_us = (message.author, message.group_id), now.monotonic_us - PULL_US // 2
        answered = {key: [each for each in at_us if each > since_us] for key, at_us in self._answered.items()}
        self._answered = {key: at_us for key, at_us in answered.items() if at_us}
        goes_on = from_version > self._ends.get(asker, from_version)
        rests = len(self._answered.get(asker, ())) >= PULLS_ANSWERED and not goes_on
        outbox, control = self._records.outbox, MessageClass.CONTROL
        if rests or more_waits(outbox, message.author, control, message.group_id, BUNDLE_BYTES):
            self._records.counters.count("pulls_unanswered")
            return []
        manifests, wanted = self._next_answer(asker, from_version)
        if wanted and not manifests:
            self._records.counters.count("pulls_too_large")
            return []
        self._answered.setdefault(asker, []).append(now.monotonic_us)
        self._note_end(asker, manifests)
        inside = groups.is_in(message.group_id)
        secret = groups.secret(message.group_id) if inside else None
        bundle = Bundle(manifests, (secret,) if secret is not None else ())
        # Whoever learns from others first that this device is out of the group takes nothing of it any more.
        lifetime_us = None if inside else VISIT_US
        return [GroupSend(message.author, MessageType.GROUP_MANIFEST, message.group_id, bundle.to_wire(), lifetime_us)]

    def refuse_join(self, message: Message) -> list[GroupSend]:
        """Tell a member that asks by an invite which is none; not who takes nothing of what is told it."""
        if self._records.outbox.waiting_bytes(message.author, MessageClass.CONTROL) > BUNDLE_BYTES:
            return []
        return [GroupSend(message.author, MessageType.GROUP_MANIFEST, message.group_id, Bundle(()).to_wire())]

    def _note_end(self, asker: tuple[DeviceKey, GroupId], manifests: tuple[bytes, ...]) -> None:
        version = read_manifest(manifests[-1], verify=False).version if manifests else 0
        version = max(version, self._ends.pop(asker, 0))
        if len(self._ends) >= PACED:
            del self._ends[next(iter(self._ends))]
        self._ends[asker] = version

    def _next_answer(self, asker: tuple[DeviceKey, GroupId], from_version: int) -> tuple[tuple[bytes, ...], bool]:
        """Return the content of an answer to a request, and whether there was any.

        A repeated request gets what the last answer had no room for, and then the beginning again.
        """
        read, about = self._records.groups.manifests_from, (*asker, from_version)
        given = self._given.pop(about, 0)
        wanted = read(asker[1], from_version, BUNDLE_MANIFESTS, given)
        if given and not wanted:
            given, wanted = 0, read(asker[1], from_version, BUNDLE_MANIFESTS)
        manifests = first_within(wanted, self._carriage.maximum_payload)
        if given or len(manifests) < len(wanted) or len(wanted) == BUNDLE_MANIFESTS:
            if len(self._given) >= PACED:
                del self._given[next(iter(self._given))]
            self._given[about] = given + len(manifests)
        return manifests, bool(wanted)

    def ask(
        self, groups: Groups, group_id: GroupId, member: DeviceKey, now: Now, *, behind: bool = False
    ) -> list[GroupSend]:
        """Ask a member for what is missing, if anything is and nobody was asked of late (rules 1 and 3).

        `behind` says that the member has shown that it knows more.
        """
        trust = groups.trust(group_id)
        if trust.current is None or trust.current.member(self._own) is None:
            return []
        if group_id not in {group.group_id for group in groups.joined()}:
            return []
        early = self._records.groups.early_manifests(group_id)
        held = self._known(groups, group_id)
        pulls = self._pulls.get(group_id)
        if pulls is None or pulls.held != held:
            pulls = self._pulls[group_id] = _Pulls(held, now.monotonic_us)
        pulls.open = behind or bool(early) or not held[0]
        if not pulls.open or now.monotonic_us < pulls.due_us or trust.current.member(member) is None:
            return []
        rounds, asked = divmod(pulls.times, _PULLS_MAX)
        if rounds and not asked:
            for raw in early:
                self._records.groups.drop_early_manifest(group_id, manifest_hash(raw))
            early = []
        rarer = min(16, max(0, pulls.times + 1 - _PULLS_MAX))
        pause_us = min(PULL_US_MAX, PULL_US << rarer)
        pulls.due_us = now.monotonic_us + self._jitter(pause_us, 2 * pause_us)
        pulls.times += 1
        lowest = min((read_manifest(raw, verify=False).version for raw in early), default=trust.root.version)
        further_back = max(1, lowest - 4 ** (asked // 2))  # in turn, as one that was made up may be the lowest
        from_version = further_back if asked % 2 == (lowest > trust.root.version) else trust.root.version
        waiting = groups_of_waiting(self._records.outbox, member, MessageType.GROUP_PULL)
        if waiting.count(group_id) >= PULLS_ANSWERED:  # it takes none now: more would take all other turns
            return []
        return [GroupSend(member, MessageType.GROUP_PULL, group_id, pull_to_wire(from_version))]

    def next_deadline(self) -> int | None:
        """Return when `handle_deadline` should be called next, in monotonic microseconds."""
        times = [*self._reconcile_at.values(), *(pulls.due_us for pulls in self._pulls.values() if pulls.open)]
        if self._lost_at_us is not None:
            times.append(max(self._lost_at_us + LOST_KEY_US, self._lost_rests_until_us))
        gathered = self._gathering.next_deadline() if self._gathering is not None else None
        return min(times if gathered is None else [*times, gathered], default=None)

    def has_work(self, membership: Membership, now: Now) -> bool:
        """Say whether `handle_deadline` has something to do."""
        deadline = self.next_deadline()
        return (
            (deadline is not None and deadline <= now.monotonic_us)
            or not self._looked
            or any(not group.raw and group.group_id not in self._reconcile_at for group in membership.groups.joined())
            or bool(self._to_announce(membership.groups, now))
            or bool(membership.unfinished)
            or (self._gathering is not None and self._gathering.has_work(now))
        )

    def _to_announce(self, groups: Groups, now: Now) -> list[GroupId]:
        """Return the groups that rule 5 requires a message in; one that refuses is asked again after a while."""
        self._look_for_lost(groups, now)
        tried, now_us = self._announced_at_us, now.monotonic_us
        if tried is not None and now_us < tried + MAINTENANCE_US:
            return []
        since_us = self._lost_at_us
        is_due = since_us is not None and now_us >= max(since_us + LOST_KEY_US, self._lost_rests_until_us)
        return [*outdated(groups, self._identity), *(self._lost if is_due else ())]

    def _look_for_lost(self, groups: Groups, now: Now) -> None:
        looked_at = groups.generation, self._identity.noise_public
        if self._lost_of != looked_at:
            self._lost_of, self._lost = looked_at, lost(groups, self._identity)
            if not self._lost:
                self._lost_at_us = None
            elif self._lost_at_us is None:
                self._lost_at_us = now.monotonic_us

    def handle_deadline(self, membership: Membership, now: Now) -> list[GroupSend]:
        """Let in who has waited, end conflicts that nobody else has ended, and ask again for what is missing."""
        sends = self._gathering.let_in(membership, now) if self._gathering is not None else []
        for group_id in sorted(membership.unfinished):
            sends += membership.go_on(group_id, now.wall_us)
        announced = self._to_announce(membership.groups, now)
        if announced:
            if not {*announced}.isdisjoint(self._lost):
                self._lost_rests_until_us = now.monotonic_us + LOST_KEY_PAUSE_US
            sends += announce_in(announced, membership, self._identity, self._records, now.wall_us)
            self._look_for_lost(membership.groups, now)
            refused = {*outdated(membership.groups, self._identity), *self._lost} & {*announced}
            self._announced_at_us = now.monotonic_us if refused else None
        if not self._looked:
            self._look(membership.groups, now)
        groups = {group.group_id: group for group in membership.groups.joined()}
        for group_id in [each for each in self._reconcile_at if each not in groups or groups[each].raw]:
            del self._reconcile_at[group_id]
        for group_id in [each for each in self._pulls if each not in groups]:
            del self._pulls[group_id]
        for group_id, group in groups.items():
            if not group.raw:
                sends += self._end_conflict(membership, group_id, now)
            pulls = self._pulls.get(group_id)
            if pulls is not None and pulls.open and pulls.due_us <= now.monotonic_us:
                others = [each.keys.signing_public for each in group.members if not each.is_board]
                others = [key for key in others if key != self._own]
                if not others:
                    del self._pulls[group_id]
                    continue
                if self._renews(membership.groups, group, pulls):
                    sends += self._renew(membership, group_id, now)
                sends += self.ask(membership.groups, group_id, others[self._jitter(0, len(others) - 1)], now)
        return sends

    def _look(self, groups: Groups, now: Now) -> None:
        self._looked = True
        for group_id in [group.group_id for group in groups.joined()]:
            if groups.secret(group_id) is None or self._records.groups.early_manifests(group_id):
                self._pulls[group_id] = _Pulls(self._known(groups, group_id), now.monotonic_us)

    def _known(self, groups: Groups, group_id: GroupId) -> tuple[bytes, ...]:
        """Return what is held of a group; while it is unchanged, nothing requested has arrived."""
        heads = groups.trust(group_id).heads()
        return (groups.secret(group_id) or b"", *sorted(head.hash for head in heads))

    def _renews(self, groups: Groups, group: GroupManifest, pulls: _Pulls) -> bool:
        """Return whether a group's secret counts as lost, and this device should renew it (rule 3)."""
        if not group.raw or pulls.times < SECRET_PULLS or groups.secret(group.group_id) is not None:
            return False
        return may_renew(group.mode, GroupState.of(group), self._own)

    def _renew(self, membership: Membership, group_id: GroupId, now: Now) -> list[GroupSend]:
        try:
            sends = membership.change(group_id, lambda draft, epoch_id: draft.renewing(epoch_id), now.wall_us)
        except LocalError:
            self._records.counters.count("unrenewed_epochs")
            return []
        self._records.counters.count("renewed_epochs")
        return sends

    def _leaves_it_to_others(self, group: GroupManifest) -> bool:
        """Return whether this device keeps what is left of its allowance for its own changes (rule 2)."""
        own = group.member(self._own)
        return own is not None and own.allowance < ENDING_ALLOWANCE and not is_exempt(group.mode, own)

    def _end_conflict(self, membership: Membership, group_id: GroupId, now: Now) -> list[GroupSend]:
        """Rule 2."""
        due_us = self._reconcile_at.get(group_id)
        if due_us is None:
            issuers = {head.issuer for head in membership.groups.trust(group_id).heads()}
            low, high = RECONCILE_ISSUER_US if self._own in issuers else RECONCILE_ANYBODY_US
            self._reconcile_at[group_id] = now.monotonic_us + self._jitter(low, high)
            return []
        if now.monotonic_us < due_us:
            return []
        del self._reconcile_at[group_id]
        if self._leaves_it_to_others(membership.groups.group(group_id)):
            return []
        try:
            return membership.change(group_id, lambda draft, _: draft, now.wall_us)
        except LocalError:
            self._records.counters.count("unresolved_conflicts")
            return []
