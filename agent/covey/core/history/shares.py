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
6. One operation follows at most `GROUP_BYTES_BEHIND` of all that came in through the founder, `FAMILY_BYTES_BEHIND` of
   what came in through one device that the founder let in, and `BYTES_BEHIND` of what came in through one of those
   (`sponsors.py`). Its own author's operations do not count. So what devices cost others that one member lets in and
   removes again, without end, is bounded in total. What others cannot follow stays in its author's share for as long
   as the author is a member.
7. Of what nobody follows, the former members of a family keep as much together, and on the last level one share: those
   that came in first. Void operations have the `VOID_PART`th part. More is dropped.

Example: mallory shows ann 32 logs, and ben 32 others. Each keeps 16. Ben's note follows his 16. Ann receives the note:
it is in ben's share, so she takes it and the 16 logs. Both then keep mallory's 16 lowest logs, and those that ben's
note follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TYPE_CHECKING

from covey.core.history.operation import Operation
from covey.core.history.pasts import Pasts
from covey.core.history.sponsors import UNKNOWN, Line, SponsorFamily, Sponsors
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.limits.history import (
    BYTES_BEHIND,
    FAMILY_BYTES_BEHIND,
    FORKS_OF_ONE,
    GROUP_BYTES_BEHIND,
    LOGS_BEHIND,
    LOGS_OF_ONE,
    MAXIMUM_AUTHOR_BYTES,
    VOID_PART,
)

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords


class MayFollow(Enum):
    """Whether an operation may follow others; unknown where that depends on manifests that are not here yet."""

    WITHIN = "within"
    BEYOND = "beyond"
    UNKNOWN = "unknown"


UsedBefore = Mapping[DeviceKey, Mapping[SponsorFamily, int]]
"""By former member, in the order in which they came in, what those before it have here, in bytes, by family."""


class HistoryShares:
    """The shares of the authors of this device's groups."""

    def __init__(
        self,
        operations: OperationRecords,
        unlimited: Callable[[GroupId, DeviceKey], bool],
        admins: Callable[[GroupId, ManifestHash], frozenset[DeviceKey]],
        sponsors: Sponsors,
    ) -> None:
        """`unlimited` says whose share this device does not limit; `admins` returns those of a manifest."""
        self._operations = operations
        self._sponsors = sponsors
        self._lines: dict[GroupId, dict[DeviceKey, set[Line]]] = {}
        """The lines of all authors that have operations here, of groups where these were needed."""
        self._unlimited = unlimited
        self._pasts = Pasts(
            operations, lambda group_id, it: it.author not in admins(group_id, it.manifest), sponsors.line
        )

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

    def has_of_former(self, operation: Operation, former: UsedBefore, *, void: bool) -> bool:
        """Say whether an operation that nobody follows is in what the former members of its families keep (rule 7)."""
        part = VOID_PART if void else 1
        return all(
            self._fits(operation, _room_of_former(each) // part - used)
            for each, used in former.get(operation.author, {}).items()
        )

    def former_members(self, group_id: GroupId, writers: AbstractSet[DeviceKey]) -> UsedBefore:
        """Return what the former members have here: the authors that are no `writers`."""
        lengths, lines = self._operations.author_lengths(group_id), self._lines_here(group_id)
        families = {each: _families(lines.get(each, ())) - {UNKNOWN} for each in lengths if each not in writers}
        in_order = sorted((min((one.since for one in found), default=0), each) for each, found in families.items())
        used, before = Counter[SponsorFamily](), dict[DeviceKey, dict[SponsorFamily, int]]()
        for _, author in in_order:
            before[author] = {each: used[each] for each in families[author]}
            used.update(dict.fromkeys(families[author], lengths[author]))
        return before

    def may_follow(self, group_id: GroupId, author: DeviceKey, followed: Iterable[OperationId]) -> MayFollow:
        """Say whether an operation by an author may follow others (rules 4 and 6).

        It reads the history, but only where an author or a family has so much here, and only what it has not read for
        similar operations before (`pasts.py`).
        """
        authors = self._operations.authors_beyond(group_id, LOGS_BEHIND, BYTES_BEHIND)
        families = self._families_beyond(group_id)
        if not authors and not families:
            return MayFollow.WITHIN
        behind = self._pasts.of(group_id, frozenset(followed))
        length, of_family = dict.fromkeys(authors, 0), dict.fromkeys(families, 0)
        for (writer, line), written in behind.lengths.items():
            if writer in authors:
                length[writer] += written
            if families and writer != author:
                for each in line:
                    if each in of_family:
                        of_family[each] += written
        if not all(len(behind.logs.get(each, ())) <= LOGS_BEHIND and length[each] <= BYTES_BEHIND for each in authors):
            return MayFollow.BEYOND
        unknown = of_family.pop(UNKNOWN, 0)
        if not all(used <= _bound_of(each) for each, used in of_family.items()):
            return MayFollow.BEYOND
        within = all(used + unknown <= _bound_of(each) for each, used in (*of_family.items(), (UNKNOWN, 0)))
        return MayFollow.WITHIN if within else MayFollow.UNKNOWN

    def _families_beyond(self, group_id: GroupId) -> list[SponsorFamily]:
        """Return the families that have more here than one operation may follow of them."""
        if self._operations.length(group_id) <= min(GROUP_BYTES_BEHIND, FAMILY_BYTES_BEHIND, BYTES_BEHIND):
            return []
        lengths = self._operations.author_lengths(group_id)
        used, lines = Counter[SponsorFamily](), self._lines_here(group_id)
        for author, length in lengths.items():
            used.update(dict.fromkeys(_families(lines.get(author, ())), length))
        unknown = used[UNKNOWN]  # may be of any family
        if unknown:
            return [each for each, length in used.items() if each == UNKNOWN or length + unknown > _bound_of(each)]
        return [each for each, length in used.items() if length > _bound_of(each)]

    def note(self, group_id: GroupId, author: DeviceKey, manifest: ManifestHash) -> None:
        """Note that an operation by an author, under a manifest, may be here from now on."""
        if group_id in self._lines:
            self._lines[group_id].setdefault(author, set()).add(self._sponsors.line(group_id, author, manifest))

    def _lines_here(self, group_id: GroupId) -> dict[DeviceKey, set[Line]]:
        if group_id not in self._lines:
            named = {(shape.author, shape.manifest) for shape in self._operations.shapes(group_id)}
            self._lines[group_id] = {}
            for author, manifest in sorted(named, key=lambda each: each[1]):
                self.note(group_id, author, manifest)
        return self._lines[group_id]

    def refresh(self) -> None:
        """Look at what another process wrote."""
        self._lines.clear()
        self._pasts.forget_unknown()

    def look_for_manifests(self) -> None:
        """Look for the manifests that let authors in, where these were not here before."""
        for group_id in [
            each for each, lines in self._lines.items() if UNKNOWN in _families(set().union(*lines.values()))
        ]:
            del self._lines[group_id]
        self._pasts.forget_unknown()


def _families(lines: Iterable[Line]) -> set[SponsorFamily]:
    return {each for line in lines for each in line}


def _bound_of(family: SponsorFamily) -> int:
    return (GROUP_BYTES_BEHIND, FAMILY_BYTES_BEHIND, BYTES_BEHIND)[family.level]


def _room_of_former(family: SponsorFamily) -> int:
    return (GROUP_BYTES_BEHIND, FAMILY_BYTES_BEHIND, MAXIMUM_AUTHOR_BYTES)[family.level]
