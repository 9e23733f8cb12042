"""How a history travels: own operations to members (`announcing.py`), and catching up with what they hold, by asking
(`asking.py`) and answering (`answering.py`).

What is taken of an answer is decided in `history.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.history.announcing import HistoryAnnouncing
from covey.core.history.answering import HistoryAnswering
from covey.core.history.asking import HistoryAsking
from covey.core.ids import DeviceKey
from covey.core.link.carriage import Carriage
from covey.core.link.send_queue import SendQueue
from covey.core.membership.groups import Groups
from covey.core.membership.past import Past
from covey.core.now import Now

if TYPE_CHECKING:
    from covey.core.records import Records


class HistoryExchange:
    """Tells members what this device has written, asks them for what it lacks, and answers them."""

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        past: Past,
        records: Records,
        queue: SendQueue,
        carriage: Carriage,
    ) -> None:
        self._groups = groups
        self._queue = queue
        self.answering = HistoryAnswering(records, carriage)
        self.asking = HistoryAsking(past, records)
        self.announcing = HistoryAnnouncing(own, groups, records, queue, self.answering)

    def has_work(self, now: Now) -> bool:
        """Say whether something may be owed to a member that has acknowledged what was sent before, or be asked for."""
        return self.announcing.has_work(now) or self.asking.has_work(now)

    def maintain(self, now: Now) -> None:
        """Send members what was written while something waited for them, and ask whom it was too soon to ask."""
        groups = {group.group_id: group for group in self._groups.joined()}
        if self.announcing.has_work(now):
            self.announcing.maintain(groups, now)
        if self.asking.has_work(now):
            self._queue.queue_all(self.asking.maintain(groups, now), (), now)
