"""Compare this device's groups with each peer's by heads (docs/protocol/groups.md, "Heads"; ADR 43).

1. Every acknowledgement and beat to a member carries a digest of the heads of all groups that both are in. If a
   received digest differs from ours, its author gets a HEADS report, which states the heads of each of these groups
   here.
2. A device that learns of a higher version, or of other heads of the same version, asks for it (GROUP_PULL), whichever
   device reported it. A device that learns of a lower one, or of fewer groups than it shares with the author, answers
   with its own report. So two devices that differ exchange at most two reports, and one request each for a group. If
   one answer does not hold all that a member reported, the device asks for the next one at once.
3. A member that still believes in a destroyed group gets the REVOKE; a removed member gets the manifests up to its
   removal, and nothing later (`former_members.py`). Nothing else is accepted from a device that shares no group with
   this one.
4. `pacing.py` paces reports, requests and the messages of rule 3. No report goes while a control message waits for the
   device that was queued in the last `NEWS_US`, because that may be the news. No request and no message of rule 3 goes
   while a control message of the same group waits for the device. Requests for manifests wait for such requests only,
   and rule 7 for manifests only. What a device never takes, because it has lost the group with its state, waits for it
   for weeks: it stops nothing in other groups.
5. A device that learns of another history of the same group asks for what it lacks (`history/asking.py`), after the
   manifests that this history may name, and answers.
6. Members of which nothing is known get a report that asks for theirs: one every ten minutes for an hour after a start
   or a change, then one an hour. So a member learns of a removal even if it communicates only with the removed device.
   Members not asked before come first, because the others may be gone permanently.
7. A member that reports a lower version for more than `GIVEN_AFTER` times is given the manifests after it, with the
   secret: it may hold its removal, and have lost with its state the manifest that added it again; then it asks nobody.
8. A device that was restored from a backup may hold neither the noise key that others seal for nor know theirs. So a
   report that asks names the key that this device holds; every second one to a device that was not heard since the
   start is sealed for its signing key, which never changes; and a device whose report names another key than its
   manifests list is answered under both (`named_keys.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.crypto import Identity, sealing_key
from covey.core.group.messages import Bundle, GroupSend, first_within, pull_to_wire
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.link.carriage import Carriage
from covey.core.link.pacing import HeadsPacing
from covey.core.link.queued import MessageClass
from covey.core.link.send_queue import groups_of_waiting, more_waits
from covey.core.link.send_window import Jitter
from covey.core.membership.former_members import FormerMembers
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.heads import GroupHead, HeadsReport, agree, head_digest, shared_digest
from covey.core.wire.message import NO_GROUP, Message, MessageType
from covey.errors import MalformedError
from covey.limits.group import BUNDLE_MANIFESTS
from covey.limits.heads import (
    GIVEN_AFTER,
    HEADS_CALM_US,
    HEADS_CHANGE_US,
    HEADS_ROUND_US,
    HEADS_ROUNDS,
    HEADS_START_US,
    NEWS_US,
    PACED,
    QUICK_ROUNDS,
)

if TYPE_CHECKING:
    from covey.core.history.asking import HistoryAsking
    from covey.core.history.history import History
    from covey.core.records import Records

_NEWS = (MessageClass.CONTROL, MessageClass.HISTORY)
"""What waits for a device may be the news."""


class HeadsExchange:
    """Compares this device's groups with others', and brings both up to date."""

    def __init__(
        self,
        identity: Identity,
        groups: Groups,
        histories: History,
        pulls: HistoryAsking,
        records: Records,
        jitter: Jitter,
        pacing: HeadsPacing,
        carriage: Carriage,
    ) -> None:
        self._identity = identity
        self._own = own = identity.signing_public
        self._groups = groups
        self._records = records
        self._jitter = jitter
        self._pacing = pacing
        self._histories = histories
        self._pulls = pulls
        self._carriage = carriage
        times = pacing.pauses.times
        self._former = FormerMembers(own, groups, records.groups, carriage, self._may_say, times, pacing.former_looks)
        self._generation = self._rounds_of = self._histories_generation = -1
        self._looked_at: tuple[int, int] | None = None
        self._digests: dict[GroupId, bytes] = {}
        self._said: dict[tuple[GroupTrust, ...], GroupId] = {}
        """By the groups that are shared: most members share the same ones with this device."""
        self._shared: dict[DeviceKey, tuple[GroupTrust, ...]] = {}
        """The groups that each other member of any is in together with this device, boards apart."""
        self._ahead: dict[tuple[GroupId, DeviceKey], tuple[int, int]] = {}
        """For each asked device, its reported version, and from which version on it was asked."""

    # -- what this device says ----------------------------------------------------------------------------------------

    def said_to(self, device: DeviceKey) -> GroupId:
        """Return what acknowledgements and beats to a device have in the place of a group (rule 1)."""
        self._follow()
        shared = self._shared.get(device, ())
        if shared not in self._said:
            self._said[shared] = shared_digest(map(self._head, shared))
        return self._said[shared]

    def _follow(self) -> None:
        if self._generation != self._groups.generation:
            self._generation = self._groups.generation
            self._digests.clear()
            self._said.clear()
            self._shared = self._shared_groups()
        if self._histories_generation != self._histories.generation:
            self._histories_generation = self._histories.generation
            self._said.clear()

    def _shared_groups(self) -> dict[DeviceKey, tuple[GroupTrust, ...]]:
        shared: dict[DeviceKey, tuple[GroupTrust, ...]] = {}
        for trust in self._groups.trusts():
            if trust.current is None or not self._lists(trust, self._own):
                continue
            with_it: dict[tuple[GroupTrust, ...], tuple[GroupTrust, ...]] = {}
            for key in trust.current.writers:
                earlier = shared.get(key, ())
                if (groups := with_it.get(earlier)) is None:
                    groups = with_it[earlier] = (*earlier, trust)
                shared[key] = groups
        shared.pop(self._own, None)
        return shared

    def _head(self, trust: GroupTrust) -> GroupHead:
        if trust.group_id not in self._digests:
            self._digests[trust.group_id] = head_digest(head.hash for head in trust.heads())
        version = max(head.version for head in trust.heads())
        history = self._histories.digest(trust.group_id)
        return GroupHead(trust.group_id, version, self._digests[trust.group_id], history)

    def _shares(self, trust: GroupTrust, device: DeviceKey) -> bool:
        """Return whether both are members of a group that is not destroyed, and follow its manifests: boards do not."""
        return self._lists(trust, self._own) and self._lists(trust, device)

    def _lists(self, trust: GroupTrust, device: DeviceKey) -> bool:
        member = trust.current.member(device) if trust.current is not None else None
        return member is not None and not member.is_board and not self._groups.is_revoked(trust.group_id)

    def report(self, device: DeviceKey, *, asks: bool = False, names: bool = False) -> HeadsReport:
        """Return how the groups stand that a device is a member of; this one may be none of them any more.

        `names` has it name this device's noise key (rule 8).
        """
        self._follow()
        listing = (self._head(trust) for trust in self._groups.trusts() if self._lists(trust, device))
        return HeadsReport(asks, tuple(listing), takes_tags=True, opens=self._identity.noise_public if names else None)

    def due(self, now: Now) -> Iterator[tuple[DeviceKey, bytes, list[NoisePublic]]]:
        """Yield (device, body, keys) of the reports that are due, each to be sealed for every one of these keys.

        Going on says that one has gone (rules 1, 4 and 6).
        """
        self._plan_round(now)
        pacing, now_us = self._pacing, now.monotonic_us
        for device in sorted(pacing.due_us, key=pacing.due_us.__getitem__):
            if pacing.due_us[device] > now_us or pacing.rests(now_us):
                return
            asks, said, own = device in pacing.asking, pacing.said.get(device), self.said_to(device)
            pacing.drop(device)
            if said is not None and self._in_step(own, said):
                continue
            if self._may_report(device, own, now, asks=asks):
                pacing.reports.spend(1, now_us)
                keys = self._keys(device, now_us, asks=asks)
                yield device, self.report(device, asks=asks, names=asks or len(keys) > 1).to_wire(), keys

    def _keys(self, device: DeviceKey, now_us: int, *, asks: bool) -> list[NoisePublic]:
        """Return the keys that a report to a device is sealed for (rule 8); none for one that is sent nothing."""
        pacing, listed = self._pacing, self._groups.address(device)
        if listed is None:
            return []
        named = pacing.named.of(device, listed, now_us)
        if named is not None:
            return [listed, named]
        if asks and device not in pacing.seen and pacing.rounds % 2 == 0:
            try:
                return [sealing_key(device)]
            except MalformedError:
                return [listed]
        return [listed]

    def next_deadline(self) -> int | None:
        """Return when `due` should be called next, in monotonic microseconds."""
        return self._pacing.next_deadline()

    def _plan_round(self, now: Now) -> None:
        """Plan rule 6's report; soon, with a few more, when a conflict began or ended, because others may not know."""
        pacing, now_us = self._pacing, now.monotonic_us
        self._follow()
        self._note_change(now_us)
        if self._rounds_of != self._generation:
            self._rounds_of = self._generation
            if pacing.round_at_us is not None and any(len(group.prev) != 1 for group in self._groups.joined()):
                pacing.quick_rounds = QUICK_ROUNDS
                pacing.round_at_us = min(pacing.round_at_us, now_us + self._jitter(*HEADS_CHANGE_US))
        if not self._shared:
            pacing.round_at_us = None
        elif pacing.round_at_us is None:
            pacing.round_at_us = now_us + self._jitter(*HEADS_START_US)
        elif now_us >= pacing.round_at_us:
            pacing.round_at_us = now_us + self._pause_us()
            seen_at, asked = self._records.heads.seen_at(), pacing.asked_at_us
            age = {each: max(seen_at.get(each, 0), asked.get(each, 0)) for each in self._shared}
            by_age = sorted(self._shared, key=lambda device: (age[device], device))
            longest = by_age[: (len(by_age) + 1) // 2]
            chosen = longest[self._jitter(0, len(longest) - 1)]
            kept = {key: at_us for key, at_us in pacing.asked_at_us.items() if key in self._shared}
            pacing.asked_at_us = kept | {chosen: now.wall_us}
            pacing.plan(chosen, None, self._jitter, now_us, asks=True)

    def _pause_us(self) -> int:
        """Return the pause before the next round, and count this one."""
        pacing = self._pacing
        if pacing.quick_rounds > 0:
            pacing.quick_rounds -= 1
            return self._jitter(*HEADS_CHANGE_US)
        pacing.rounds += 1
        if pacing.rounds < HEADS_ROUNDS:
            return self._jitter(HEADS_ROUND_US // 2, HEADS_ROUND_US * 3 // 2)
        return self._jitter(HEADS_CALM_US * 3 // 4, HEADS_CALM_US)

    def _note_change(self, now_us: int) -> None:
        """Have rounds be more frequent again after a change of any group or history."""
        generations = self._generation, self._histories_generation
        if self._looked_at == generations:
            return
        self._looked_at = generations
        pacing = self._pacing
        heads = frozenset(self._head(trust) for trusts in set(self._shared.values()) for trust in trusts)
        if pacing.rounds_of != heads:
            calm = pacing.rounds >= HEADS_ROUNDS
            pacing.rounds_of, pacing.rounds = heads, 0
            if calm and pacing.round_at_us is not None:
                soon_us = now_us + self._jitter(HEADS_ROUND_US // 2, HEADS_ROUND_US * 3 // 2)
                pacing.round_at_us = min(pacing.round_at_us, soon_us)

    def _may_report(self, device: DeviceKey, own: GroupId, now: Now, *, asks: bool) -> bool:
        """Say whether a report may go to a device now, and note that it does (rule 4); rule 6's wait for no news."""
        since_us, outbox = now.wall_us - NEWS_US, self._records.outbox
        if not asks and any(outbox.is_queued_between(device, kind, since_us, now.wall_us) for kind in _NEWS):
            return False
        return self._may_repeat(("report", device), own, now.monotonic_us)

    def _may_say(self, what: str, device: DeviceKey, group_id: GroupId, about: bytes, now_us: int) -> bool:
        """Say whether something of a group may go to a device now, and note that it does (rule 4)."""
        if any(more_waits(self._records.outbox, device, kind, group_id, 0) for kind in _NEWS):
            return False
        return self._may_repeat((what, device, group_id), about, now_us)

    def _may_repeat(self, key: tuple[object, ...], about: bytes, now_us: int) -> bool:
        ready = self._pacing.pauses.ready(key, about, now_us)
        if ready:
            self._pacing.pauses.done(key, about, now_us)
        return ready

    # -- what others say ----------------------------------------------------------------------------------------------

    def compare(self, message: Message, now: Now) -> None:
        """Compare what an acknowledgement or beat says of the groups shared with its author (rule 1)."""
        device, said = message.author, message.group_id
        if said == NO_GROUP or not self._groups.hears(device):
            return
        self._records.heads.note(device, said, None, now.wall_us)
        self._pacing.seen.add(device)
        own = self.said_to(device)
        differs = not self._in_step(own, said)
        if device in self._pacing.said or (
            differs and self._pacing.pauses.ready(("report", device), own, now.monotonic_us)
        ):
            self._pacing.plan(device, said, self._jitter, now.monotonic_us)

    def receive(self, message: Message, now: Now) -> list[GroupSend]:
        """Take a report; return what it makes necessary (rules 2 and 3).

        Raises:
            RemoteError: malformed, or by a stranger.
        """
        device = message.author
        listed = self._groups.address(device)
        if not self._groups.hears(device) or listed is None:  # heard as we are out of its group
            return self._former.receive(message, now)
        report = HeadsReport.from_wire(message.body)
        self._pacing.seen.add(device)
        self._pacing.named.note(device, report.opens, listed, now.monotonic_us)
        self._records.heads.note(device, message.group_id, message.body, now.wall_us)
        self._pulls.note_tags(device, takes=report.takes_tags)
        self._follow()
        sends: list[GroupSend] = []
        answers = report.wants_answer
        for head in report.heads:
            trust = self._groups.trust_of(head.group_id)
            if trust is not None and trust.current is not None:
                sends += self._bring_together(trust, head, device, now)
                answers |= self._lists(trust, device) and self._differs(trust, head) and not self._behind(trust, head)
        named = {head.group_id for head in report.heads}
        answers |= any(trust.group_id not in named for trust in self._groups.trusts() if self._shares(trust, device))
        if answers:
            said = None if report.wants_answer else message.group_id
            self._pacing.plan(device, said, self._jitter, now.monotonic_us)
        return sends

    @staticmethod
    def _in_step(own: GroupId, said: GroupId) -> bool:
        return own != NO_GROUP and agree(own, said)

    def _differs(self, trust: GroupTrust, head: GroupHead) -> bool:
        own = self._head(trust)
        return replace(head, history=None) != replace(own, history=None) or head.history not in {None, own.history}

    def _behind(self, trust: GroupTrust, head: GroupHead) -> bool:
        return head.version > self._head(trust).version

    def _bring_together(self, trust: GroupTrust, head: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        own, group_id = self._head(trust), trust.group_id
        if self._groups.is_revoked(group_id):
            return self._end_for(trust, head, device, now)
        if not self._lists(trust, self._own):
            return []
        if not self._lists(trust, device):
            return self._former.notice(head, device, now) if head.digest != own.digest else []
        manifests: list[GroupSend] = []
        if own.digest != head.digest:
            bring = self._ask if head.version >= own.version else self._give
            manifests = bring(head, own, device, now)
        return [*manifests, *self._ask_history(head, own, device, now)]

    def _ask_history(self, head: GroupHead, own: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        if head.history in {None, own.history}:
            return []
        if not self._may_say("history", device, own.group_id, own.history or b"", now.monotonic_us):
            return []
        return self._pulls.ask(own.group_id, device, now)

    def _ask(self, head: GroupHead, own: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        """Ask for what follows the state here, and alternately ever earlier versions if that did not help.

        It asks although messages wait for that device, unless one is such a request: the missing manifest may be why
        the device accepts none of them.
        """
        key, tokens = ("pull", device, own.group_id), self._pacing.pulls(own.group_id)
        times = self._pacing.pauses.times(key, own.digest)
        now_us = now.monotonic_us
        if tokens.wait_us(now_us) or not self._pacing.pauses.ready(key, own.digest, now_us):
            return []
        if own.group_id in groups_of_waiting(self._records.outbox, device, MessageType.GROUP_PULL):
            return []
        self._pacing.pauses.done(key, own.digest, now_us)
        tokens.spend(1, now.monotonic_us)
        back = 4 ** min(times - 1, 16) if times % 2 else 0
        from_version = own.version + (head.version > own.version) - back
        return self._pull(own.group_id, device, max(1, from_version), head.version)

    def _pull(self, group_id: GroupId, device: DeviceKey, from_version: int, version: int) -> list[GroupSend]:
        self._ahead.pop((group_id, device), None)
        while len(self._ahead) >= PACED:
            del self._ahead[next(iter(self._ahead))]
        self._ahead[group_id, device] = version, from_version
        return [GroupSend(device, MessageType.GROUP_PULL, group_id, pull_to_wire(from_version))]

    def ask_on(self, group_id: GroupId, device: DeviceKey) -> list[GroupSend]:
        """Ask on who was asked, where what has come from there brought something, and not all that it has (rule 2)."""
        trust, (version, from_version) = self._groups.trust_of(group_id), self._ahead.get((group_id, device), (0, 0))
        if not version or trust is None or not self._shares(trust, device):
            return []
        self._follow()
        own = self._head(trust)
        if own.version >= version:
            del self._ahead[group_id, device]
        if not from_version <= own.version < version:
            return []
        return self._pull(group_id, device, own.version + 1, version)

    def _give(self, head: GroupHead, own: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        key, group_id = ("give", device, own.group_id), own.group_id
        times = self._pacing.pauses.times(key, head.digest)
        if group_id in groups_of_waiting(self._records.outbox, device, MessageType.GROUP_MANIFEST):
            return []
        if not self._may_repeat(key, head.digest, now.monotonic_us):
            return []
        if times < GIVEN_AFTER:  # as mostly: it asks
            return []
        back = 4 ** min(times - GIVEN_AFTER, 16) - 1
        following = self._records.groups.manifests_from(group_id, max(1, head.version - back), BUNDLE_MANIFESTS)
        fitting = first_within(following, self._carriage.maximum_payload)
        if not fitting:
            return []
        secret = self._groups.secret(group_id)
        body = Bundle(fitting, () if secret is None else (secret,)).to_wire()
        return [GroupSend(device, MessageType.GROUP_MANIFEST, group_id, body)]

    def _end_for(self, trust: GroupTrust, head: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        raw = self._records.groups.revocation(trust.group_id)
        if raw is None or not self._may_say("told", device, trust.group_id, head.digest, now.monotonic_us):
            return []
        sends = [GroupSend(device, MessageType.REVOKE, trust.group_id, raw)]
        if self._head(trust).digest != head.digest:
            lacking = self._records.groups.manifests_from(trust.group_id, head.version, BUNDLE_MANIFESTS)
            fitting = first_within(lacking, self._carriage.maximum_payload)
            if fitting:
                body = Bundle(fitting).to_wire()
                sends.insert(0, GroupSend(device, MessageType.GROUP_MANIFEST, trust.group_id, body))
        return sends
