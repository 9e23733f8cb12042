"""Queueing what has become of a command for those who are to know it: whoever gave it, and the collectors."""

from __future__ import annotations

from covey.core.actions.received import ReceivedResults
from covey.core.actions.records import CommandRecord
from covey.core.group.manifest import COLLECTOR, GroupManifest
from covey.core.ids import DeviceKey
from covey.core.link.send_queue import SendQueue
from covey.core.now import Now
from covey.core.wire.message import MessageType


def hearers(group: GroupManifest, author: DeviceKey) -> list[DeviceKey]:
    """Return whom results of an author's command go to (docs/protocol.md, "Commands"): itself, and the collectors."""
    return [
        member.keys.signing_public
        for member in group.members
        if (member.keys.signing_public == author or COLLECTOR in member.capabilities) and not member.is_board
    ]


class ResultReporting:
    """Reports results of this device's commands."""

    def __init__(self, own: DeviceKey, queue: SendQueue, kept: ReceivedResults) -> None:
        self._own = own
        self._queue = queue
        self._kept = kept

    def queue(self, group: GroupManifest, record: CommandRecord, now: Now) -> None:
        """Queue a result for the command's author and the collectors, as far as they are members.

        Where this device is one of them, it is kept as others' are.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        assert record.result is not None, "it is final"
        body = record.result.to_wire()
        for key in hearers(group, record.command.author):
            if key == self._own:
                self._kept.keep(group.group_id, key, record.result, now)
            else:
                self._queue.queue(key, MessageType.ORDER_RESULT, group.group_id, body, now)
