"""Which operations count after members were removed (docs/protocol/history.md, "History"; rule 12).

1. An operation by a listed member counts. One by a former member is *void* if a later operation was written in
   knowledge of its removal (under a manifest that does not list the author, of at least the version that the operation
   names), and no operation written in such knowledge follows it. So an operation that the remover did not know at the
   removal changes nothing, whatever it names and whenever it arrives.
2. Knowledge counts if it is a member's, or a former member's whose own operation no member's makes void. So a removal
   stays valid when the remover has left, and a former member removes nobody.
3. Void operations are kept and shown as void. New operations follow only what counts. Of a former member they also do
   not follow operations that arrived after this device knew of the removal (*late*), unless an operation with that
   knowledge follows them: following would vouch for them before the remover's merge has arrived.

The result depends only on what operations name and on the present members, so devices that hold the same agree. It is
recomputed from the last operation down, in two passes, and only if a former member has written anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.history.operation import OperationShape
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords


@dataclass(frozen=True, slots=True)
class Standing:
    """Which operations of a group are void, and which a new one follows: all it may that no other of them follows.

    `avoided` is all that it may not follow: what is void, and what came late and nobody has vouched for (rule 3).
    """

    void: frozenset[OperationId]
    heads: tuple[OperationId, ...]
    avoided: frozenset[OperationId] = frozenset()


@dataclass(slots=True)
class _Above:
    """What is known of removals by what follows an operation, by members and by all; and what kinds do follow it."""

    by_members: int = 0
    by_all: int = 0
    sound: bool = False
    unvouched: bool = False


@dataclass(frozen=True, slots=True)
class _Unvouched:
    """An operation by a former member that nobody follows who knows of the removal."""

    author: DeviceKey
    version: int
    parents: tuple[OperationId, ...]


Named = Callable[[ManifestHash], tuple[int, frozenset[DeviceKey]]]
"""Returns version and writers of a manifest that operations here name."""


def weigh(operations: OperationRecords, group_id: GroupId, writers: frozenset[DeviceKey], named: Named) -> Standing:
    """Return which operations of a group count, where `writers` are the members that it lists now, boards apart."""
    former = sorted(operations.authors(group_id) - writers)
    heads = operations.heads(group_id)
    if not former:
        return Standing(frozenset(), tuple(heads))
    weighing = _Weighing(former, named)
    weighing.weigh(lambda: operations.shapes(group_id))
    return weighing.outcome(heads)


def heads_of(operations: OperationRecords, group_id: GroupId, writers: frozenset[DeviceKey]) -> set[OperationId]:
    """Return the operations by `writers` that no other one by them follows: what members compare of a history.

    Devices with the same heads have the same members' operations, and the same ancestors of these.
    """
    if operations.authors(group_id) <= writers:
        return set(operations.heads(group_id))
    heads: set[OperationId] = set()
    followed: set[OperationId] = set()
    for operation in operations.shapes(group_id):
        if operation.author in writers:
            if operation.id not in followed:
                heads.add(operation.id)
            followed.update(operation.parents)
        followed.discard(operation.id)
    return heads


@dataclass(frozen=True, slots=True)
class _Knowledge:
    """What writing under a manifest shows: its version, and which former members it does not list, as bits."""

    version: int
    lacking: int


@dataclass(slots=True)
class _Weighing:
    """One look at a whole history."""

    former: list[DeviceKey]
    named: Named
    manifests: dict[ManifestHash, _Knowledge] = field(default_factory=dict)
    known: dict[DeviceKey, int] = field(default_factory=dict)
    """By former member: the highest version under which a member wrote that does not list it."""
    known_to_all: dict[DeviceKey, int] = field(default_factory=dict)
    """The same for whatever counts (rule 2)."""
    unvouched: dict[OperationId, _Unvouched] = field(default_factory=dict)
    above_unvouched: list[OperationId] = field(default_factory=list)
    """What only unvouched operations follow."""
    late: set[OperationId] = field(default_factory=set)

    def weigh(self, downwards: Callable[[], Iterator[OperationShape]]) -> None:
        """Find what is unvouched, and who knows of which removal."""
        bits = {author: 1 << place for place, author in enumerate(self.former)}
        for operation in downwards():
            if operation.late:
                self.late.add(operation.id)
            if operation.author not in bits:
                self._note(self.known, self._shown_by(operation))
        above: dict[OperationId, _Above] = {}
        for operation in downwards():
            found = above.pop(operation.id, None) or _Above()
            self._judge(operation, bits.get(operation.author, 0), found)
            is_unvouched = operation.id in self.unvouched
            for parent in operation.parents:
                below = above.setdefault(parent, _Above())
                below.by_members |= found.by_members
                below.by_all |= found.by_all
                below.unvouched |= is_unvouched
                below.sound |= not is_unvouched

    def outcome(self, heads: list[OperationId]) -> Standing:
        """Return the result, where `heads` are operations without successors."""
        void = {each for each, what in self.unvouched.items() if self.known_to_all.get(what.author, 0) >= what.version}
        avoided = void | (self.late & self.unvouched.keys())  # rule 3
        to_follow = (what for each, what in self.unvouched.items() if each not in avoided)
        followed = {parent for what in to_follow for parent in what.parents}
        heads_to_follow = sorted({*heads, *self.above_unvouched} - avoided - followed)
        return Standing(frozenset(void), tuple(heads_to_follow), frozenset(avoided))

    def _judge(self, operation: OperationShape, bit: int, found: _Above) -> None:
        shown = self._shown_by(operation)
        if found.unvouched and not found.sound:
            self.above_unvouched.append(operation.id)
        if bit and not found.by_all & bit:
            self.unvouched[operation.id] = _Unvouched(operation.author, shown.version, operation.parents)
        if not bit or found.by_members & bit or self.known.get(operation.author, 0) < shown.version:
            found.by_all |= shown.lacking
            self._note(self.known_to_all, shown)
        if not bit:
            found.by_members |= shown.lacking

    def _note(self, known: dict[DeviceKey, int], shown: _Knowledge) -> None:
        for place, author in enumerate(self.former):
            if shown.lacking >> place & 1:
                known[author] = max(shown.version, known.get(author, 0))

    def _shown_by(self, operation: OperationShape) -> _Knowledge:
        found = self.manifests.get(operation.manifest)
        if found is None:
            version, writers = self.named(operation.manifest)
            lacking = sum(1 << place for place, each in enumerate(self.former) if each not in writers)
            found = self.manifests[operation.manifest] = _Knowledge(version, lacking)
        return found
