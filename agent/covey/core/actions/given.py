"""Which commands of a group a device is to run (docs/protocol/history.md, "Commands").

1. Those that count (`orders/authority.py`) and follow, directly or not, the operation by which the device began to obey
   in the group. So a newcomer, a device that lost its records, and a replay never run earlier orders, and no clock is
   needed for that.
2. Of these, commands that select the device both by the current manifest and by the one that the command names: so no
   device runs what was ordered of others before it became one of them. A wave is only for devices that its plan selects
   as well: one operator starts it, and all have agreed on the plan (`orders/authority.py`, rule 7).
3. A device that obeyed in the group before, in records that it has lost, reports the other commands as unknown: the
   last `LOST_COMMANDS`, unless their deadline has certainly passed. Those whose content is forgotten are the first to
   be left out: mostly nobody waits for them.
4. A command for this device whose content was forgotten before it arrived here is reported. One that this device has
   forgotten since the commands were judged is over: it is for nobody here any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.actions.commands import NOTHING_HALTED, GivenCommand, Halted, Moment, ObeyedSince
from covey.core.actions.secrets import SealedArguments
from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import ONCE_BYTES, CommandOrder
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.orders.authority import Pins, WeighedOrders, weigh_orders
from covey.core.orders.nodes import OrderNode
from covey.core.orders.target import OrderTarget
from covey.limits.actions import LOST_COMMANDS

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords

_FORGOTTEN = "forgotten"
"""In place of an unknown action's name."""


@dataclass(frozen=True, slots=True)
class NewCommands:
    """Commands that are for a device and that it has not taken yet, each read when its turn comes.

    What a stolen key has ordered may be more than fits into memory at once.
    """

    given: Iterator[GivenCommand]
    """Those that it is to do, in the history's order."""
    lost: Iterator[GivenCommand]
    """Those that it may have done, and cannot know."""
    forgotten: Iterator[GivenCommand] = field(default_factory=lambda: iter(()))
    """Those that it would have to do, of which nobody told it anything but that they were for it."""


class GroupCommands:
    """What operators want done in one group, by what a device that has pinned some of them knows."""

    def __init__(
        self,
        operations: OperationRecords,
        manifest: Callable[[GroupId, ManifestHash], bytes | None],
        group: GroupManifest,
        pins: Pins,
        void: Collection[OperationId],
    ) -> None:
        self._operations = operations
        self._manifest = manifest
        self._group = group
        members = {member.keys.signing_public for member in group.members}
        nodes = list(operations.judged_nodes(group.group_id)) if pins.operators else []
        weighed: WeighedOrders = weigh_orders(
            operations, group.group_id, pins, members, void, kind=OperationKind.COMMAND, judged=nodes
        )
        self.operators = weighed.operators
        self.counting = tuple(order.id for order in weighed.orders if order.counts)
        """The commands that count, for any device, in the history's order."""
        self.halted = NOTHING_HALTED
        if any(node.kind == OperationKind.RELEASE for node in nodes):
            self.halted = _halted(operations, group.group_id, pins, members, void, nodes)
        """The paused and aborted releases."""
        commands = {node.id: node for node in nodes if node.kind == OperationKind.COMMAND}
        self._heights = {each: commands[each].height for each in self.counting}
        self._forgotten = {each: node for each, node in commands.items() if node.target}

    def new(
        self, member: Member, since: ObeyedSince, knows: Callable[[OperationId], bool], moment: Moment
    ) -> NewCommands:
        """Return what a member that obeys since an operation has not taken yet."""
        unknown = [each for each in self.counting if not knows(each)]
        all_later = all(self._heights[each] > since.height for each in unknown)
        if all_later and not any(self._selects(member, each) for each in unknown):  # as mostly
            return NewCommands(iter(()), iter(()))  # the graph of a group of 1,000 takes milliseconds to read
        graph = self._operations.nodes(self._group.group_id)
        following, obeyed_before = _ancestry(graph, member.keys.signing_public, since)
        given: list[OperationId] = []
        lost: list[OperationId] = []
        lost_unheard: list[OperationId] = []
        unheard: list[OperationId] = []
        for operation_id in unknown:
            if obeyed_before is None and operation_id not in following:
                continue
            if not self._selects(member, operation_id):
                continue
            is_later = self._heights[operation_id] > (obeyed_before or 0)
            if operation_id in self._forgotten:
                if operation_id in following:
                    unheard.append(operation_id)
                elif is_later:
                    lost_unheard.append(operation_id)
                continue
            found = self._read(operation_id)
            if found is None:
                continue
            if operation_id in following:
                given.append(operation_id)
            elif is_later and not _is_past(found[1], moment):
                lost.append(operation_id)
        last = [*lost_unheard, *lost][-LOST_COMMANDS:]
        return NewCommands(self._each(given), self._each(last), self._each(unheard))

    def of_board(self, board: Member, known: dict[OperationId, bool]) -> list[OperationId]:
        """Return the commands that are for a board, in the history's order; of a release none is, and none forgotten.

        `known` says of commands whether they are, and is added to: reading each of them once is enough.
        """
        for operation_id in self.counting:
            if operation_id not in known:
                found = self._read(operation_id)
                known[operation_id] = found is not None and found[1].roll_out is None and self._is_for(board, *found)
        return [each for each in self.counting if known[each]]

    def _each(self, operation_ids: Iterable[OperationId]) -> Iterator[GivenCommand]:
        for each in operation_ids:
            if each in self._forgotten:
                yield self._unheard(self._forgotten[each])
            elif (found := self._read(each)) is not None:
                yield _given(*found)

    def _unheard(self, node: OrderNode) -> GivenCommand:
        """Return a command of which only author and targets are known."""
        return GivenCommand(node.id[:ONCE_BYTES], self._group.group_id, node.id, node.author, _FORGOTTEN)

    def _read(self, operation_id: OperationId) -> tuple[Operation, CommandOrder] | None:
        """Return a command, None if it is forgotten."""
        raw = self._operations.raw(self._group.group_id, operation_id)
        if raw is None:
            return None
        operation = read_operation(raw, verify=False)
        order = read_body(operation)
        assert isinstance(order, CommandOrder), "of that kind"
        return operation, order

    def _selects(self, member: Member, operation_id: OperationId) -> bool:
        """Say whether a command is for a member (rule 2); of a forgotten one, whether it selects it now."""
        forgotten = self._forgotten.get(operation_id)
        if forgotten is not None:
            return OrderTarget.from_wire(forgotten.target).selector.selects(member)
        found = self._read(operation_id)
        return found is not None and self._is_for(member, *found)

    def _is_for(self, member: Member, operation: Operation, order: CommandOrder) -> bool:
        whom = [order.selector] + ([] if order.roll_out is None else [order.roll_out.selector])
        if not all(each.selects(member) for each in whom):
            return False
        manifest: GroupManifest | None = self._group
        if operation.manifest != self._group.hash:
            raw = self._manifest(self._group.group_id, operation.manifest)
            manifest = None if raw is None else read_manifest(raw, verify=False)
        named = None if manifest is None else manifest.member(member.keys.signing_public)
        return named is not None and all(each.selects(named) for each in whom)


