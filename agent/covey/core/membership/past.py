"""The manifests of a group from before those that this device received first.

1. A manifest is believed if one that is held names it among those that it follows: the hash is the proof, whichever
   device delivered it.
2. They are requested at once if something names them, as operations do, and else by the agent when it is at rest
   (`app/groups/whole_chain.py`): all of them, newest first, as many at a time as one message carries, and no more
   often than the asked member will answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from covey.core.group.manifest import read_manifest
from covey.core.group.messages import GroupSend, pull_to_wire
from covey.core.ids import DeviceKey, GroupId
from covey.core.now import Now
from covey.core.wire.message import MessageType
from covey.errors import RemoteError
from covey.limits.group import BUNDLE_MANIFESTS, PULL_US

if TYPE_CHECKING:
    from covey.core.records.groups import GroupRecords


class Past:
    """Fetches what went before."""

    def __init__(self, records: GroupRecords) -> None:
        self._records = records
        self._asked_at_us: dict[GroupId, int] = {}

    def take(self, group_id: GroupId, raws: Iterable[bytes], now: Now) -> bool:
        """Keep those that what is held follows; return whether there were any (rule 1)."""
        wanted = self._records.followed_from(group_id)
        took = False
        for raw in reversed(tuple(raws)):
            try:
                manifest = read_manifest(raw)
            except RemoteError:
                continue
            if manifest.group_id == group_id and manifest.hash in wanted:
                self._records.save_past_manifest(group_id, manifest.hash, manifest.version, raw, now.wall_us)
                wanted.update(manifest.prev)
                took = True
        return took

    def ask(self, group_id: GroupId, member: DeviceKey, now: Now) -> list[GroupSend]:
        """Ask a member for the manifests before the first one here, if there are any (rule 2)."""
        lowest = self._records.lowest_version(group_id)
        asked_at_us = self._asked_at_us.get(group_id)
        rests = asked_at_us is not None and now.monotonic_us < asked_at_us + PULL_US
        if lowest <= 1 or rests:
            return []
        self._asked_at_us[group_id] = now.monotonic_us
        body = pull_to_wire(max(1, lowest - BUNDLE_MANIFESTS))
        return [GroupSend(member, MessageType.GROUP_PULL, group_id, body)]
