"""What one author can make others keep of a history, judged by the operations alone (docs/protocol/history.md, section
23, "Shares"; ADR 115).

1. Every author has its own *share*: the first `MAXIMUM_AUTHOR_BYTES` of its `LOGS_OF_ONE` logs with the lowest
   incarnations, and `FORKS_OF_ONE` operations under one number, those with the lowest ids. Nobody else uses it up.
2. What the share of any author follows is kept as well, whoever wrote it. So an operation that honestly names others is
   kept with all that it names, on every device.
3. What is in no share and follows from none is dropped, the last operations first. So devices with the same operations
   keep the same ones, in whatever order they came.
4. One operation follows at most `LOGS_BEHIND` logs and `BYTES_BEHIND` of one author. Beyond these nobody takes it, and
   no author writes it. So the members that lift another member's limit have that much for it, each in its own share.
5. What an admin wrote, by the manifest that the operation names, counts for no limit; and a device limits neither the
   share of a present admin nor that of an operator that its owner has pinned.
6. A former member keeps `FORMER_AUTHOR_BYTES` of what is void and followed by nobody; more of it is dropped.

Example: mallory shows ann 32 logs, and ben 32 others. Each keeps 16. Ben's note follows his 16. Ann receives the note:
it is in ben's share, so she takes it and the 16 logs. Both then keep mallory's 16 lowest logs, and those that ben's
note follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from covey.core.history.operation import Log, Operation
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.limits.history import (
    BYTES_BEHIND,
    FORKS_OF_ONE,
    FORMER_AUTHOR_BYTES,
    LOGS_BEHIND,
    LOGS_OF_ONE,
    MAXIMUM_AUTHOR_BYTES,
)

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords


class HistoryShares:
    """The shares of the authors of this device's groups."""

    def __init__(
        self,
        operations: OperationRecords,
        unlimited: Callable[[GroupId, DeviceKey], bool],
        admins: Callable[[GroupId, ManifestHash], frozenset[DeviceKey]],
    ) -> None:
        """`unlimited` says whose share this device does not limit; `admins` returns those of a manifest."""
        self._operations = operations
        self._unlimited = unlimited
        self._admins = admins

    def has_log(self, operation: Operation) -> bool:
        """Say whether an operation, here or not, is in the logs of its author's share (rule 1)."""
        return self._fits(operation, MAXIMUM_AUTHOR_BYTES)

    def _fits(self, operation: Operation, share_bytes: int) -> bool:
        group_id, records = operation.group_id, self._operations
        if self._unlimited(group_id, operation.author):
            return True
        is_here = records.held(group_id, operation.id) is not None
        used, before = (0 if is_here else len(operation.raw)), 0
        for incarnation, length in records.log_lengths(group_id, operation.author):
            if incarnation <= operation.log.incarnation:
                used += length
                before += incarnation != operation.log.incarnation
        return before < LOGS_OF_ONE and used <= share_bytes

    def has_number(self, operation: Operation) -> bool:
        """Say whether it is one of the operations under its number that are in its author's share (rule 1)."""
        return self._operations.rivals_below(operation.group_id, operation) < FORKS_OF_ONE

    def has(self, operation: Operation) -> bool:
        """Say whether an operation is in its author's share."""
        return self.has_log(operation) and self.has_number(operation)

    def has_of_former(self, operation: Operation) -> bool:
        """Say whether a void operation is in what a former member keeps (rule 6)."""
        return self._fits(operation, FORMER_AUTHOR_BYTES) and self.has_number(operation)

    def may_follow(self, group_id: GroupId, followed: Iterable[OperationId]) -> bool:
        """Say whether an operation may follow others (rule 4).

        It reads the whole history, but only where an author has so much here.
        """
        authors = self._operations.authors_beyond(group_id, LOGS_BEHIND, BYTES_BEHIND)
        if not authors:
            return True
        logs: dict[DeviceKey, set[Log]] = {each: set() for each in authors}
        length = dict.fromkeys(authors, 0)
        wanted = set(followed)
        for shape in self._operations.shapes(group_id):
            if shape.id not in wanted:
                continue
            wanted.discard(shape.id)
            wanted.update(shape.parents)
            if shape.previous is not None:
                wanted.add(shape.previous)
            if shape.author in authors and shape.author not in self._admins(group_id, shape.manifest):
                assert shape.log is not None, "records give it"
                logs[shape.author].add(shape.log)
                length[shape.author] += shape.length
        return all(len(logs[each]) <= LOGS_BEHIND and length[each] <= BYTES_BEHIND for each in authors)
