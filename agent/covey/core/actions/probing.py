"""Ask members to prove that this device's messages reach others (docs/protocol/history.md, "On trial").

The probe is a HISTORY_PULL that asks for nothing: members only acknowledge it.

1. It goes to those that learn the command's result, and to other members, most recently seen first.
2. An acknowledgement by one of them, of it or of anything later, counts; a relay's answer, or removal from the queue,
   does not.
3. If no probe waits any more, and this process knows of no acknowledgement, it is sent once more.
4. A device that is alone in its group, except for its boards, asks nobody: it cannot be cut off from anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from covey.core.actions.reporting import hearers
from covey.core.group.manifest import GroupManifest
from covey.core.history.messages import NOTHING_ASKED
from covey.core.ids import DeviceKey, Place
from covey.core.link.send_queue import SendQueue
from covey.core.now import Now
from covey.core.wire.message import MessageType
from covey.core.wire.sequences import SequenceSet
from covey.limits.actions import PROBED_MEMBERS

if TYPE_CHECKING:
    from covey.core.records import Records


class Probes:
    """Sends them, and says whether they were acknowledged."""

    def __init__(self, own: DeviceKey, queue: SendQueue, records: Records) -> None:
        self._own = own
        self._queue = queue
        self._records = records

    def have_nobody(self, group: GroupManifest) -> bool:
        """Say whether there is nobody to ask (rule 4)."""
        return not any(key != self._own for key in group.writers)

    def send(self, group: GroupManifest, author: DeviceKey, now: Now) -> dict[DeviceKey, Place]:
        """Ask members (rule 1); return at which place of whose queue. Writes, so inside a transaction.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        first, seen = hearers(group, author, ()), self._records.presence.last_seen()
        others = sorted(self._others(group), key=lambda key: (key not in first, -seen.get(key, 0), key))
        pull = NOTHING_ASKED.to_wire()
        asked = others[:PROBED_MEMBERS]
        return {key: self._queue.queue(key, MessageType.HISTORY_PULL, group.group_id, pull, now) for key in asked}

    def are_acknowledged(self, sent: Mapping[DeviceKey, Place]) -> bool:
        """Say whether somebody has acknowledged what was sent, or something later (rule 2)."""
        return any(self._queue.last_acknowledged(key) >= place for key, place in sent.items())

    def wait(self, sent: Mapping[DeviceKey, Place]) -> bool:
        """Say whether something of it waits still."""
        return any(not self._records.outbox.missing(key, SequenceSet().add(place)) for key, place in sent.items())

    def _others(self, group: GroupManifest) -> list[DeviceKey]:
        return [key for key in group.writers if key != self._own]
