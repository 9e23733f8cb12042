"""Queue a command's result for its author, the collectors and every operator, so that another of an operator's devices
sees the results, and can continue or stop a release.

A result is a control message, which no full outbox refuses. So while more than `RESULT_OUTPUT_BYTES_OF_ONE` of control
messages of a group wait for a recipient, more than it would keep of outputs, results go to it without theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from covey.core.actions.commands import CommandRecord
from covey.core.actions.received import ReceivedResults
from covey.core.actions.results import OrderResult, as_remembered
from covey.core.group.manifest import COLLECTOR, GroupManifest
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.link.queued import MessageClass
from covey.core.link.send_queue import more_waits
from covey.core.now import Now
from covey.core.orders.nodes import Lacked, Subject
from covey.core.orders.reports import Report, Reports
from covey.core.wire.message import MessageType
from covey.limits.actions import RESULT_OF_FORMER_MEMBER_US, RESULT_OUTPUT_BYTES_OF_ONE, RESULTS_RESENT

if TYPE_CHECKING:
    from covey.core.records.link import OutboxRecords

_ORDER_BYTES = 32
_DIGEST_BYTES = 32


def hearers(group: GroupManifest, author: DeviceKey, operators: Collection[DeviceKey]) -> list[DeviceKey]:
    """Return the recipients of results of an author's command: itself, the collectors and the group's operators
    (docs/protocol/history.md, "Commands").
    """
    return [
        member.keys.signing_public
        for member in group.members
        if (
            member.keys.signing_public == author
            or member.keys.signing_public in operators
            or COLLECTOR in member.capabilities
        )
        and not member.is_board
    ]


class ResultReporting:
    """Reports results of this device's commands."""

    def __init__(self, own: DeviceKey, reports: Reports, kept: ReceivedResults, outbox: OutboxRecords) -> None:
        self._own = own
        self._outbox = outbox
        self._reports = reports
        self._kept = kept

    def queue(self, group: GroupManifest, record: CommandRecord, operators: Collection[DeviceKey], now: Now) -> None:
        """Queue a result for those who are to know it, as far as they are members and lack it.

        Where this device is one of them, it is kept as others' are.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        assert record.result is not None, "it is final"
        for key in hearers(group, record.command.author, operators):
            if key == self._own:
                self._kept.keep(group.group_id, key, record.result, now)
            else:
                self._send(key, group.group_id, record.result, now)

    def queue_of_former_member(
        self, group: GroupManifest, record: CommandRecord, hearing: Collection[DeviceKey], now: Now
    ) -> None:
        """Queue a result of a group that this device is out of; `hearing` are those that share another one with it.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        assert record.result is not None, "it is final"
        for key in hearing:
            self._send(key, group.group_id, record.result, now, RESULT_OF_FORMER_MEMBER_US)

    def _send(
        self, key: DeviceKey, group_id: GroupId, result: OrderResult, now: Now, lifetime_us: int | None = None
    ) -> None:
        full = more_waits(self._outbox, key, MessageClass.CONTROL, group_id, RESULT_OUTPUT_BYTES_OF_ONE)
        self._reports.send(key, _report(group_id, as_remembered(result) if full else result), now, lifetime_us)

    def queue_of_board(
        self, group: GroupManifest, hearing: Collection[DeviceKey], result: OrderResult, now: Now
    ) -> None:
        """Store the result of an order on a board of this device, and queue it for its recipients.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
            RemoteError: it does not answer an order for that board.
        """
        self._kept.keep(group.group_id, self._own, result, now)
        for key in hearing:
            if key != self._own:
                self._reports.send(key, _report(group.group_id, result), now)

    def queue_lacked_of_boards(self, joined: Callable[[GroupId], GroupManifest | None], now: Now) -> None:
        """Queue results of this device's boards again for recipients that lack them.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """

        def lacked_report(lacked: Lacked) -> Report | None:
            group = joined(lacked.group_id)
            if group is None or group.member(lacked.recipient) is None:
                return None
            order, board = lacked.subject[:_ORDER_BYTES], lacked.subject[_ORDER_BYTES:]
            result = self._kept.of_board(group.group_id, OperationId(order), DeviceKey(board))
            return None if result is None else _report(group.group_id, result)

        self._reports.send_lacked(RESULTS_RESENT, lacked_report, now, of_boards=True)

    def queue_lacked(
        self,
        joined: Callable[[GroupId], GroupManifest | None],
        record: Callable[[OperationId], CommandRecord | None],
        operators: Mapping[GroupId, Collection[DeviceKey]],
        now: Now,
    ) -> None:
        """Queue results once more for those who lack them (`orders/reports.py`, rule 2), some of them.

        `joined` gives a group that this device is in, `record` what is kept of a command: its output has gone.
        `operators` are those of each group.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """

        def lacked_report(lacked: Lacked) -> Report | None:
            group, kept = joined(lacked.group_id), record(OperationId(lacked.subject))
            if group is None or kept is None or kept.result is None:
                return None
            return (
                _report(group.group_id, kept.result)
                if lacked.recipient in hearers(group, kept.command.author, operators.get(lacked.group_id, ()))
                else None
            )

        self._reports.send_lacked(RESULTS_RESENT, lacked_report, now)


def _report(group_id: GroupId, result: OrderResult) -> Report:
    """Return a result as a report; only a board's own word may replace its gateway's."""
    subject, digest = Subject(result.order + (result.board or b"")), (result.signature or b"")[:_DIGEST_BYTES]
    return Report(MessageType.ORDER_RESULT, group_id, subject, digest, result.to_wire())
