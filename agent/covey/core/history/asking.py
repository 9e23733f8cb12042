"""Choose the members to ask for missing history, and when.

1. The asker states how far it has come in each log; to members that support it, by tags instead of keys. It asks again
   while answers bring something new, and otherwise not before `HISTORY_PULL_US` have passed; then it also asks by id
   for operations that others rest on.
2. It asks again for operations whose manifest was missing, once that manifest has arrived.
3. A member that is asked with tags sees from them what the asker has, and asks back only for that: so two devices that
   both lack something compare their logs once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest
from covey.core.group.messages import GroupSend
from covey.core.history.messages import LOG_SALT_BYTES, HistoryPull
from covey.core.history.operation import Log
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.membership.past import Past
from covey.core.now import Now
from covey.core.wire.message import Message, MessageType
from covey.limits.history import ANNOUNCE_US, HISTORY_PULL_US, MAXIMUM_LOGS, MAXIMUM_WANTED

if TYPE_CHECKING:
    from covey.core.records import Records


class HistoryAsking:
    """Asks members for operations."""

    def __init__(self, past: Past, records: Records) -> None:
        self._past = past
        self._records = records
        self._pulled_at_us: dict[tuple[GroupId, DeviceKey], int] = {}
        self._look_at_us: int | None = None
        """When to look next whether a member is to be asked; None: nobody is."""
        self._missing_manifests: dict[GroupId, ManifestHash] = {}
        self._asks_later: dict[GroupId, DeviceKey] = {}
        """Members to ask for operations once a manifest that one of them names has arrived."""
        self._asks_at_us: dict[GroupId, tuple[DeviceKey, int]] = {}
        """Members to ask again for operations, and when."""
        self._asked: set[tuple[GroupId, DeviceKey]] = set()
        """Who was asked since the start: an answer may come after a day."""
        self._taking_tags: set[DeviceKey] = set()
        """Who has said that it takes requests that name logs by tags."""
        self._wanted: dict[tuple[GroupId, DeviceKey], tuple[OperationId, ...]] = {}
        """What a member's operations rest on that was asked too lately to be asked again."""

    def ask(
        self,
        group_id: GroupId,
        member: DeviceKey,
        now: Now,
        wanted: Iterable[OperationId] = (),
        *,
        progressed: bool = False,
        behind: dict[Log, int] | None = None,
    ) -> list[GroupSend]:
        """Ask a member for all that is not here; `progressed` where the last answer brought something (rule 1).

        `behind` are the logs alone of which it is to send something, and how far they have come here.
        """
        records = self._records.operations
        named = (*wanted, *self._wanted.pop((group_id, member), ()))
        unknown = sorted({each for each in named if records.held(group_id, each) is None})[:MAXIMUM_WANTED]
        asked_at_us = self._pulled_at_us.get((group_id, member))
        if not progressed and asked_at_us is not None and now.monotonic_us < asked_at_us + HISTORY_PULL_US:
            if unknown:
                self._wanted[group_id, member] = tuple(unknown)
                self._look_by(now.monotonic_us + ANNOUNCE_US)
            return []
        self._pulled_at_us = {
            key: at_us for key, at_us in self._pulled_at_us.items() if now.monotonic_us < at_us + HISTORY_PULL_US
        }
        self._pulled_at_us[group_id, member] = now.monotonic_us
        self._asked.add((group_id, member))
        longest = nlargest(MAXIMUM_LOGS, records.logs(group_id), key=lambda end: end[1])
        pull = HistoryPull(behind or dict(longest), tuple(unknown), only=behind is not None)
        if member in self._taking_tags:
            pull = pull.with_tags(now.wall_us.to_bytes(LOG_SALT_BYTES, "big"))
        return [GroupSend(member, MessageType.HISTORY_PULL, group_id, pull.to_wire())]

    def ask_at(self, group_id: GroupId, member: DeviceKey, at_us: int) -> None:
        """Ask a member once more at a time of the monotonic clock; nobody else who was to be asked so in the group."""
        self._asks_at_us[group_id] = member, at_us
        self._look_by(at_us)

    def ask_later(self, group_id: GroupId, member: DeviceKey, manifest: ManifestHash, now: Now) -> None:
        """Ask a member again once a manifest that its operations name is here."""
        self._missing_manifests[group_id] = manifest
        self._asks_later[group_id] = member
        self._look_by(now.monotonic_us + ANNOUNCE_US)

    def ask_back(self, message: Message, asked: HistoryPull, now: Now) -> list[GroupSend]:
        """Request the operations that a member's tagged request lists and this device lacks (rule 3)."""
        group_id = message.group_id
        if asked.tagged is None or asked.only:
            return []  # so nobody asks back who was asked back
        self.note_tags(message.author, takes=True)
        own = dict(self._records.operations.logs(group_id))
        behind = {log: own[log] for log, number in asked.among(own).ends.items() if number > own[log]}
        return self.ask(group_id, message.author, now, behind=behind) if behind else []

    def was_asked(self, group_id: GroupId, member: DeviceKey) -> bool:
        """Say whether a member was asked for operations since the start."""
        return (group_id, member) in self._asked

    def note_tags(self, member: DeviceKey, *, takes: bool) -> None:
        """Note whether a member takes requests that name logs by tags."""
        (self._taking_tags.add if takes else self._taking_tags.discard)(member)

    def has_work(self, now: Now) -> bool:
        """Say whether somebody may be to be asked."""
        return _is_due(self._look_at_us, now)

    def maintain(self, groups: Mapping[GroupId, GroupManifest], now: Now) -> list[GroupSend]:
        """Ask members of these groups that could not be asked earlier."""
        sends = [*self._ask_late(groups, now), *self._ask_wanted(groups, now), *self._ask_once_more(groups, now)]
        looks = [at_us for _, at_us in self._asks_at_us.values()]
        if self._asks_later or self._wanted:
            looks.append(now.monotonic_us + ANNOUNCE_US)
        self._look_at_us = min(looks, default=None)
        return sends

    def _look_by(self, at_us: int) -> None:
        """Plan to choose members to ask, at that time at the latest; later events do not postpone it."""
        self._look_at_us = at_us if self._look_at_us is None else min(self._look_at_us, at_us)

    def _ask_late(self, groups: Mapping[GroupId, GroupManifest], now: Now) -> list[GroupSend]:
        """Ask for operations whose manifest has arrived, and again for missing manifests.

        The manifest may remove this device, or the asked member: then there is no answer.
        """
        sends: list[GroupSend] = []
        for group_id, member in list(self._asks_later.items()):
            group = groups.get(group_id)
            if group is None or group.member(member) is None:
                del self._asks_later[group_id], self._missing_manifests[group_id]
            elif self._records.groups.manifest(group_id, self._missing_manifests[group_id]) is not None:
                del self._asks_later[group_id], self._missing_manifests[group_id]
                sends += self.ask(group_id, member, now, progressed=True)
            else:
                sends += self._past.ask(group_id, member, now)
        return sends

    def _ask_wanted(self, groups: Mapping[GroupId, GroupManifest], now: Now) -> list[GroupSend]:
        sends: list[GroupSend] = []
        for group_id, member in list(self._wanted):
            group = groups.get(group_id)
            if group is None or group.member(member) is None:
                del self._wanted[group_id, member]
            else:
                sends += self.ask(group_id, member, now)
        return sends

    def _ask_once_more(self, groups: Mapping[GroupId, GroupManifest], now: Now) -> list[GroupSend]:
        sends: list[GroupSend] = []
        for group_id, (member, at_us) in list(self._asks_at_us.items()):
            group = groups.get(group_id)
            if group is None or group.member(member) is None:
                del self._asks_at_us[group_id]
            elif _is_due(at_us, now):
                del self._asks_at_us[group_id]
                sends += self.ask(group_id, member, now, progressed=True)
        return sends


def _is_due(at_us: int | None, now: Now) -> bool:
    return at_us is not None and now.monotonic_us >= at_us
