"""What people do by hand: carry envelopes and a group's history where no relay does, retry quarantined messages.

Every document is judged as if a relay had delivered it; the carrier has no authority
(docs/protocol/content.md, "Export files").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.history.heads import HeadsExchange
from covey.core.history.history import History, Taken
from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.link.imprints import Imprints
from covey.core.link.queued import Quarantined
from covey.core.link.receiver import ReceiveLink
from covey.core.link.sealer import Sealer
from covey.core.link.send_queue import SendQueue
from covey.core.link.sender import Sender
from covey.core.membership.actions import GroupActions
from covey.core.membership.groups import Groups
from covey.core.membership.membership import Membership
from covey.core.membership.past import Past
from covey.core.now import Now
from covey.core.receiving.receiver import Receiver
from covey.core.routing.forwarding import board_member
from covey.core.telemetry.batch import alarm_of, rows_of, split_number
from covey.core.wire.message import MessageType, read_message
from covey.errors import RemoteError
from covey.limits.link import MAXIMUM_IMPRINTS

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.link import CounterRecords


class Export:
    """Gives out envelopes to be carried, and takes back what was set aside."""

    def __init__(
        self,
        groups: Groups,
        records: Records,
        queue: SendQueue,
        sender: Sender,
        sealer: Sealer,
        heads: HeadsExchange,
        imprints: Imprints,
        receiver: Receiver,
    ) -> None:
        self._groups = groups
        self._records = records
        self._queue = queue
        self._sender = sender
        self._sealer = sealer
        self._heads = heads
        self._imprints = imprints
        self._receiver = receiver

    def waiting(self, recipient: DeviceKey, after: Place) -> list[tuple[Place, bytes]]:
        """Return the next (place, envelope) that waits for a recipient, for a carrier that is no relay.

        Nothing where the recipient may hear nothing, or is a board, which hears through its gateway only.
        """
        if self._groups.address(recipient) is None or board_member(self._groups, recipient) is not None:
            return []
        return self._sender.exported(recipient, after)

    def answers_for(self, device: DeviceKey, now: Now) -> Iterator[bytes]:
        """Yield envelopes that tell a device what has come from it, and where what waits for it begins."""
        if self._groups.address(device) is None or board_member(self._groups, device) is not None:
            return
        for incarnation, received in self._records.received.links(device):
            link = ReceiveLink(received, self._records.landing.unlanded(device, incarnation))
            body = self._imprints.acknowledgement(device, incarnation, link, MAXIMUM_IMPRINTS).to_wire()
            message = self._sealer.unsequenced(device, MessageType.ACK, body, now, heads=self._heads.said_to(device))
            yield self._sealer.seal(device, message).envelope
        yield from self._sender.resumptions(device, now)

    def release(self, quarantined: Quarantined, now: Now) -> bool:
        """Retry a quarantined message; return False if there is no room for it now.

        One of ours is queued again, under new numbers; a received one is processed again, by its type's rules.

        Raises:
            RemoteError: it still breaks these.
            LocalError: the outbox is full: then the caller rolls back.
        """
        message = read_message(quarantined.message, verify=False)
        if quarantined.recipient is not None:
            if message.type is MessageType.TELEMETRY:  # its number was reported lost
                (_, batch), body = split_number(message.body), message.body
                self._queue.queue_batch(message.recipient, message.group_id, batch, now, alarm_of(body), rows_of(body))
            else:
                self._queue.queue(message.recipient, message.type, message.group_id, message.body, now)
            return True
        return self._receiver.handle_set_aside(message, now)


class HistoryImport:
    """Takes manifests and operations from a file. Every call writes, so it belongs inside a transaction."""

    def __init__(
        self, membership: Membership, past: Past, history: History, actions: GroupActions, counters: CounterRecords
    ) -> None:
        self._membership = membership
        self._past = past
        self._history = history
        self._actions = actions
        self._counters = counters

    def take_manifests(self, group_id: GroupId, raws: tuple[bytes, ...], now: Now) -> RemoteError | None:
        """Take manifests of a group that is held, each after what it follows; queue what others have to hear of it.

        Return which rule one of them breaks, None where none does.

        Raises:
            UnknownGroupError: this device knows nothing of the group.
        """
        self._past.take(group_id, raws, now)
        try:
            sends = self._membership.take(group_id, raws, now.wall_us)
        except RemoteError as error:
            self._counters.count(f"dropped_manifest_{error.code}")
            return error
        self._actions.queue_sends(sends, now)
        return None

    def take_operations(self, group_id: GroupId, raws: tuple[bytes, ...], now: Now) -> Taken:
        """Take operations, each after what it follows; those that break a rule are counted, and left out."""
        taken = self._history.take(group_id, raws, now)
        for error in taken.refused:
            self._counters.count(f"dropped_operation_{error.code}")
        return taken