def _ancestry(
    nodes: Iterable[OrderNode], own: DeviceKey, since: ObeyedSince
) -> tuple[frozenset[OperationId], int | None]:
    """Return what follows the operation by which a device obeys, itself among it, and where it obeyed before.

    The latter is the height of its first other such operation that does not follow this one; None: there is none.
    """
    following: set[OperationId] = set()
    above: set[int] = set()
    obeyed_before: int | None = None
    for node in nodes:
        if node.id == since.operation or not above.isdisjoint(node.follows):
            above.add(node.arrival)
            following.add(node.id)
        elif node.kind == OperationKind.OBEYING and node.author == own and obeyed_before is None:
            obeyed_before = node.height
    return frozenset(following), obeyed_before


def _halted(
    operations: OperationRecords,
    group_id: GroupId,
    pins: Pins,
    members: Collection[DeviceKey],
    void: Collection[OperationId],
    nodes: list[OrderNode],
) -> Halted:
    from covey.core.history.releases import ReleaseState  # few ever stop one: it spares the memory
    from covey.core.orders.release_standing import release_standings

    standings = release_standings(operations, group_id, pins, members, void, nodes)
    paused, aborted = (
        frozenset((group_id, once) for once, each in standings.items() if each.state is state)
        for state in (ReleaseState.PAUSED, ReleaseState.ABORTED)
    )
    return Halted(paused, aborted)


def _is_past(order: CommandOrder, moment: Moment) -> bool:
    return order.deadline_us is not None and moment.synchronised and moment.wall_us > order.deadline_us


def _given(operation: Operation, order: CommandOrder) -> GivenCommand:
    return GivenCommand(
        order.once,
        operation.group_id,
        operation.id,
        operation.author,
        order.action,
        order.arguments,
        order.deadline_us,
        _sealed(operation, order),
        order.roll_out is not None,
    )


def _sealed(operation: Operation, order: CommandOrder) -> SealedArguments | None:
    if order.sealed is None:
        return None
    about = (operation.group_id, operation.author, order.action, order.once, order.selector)
    return SealedArguments.of(order.sealed, *about)
