"""Logs beyond their authors' shares that are fetched because operations that wait name some of their operations.

What follows such a log may come many messages after it. So an operation in its author's share (`shares.py`), or awaited
itself, that waits for others makes these awaited; once one of them is seen, its log is taken up to its number, whatever
the share. Each author has room of its own: what one member makes a device await takes nothing from another one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from covey.core.history.operation import Log, Operation
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.now import Now
from covey.limits.history import AWAITED, AWAITED_BYTES, AWAITED_US


@dataclass(slots=True)
class _OfAuthor:
    """What one author's waiting operations name: ids, logs up to a number, and the bytes taken of these logs."""

    ids: OrderedDict[OperationId, None] = field(default_factory=OrderedDict)
    logs: OrderedDict[Log, int] = field(default_factory=OrderedDict)
    length: int = 0
    until_us: int = 0


class AwaitedLogs:
    """What is awaited, in memory: a restarted device learns it again from what still waits."""

    def __init__(self) -> None:
        self._by_author: dict[tuple[GroupId, DeviceKey], _OfAuthor] = {}

    def await_for(self, waiting: Operation, missing: Iterable[OperationId], now: Now) -> None:
        """Note what an operation waits for."""
        found = self._by_author.setdefault((waiting.group_id, waiting.author), _OfAuthor())
        if now.monotonic_us >= found.until_us:
            found = self._by_author[waiting.group_id, waiting.author] = _OfAuthor()
            found.until_us = now.monotonic_us + AWAITED_US
        for each in missing:
            found.ids[each] = None
            if len(found.ids) > AWAITED:
                found.ids.popitem(last=False)

    def see(self, operation: Operation, now: Now) -> None:
        """Note an operation that came: if another author's waiting one names it, its log is awaited up to it."""
        for (group_id, author), found in self._by_author.items():
            if group_id != operation.group_id or author == operation.author or operation.id not in found.ids:
                continue
            if now.monotonic_us >= found.until_us:
                continue
            found.logs[operation.log] = max(operation.number, found.logs.get(operation.log, 0))
            if len(found.logs) > AWAITED:
                found.logs.popitem(last=False)

    def end(self, operation: Operation) -> None:
        """Note an operation that is here, or that is refused: nothing waits for it any more."""
        for key in [key for key, found in self._by_author.items() if operation.id in found.ids]:
            if key[0] == operation.group_id:
                del self._by_author[key].ids[operation.id]
                if not self._by_author[key].ids:
                    del self._by_author[key]

    def is_seen(self, group_id: GroupId, operation_id: OperationId, log: Log | None) -> bool:
        """Say whether the log of a missing operation is on its way, so that it need not be asked for by its id."""
        return log is not None and any(
            of_group == group_id and operation_id in found.ids and log in found.logs
            for (of_group, _), found in self._by_author.items()
        )

    def covers(self, operation: Operation, now: Now) -> bool:
        """Say whether an operation is awaited, or before one in its log that is."""
        return any(
            group_id == operation.group_id
            and now.monotonic_us < found.until_us
            and found.length <= AWAITED_BYTES
            and found.logs.get(operation.log, 0) >= operation.number
            for (group_id, _), found in self._by_author.items()
        )

    def take(self, operation: Operation, now: Now) -> None:
        """Count the bytes of an operation that was taken because it is awaited; what comes on is awaited longer."""
        for (group_id, _), found in self._by_author.items():
            if group_id == operation.group_id and found.logs.get(operation.log, 0) >= operation.number:
                found.length += len(operation.raw)
                found.until_us = now.monotonic_us + AWAITED_US
