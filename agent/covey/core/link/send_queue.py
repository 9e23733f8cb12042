"""The sending side of the store: put messages into the outbox and take them out; write loss records for lost ones.

Every call writes, so it belongs inside a transaction. Places continue across incarnations (`incarnations.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.messages import Departed, GroupSend, Parted
from covey.core.ids import DeviceKey, GroupId, NoisePublic, Place
from covey.core.link.after_commit import AfterCommit
from covey.core.link.incarnations import losses
from covey.core.link.link_keys import SendingLinks
from covey.core.link.queued import NO_BATCHES, Batches, MessageClass, TakenBack, class_of
from covey.core.link.windows import Windows
from covey.core.now import Now
from covey.core.telemetry.batch import Alarm, alarm_of, numbered
from covey.core.wire.message import (
    BATCHES,
    NO_GROUP,
    Loss,
    LossReason,
    Message,
    MessageType,
    read_message,
    write_message,
)
from covey.core.wire.sequences import Range, SequenceSet
from covey.errors import RemoteError
from covey.limits.actions import RESULT_OF_FORMER_MEMBER_US
from covey.limits.message import MAXIMUM_COUNTER, MESSAGE_OVERHEAD_BYTES
from covey.limits.storage import EXPIRED_AT_ONCE, OUTBOX_DROP_SHARE, THINNED_BYTES

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.link import OutboxRecords

TAKEN_OF_STRANGERS = frozenset(
    {
        MessageType.GROUP_MANIFEST,
        MessageType.REVOKE,
        MessageType.JOIN,
        MessageType.GROUP_INVITE,
        MessageType.INVITE_REQUEST,
    }
)
"""What may be said where two devices are no longer in one group."""

TAKEN_OF_FORMER_MEMBERS = TAKEN_OF_STRANGERS | {MessageType.ORDER_RESULT}
"""What a device that is out of a group may still say in it to those with which it shares another one."""

_TAKEN_OF_OTHERS = TAKEN_OF_STRANGERS | BATCHES | {MessageType.REDIRECTED}
"""What is not withdrawn where it is the other one that went: telemetry goes to another collector as well, or waits."""

_OF_MEMBERS = frozenset(
    {
        MessageType.GROUP_PULL,
        MessageType.GROUP_VOTE,
        MessageType.HISTORY_PULL,
        MessageType.SETTING_REPORT,
        MessageType.ORDER_RESULT,
        MessageType.CONTENT_ACK,
    }
)
"""What is said in a group alone, and is nothing that its recipient would miss."""


class SendQueue:
    """The outbox as this device's machines fill and empty it.

    `address` gives a device's noise key, None for a device that nothing is sent to.
    """

    def __init__(
        self,
        identity: Identity,
        records: Records,
        address: Callable[[DeviceKey], NoisePublic | None],
        windows: Windows,
        link_keys: SendingLinks,
        after_commit: AfterCommit,
    ) -> None:
        self._identity = identity
        self._records = records
        self._address = address
        self._windows = windows
        self._link_keys = link_keys
        self._after_commit = after_commit
        self._acknowledged: dict[DeviceKey, Place] = {}
        self.telemetry_lifetime_us: int | None = None
        """How long telemetry waits before it expires; None: for ever."""
        self.in_one_window: Callable[[str], bool] = lambda _: False
        """Of which series only the newest value is wanted (`Summariser`)."""

    def queue(
        self,
        recipient: DeviceKey,
        kind: MessageType,
        group_id: GroupId,
        body: bytes,
        now: Now,
        batches: Batches = NO_BATCHES,
        *,
        beyond: bool = False,
        lifetime_us: int | None = None,
        is_alarm: bool = False,
    ) -> Place:
        """Queue a message, perhaps `beyond` the outbox's limit; return its place. `batches` are in its body.

        Batches of this device say whether they are alarms; of an envelope of a board the caller knows.

        Without a lifetime it waits until it is acknowledged. A batch has the one of all telemetry.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        seq, link_seq = self._records.outbox.allocate(recipient)
        message = write_message(
            self._identity,
            kind,
            recipient,
            group_id,
            self._records.incarnations.present(),
            seq,
            link_seq,
            0 if kind is MessageType.TELEMETRY else now.wall_us,  # its batch says when
            body,
        )
        message_class = MessageClass.ALARM if is_alarm else _class_of(kind, body)
        if message_class is MessageClass.ALARM:
            batches = replace(batches, window_us=None, whole=True)
        place = self._records.outbox.queue(
            recipient, seq, link_seq, message_class, message, now.wall_us, batches, beyond=beyond
        )
        if lifetime_us is None and kind is MessageType.TELEMETRY:
            lifetime_us = self.telemetry_lifetime_us
        if lifetime_us is not None:
            self._records.outbox.limit_lifetime(recipient, place, lifetime_us)
        self._windows.queue_grew(recipient)
        return place

    def queue_batch(
        self,
        recipient: DeviceKey,
        group_id: GroupId,
        batch: bytes,
        now: Now,
        alarm: Alarm | None = None,
        rows: bytes = b"",
        *,
        whole: bool = False,
    ) -> None:
        """Queue a telemetry batch under its author's next number; room is made as by `queue_telemetry`."""
        number = self._records.outbox.allocate_number()
        batches, body = Batches(number, (), 0, whole), numbered(number, batch, alarm, rows)
        self.queue_telemetry(recipient, MessageType.TELEMETRY, group_id, body, now, batches)

    def queue_telemetry(
        self,
        recipient: DeviceKey,
        kind: MessageType,
        group_id: GroupId,
        body: bytes,
        now: Now,
        batches: Batches = NO_BATCHES,
        *,
        is_alarm: bool = False,
    ) -> None:
        """Queue a message of telemetry; see `queue` for `is_alarm`.

        Where the outbox is full, old batches become summaries (`thinning.py`); where that does not suffice, the oldest
        telemetry goes that is not whole, and a signed record says so.

        Raises:
            LocalError: nothing of that is left, so the outbox is full: then the caller rolls back.
        """
        size = len(body) + MESSAGE_OVERHEAD_BYTES
        self._thin(recipient, size, now)
        dropped = self._records.outbox.make_room(recipient, size)
        self.queue(recipient, kind, group_id, body, now, batches, is_alarm=is_alarm)
        if dropped:
            self._lost(recipient, dropped, now)

    def _thin(self, recipient: DeviceKey, size: int, now: Now) -> None:
        """Replace batches by summaries until so many bytes fit, or nothing is left to thin; `recipient`'s first."""
        outbox = self._records.outbox
        while outbox.missing_bytes(size) > 0:
            from covey.core.link.thinning import thin  # 0.2 MiB, and most outboxes are never full

            others = sorted(outbox.recipients_of_batches() - {recipient})
            chunk_bytes = max(outbox.maximum_bytes // OUTBOX_DROP_SHARE, THINNED_BYTES)
            found = thin(
                outbox.thinnable,
                (recipient, *others),
                self._records.incarnations.present(),
                self._windows.places_to,
                chunk_bytes,
                self.in_one_window,
            )
            if found is None:
                return
            whose, thinned = found
            for first, last in thinned.places:
                self._withdrawn(whose, first, last)
                outbox.remove(whose, Place(first), Place(last))
            self.queue(
                whose,
                MessageType.SUMMARY,
                thinned.group_id,
                thinned.body,
                now,
                thinned.batches,
                beyond=True,
                lifetime_us=thinned.lifetime_us,
            )
            self._records.counters.count("thinned_messages", thinned.messages)
            self._records.counters.count("thinned_readings", thinned.readings)

    def queue_all(
        self,
        sends: Iterable[GroupSend],
        departed: Iterable[Departed],
        now: Now,
        parted: Iterable[Parted] = (),
    ) -> None:
        """Queue the messages of a change of a group; withdraw messages for devices that left.

        Devices that get no notice get no loss record either: boards, devices that left by themselves and forget the
        group, and those that members notify. `parted` are devices with which this one still shares other groups, and
        the group that they no longer share: messages in it would not be accepted. If this device itself left, there is
        no other collector for its telemetry either; its results of orders are accepted, and wait for a while.
        """
        for group_id, recipient, is_out in parted:
            self.withdraw_of_group(recipient, group_id, now, TAKEN_OF_FORMER_MEMBERS if is_out else _TAKEN_OF_OTHERS)
            if is_out:
                self._limit_results(recipient, group_id)
        for recipient, is_owed in departed:
            reached = self._address(recipient) is not None
            if not reached or not (is_owed or self._asks(recipient)):
                self.forget(recipient, but_telemetry=reached)  # there may be another collector for that
                continue
            self._lost(recipient, self._records.outbox.withdraw_all(recipient), now)
            for place, raw in self._records.outbox.control_messages(recipient):
                if read_message(raw, verify=False).type in _OF_MEMBERS:
                    self.remove(recipient, place)
        for each in sends:
            self.queue(each.recipient, each.type, each.group_id, each.body, now, lifetime_us=each.lifetime_us)

    def _limit_results(self, recipient: DeviceKey, group_id: GroupId) -> None:
        """Let results of a group that this device is out of expire: their recipient may have left it as well."""
        for place, raw in self._records.outbox.control_messages(recipient):
            message = read_message(raw, verify=False)
            if message.type is MessageType.ORDER_RESULT and message.group_id == group_id:
                self._records.outbox.limit_lifetime(recipient, place, RESULT_OF_FORMER_MEMBER_US)

    def _asks(self, recipient: DeviceKey) -> bool:
        waiting = self._records.outbox.control_messages(recipient)
        return any(read_message(raw, verify=False).type is MessageType.JOIN for _, raw in waiting)

    def speaks(self, recipient: DeviceKey, now: Now) -> None:
        """Have one message go again that a recipient has left unanswered: it speaks, or a relay replays it."""
        self._after_commit(lambda: self._windows.speaks(recipient, now))

    def restart(self, recipient: DeviceKey, now: Now) -> None:
        """Have what a recipient has left unanswered go again at once: it has shown that it is there."""
        self._after_commit(lambda: self._windows.restart(recipient, now))

    def withdraw(
        self, recipient: DeviceKey, place: Place, now: Now, code: str = "too_large", *, notify: bool = True
    ) -> None:
        """Set a message aside that nobody would carry or take; its recipient gets a loss record, where `notify`."""
        reason = LossReason.DAMAGED if code == "too_large" else LossReason.EXPIRED
        if self._records.outbox.withdraw(recipient, place, code, now.wall_us, reason if notify else None):
            self._records.counters.count(f"quarantined_{code}")
            self._lost(recipient, [(place, place)], now)

    def withdraw_of_group(
        self, recipient: DeviceKey, group_id: GroupId, now: Now, kept: Container[MessageType] = ()
    ) -> None:
        """Withdraw messages for a recipient in a group that it left, or that is gone; except some types."""

        def ends(message: Message) -> bool:
            return message.group_id == group_id and message.type not in kept

        self._lost(recipient, self._records.outbox.withdraw_all(recipient, ends), now)

    def forget(self, recipient: DeviceKey, *, but_telemetry: bool = False) -> int:
        """Forget whatever waits for a recipient; return how many messages that was."""
        self._withdrawn(recipient, 0, MAXIMUM_COUNTER)
        return self._records.outbox.forget(recipient, but_telemetry=but_telemetry)

    def remove(self, recipient: DeviceKey, place: Place) -> None:
        """Take a message out of a queue, as it goes another way; its link hears of a resumption where it asks."""
        self._withdrawn(recipient, place, place)
        self._records.outbox.remove(recipient, place, place)

    def requeue(self, recipient: DeviceKey, place: Place, now: Now) -> None:
        """Queue a message once more, in the present incarnation: another life of this device has used its number."""
        self._withdrawn(recipient, place, place)
        taken = self._records.outbox.take_back(recipient, place)
        if taken is not None:
            self.queue_returned(recipient, taken, now)

    def queue_returned(self, recipient: DeviceKey, taken: TakenBack, now: Now) -> None:
        """Queue a message that has left its place under a new one; telemetry keeps its batch number."""
        message = read_message(taken.message, verify=False)
        if message.type is MessageType.LINK:  # its key is forgotten with the place
            return
        body = message.body
        if message.type is MessageType.LOSS:
            loss = Loss.from_wire(body)
            body = replace(loss, incarnation=loss.incarnation or message.incarnation).to_wire()
        self.queue(
            recipient,
            message.type,
            message.group_id,
            body,
            now,
            replace(_batches_of(message), whole=taken.whole),
            beyond=True,
            lifetime_us=taken.lifetime_us,
            is_alarm=taken.is_alarm,
        )

    def repeat(self, recipient: DeviceKey, taken: TakenBack, now: Now) -> None:
        """Queue what a recipient had acknowledged and has lost: telemetry exactly as it was signed, in a REDIRECTED.

        Somebody may have read it before it was lost, and tables know a message by its sequence number.
        """
        message = read_message(taken.message, verify=False)
        content = message.body if message.type is MessageType.REDIRECTED else message.raw
        if message.type is not MessageType.REDIRECTED and message.type not in BATCHES:
            self.queue_returned(recipient, taken, now)
            return
        batches = replace(_batches_of(read_message(content, verify=False)), whole=taken.whole)
        self.queue(
            *(recipient, MessageType.REDIRECTED, message.group_id, content, now, batches),
            beyond=True,
            lifetime_us=taken.lifetime_us,
        )

    def redirect(
        self,
        recipient: DeviceKey,
        place: Place,
        to: DeviceKey,
        group_id: GroupId,
        content: bytes,
        now: Now,
    ) -> None:
        """Queue for another collector what waits for one; the outbox may exceed its bound by what that adds."""
        self._withdrawn(recipient, place, place)
        taken = self._records.outbox.take_back(recipient, place)
        if taken is not None:
            batches = replace(_batches_of(read_message(content, verify=False)), whole=taken.whole)
            self.queue(
                *(to, MessageType.REDIRECTED, group_id, content, now, batches),
                beyond=True,
                lifetime_us=taken.lifetime_us,
            )

    def grow_older(self, elapsed_us: int) -> None:
        """Add to this state's age, by the monotonic clock: a wall clock that jumps ends nothing."""
        self._records.outbox.grow_older(elapsed_us)

    def expire(self, now: Now) -> bool:
        """Drop expired messages; return whether there are more."""
        expired = self._records.outbox.expire()
        for recipient, places in expired:
            self._lost(recipient, places, now)
        return sum(last - first + 1 for _, places in expired for first, last in places) >= EXPIRED_AT_ONCE

    def report_losses(self, now: Now) -> None:
        """Queue loss records of what is lost and may be reported now."""
        for recipient in self._records.losses.recipients():
            self._report_losses(recipient, now)

    def _lost(self, recipient: DeviceKey, places: list[Range], now: Now) -> None:
        for first, last in places:
            self._withdrawn(recipient, first, last)
        self._report_losses(recipient, now)

    def _report_losses(self, recipient: DeviceKey, now: Now) -> None:
        gone = self._records.losses.unreported(recipient)
        if gone:
            for loss in losses(self._records.incarnations.spans(recipient), gone):
                self.queue(recipient, MessageType.LOSS, NO_GROUP, loss.to_wire(), now)
            self._records.losses.reported(recipient, gone[-1].last)

    def _withdrawn(self, recipient: DeviceKey, first: int, last: int) -> None:
        def change() -> None:
            self._link_keys.withdrawn(recipient, first, last)
            self._windows.withdrawn(recipient, first, last)

        self._after_commit(change)

    def last_acknowledged(self, recipient: DeviceKey) -> Place:
        """Return the last place of a queue that its recipient has acknowledged to this node; 0: none yet."""
        return self._acknowledged.get(recipient, Place(0))

    def seen(self, recipient: DeviceKey) -> None:
        """Note that a recipient is heard: what it leaves unanswered it may never accept."""
        self._windows.seen(recipient)

    def free(self, recipient: DeviceKey, received: SequenceSet, now: Now) -> int:
        """Delete the places that a recipient has, and return how many messages that were.

        Its link forgets them once that is committed. It may have had a loss record of one now, and get one of the next.
        """

        def change() -> None:
            self._link_keys.acknowledged(recipient, received)
            self._windows.acknowledged(recipient, received, now)
            if freed:
                last = Place(received.spans()[-1][1])
                self._acknowledged[recipient] = max(last, self.last_acknowledged(recipient))

        freed = self._records.outbox.free(recipient, received)
        self._after_commit(change)
        if freed:
            self._report_losses(recipient, now)
        return freed


def _class_of(kind: MessageType, body: bytes) -> MessageClass:
    """Return how a message of this device is treated: its alarms are telemetry of a class of their own."""
    inner, batch = kind, body
    if kind is MessageType.REDIRECTED:
        try:
            message = read_message(body, verify=False)
        except RemoteError:  # its recipient says so
            return class_of(kind)
        inner, batch = message.type, message.body
    is_alarm = inner is MessageType.TELEMETRY and alarm_of(batch) is not None
    return MessageClass.ALARM if is_alarm else class_of(kind)


def groups_of_waiting(outbox: OutboxRecords, recipient: DeviceKey, kind: MessageType) -> list[GroupId]:
    """Return of which group each message of a type is that waits for a device."""
    waiting = (read_message(raw, verify=False) for _, raw in outbox.control_messages(recipient))
    return [each.group_id for each in waiting if each.type is kind]


def more_waits(outbox: OutboxRecords, recipient: DeviceKey, kind: MessageClass, group_id: GroupId, size: int) -> bool:
    """Say whether more than `size` bytes of a class wait for a device in one group.

    A device that has lost a group with its state never takes what waits there; that stops nothing in another group.
    """
    if outbox.waiting_bytes(recipient, kind) <= size:
        return False
    waiting = outbox.messages(recipient, kind)
    return sum(len(raw) for raw in waiting if read_message(raw, verify=False).group_id == group_id) > size


def _batches_of(message: Message) -> Batches:
    from covey.core.link.thinning import batches_of  # see `_thin`

    return batches_of(message)
