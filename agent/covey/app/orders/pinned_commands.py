"""The commands of pinned operators, by group, as far as this device knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from covey.app.orders.kept_orders import KeptOrders
from covey.core.actions.commands import Halted, Moment, ObeyedSince
from covey.core.actions.given import GroupCommands, NewCommands
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.kinds import OperationKind
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.node import Node
    from covey.core.orders.authority import Pins
    from covey.core.records.orders import CommandRecords

_KINDS = (OperationKind.OPERATOR, OperationKind.COMMAND, OperationKind.APPROVAL, OperationKind.RELEASE)


@dataclass(frozen=True, slots=True)
class OrderedGroup:
    """A group in which operators have a say on this device, and their commands."""

    group: GroupManifest
    member: Member
    commands: GroupCommands

    @property
    def counting(self) -> tuple[OperationId, ...]:
        """The commands that count, for any device."""
        return self.commands.counting

    @property
    def halted(self) -> Halted:
        """The paused and aborted releases."""
        return self.commands.halted

    @property
    def operators(self) -> frozenset[DeviceKey]:
        """Who is one."""
        return frozenset(self.commands.operators)

    @property
    def judgement(self) -> GroupCommands:
        """Another object whenever other commands may count."""
        return self.commands

    def new(self, since: ObeyedSince, records: CommandRecords, moment: Moment) -> NewCommands:
        """Return what this device has not taken yet."""
        return self.commands.new(self.member, since, records.knows, moment)


class PinnedCommands:
    """The commands of the operators that a device's owner has pinned."""

    def __init__(self, store: SqliteStore, pins_of: Callable[[GroupId], Pins]) -> None:
        self._store = store
        self._orders = KeptOrders(
            store, _KINDS, pins_of, partial(GroupCommands, store.operations, store.groups.manifest)
        )

    def groups(self, node: Node) -> list[OrderedGroup]:
        """Return the groups that have operators."""
        own = node.identity.signing_public
        found: list[OrderedGroup] = []
        for group in node.groups.joined():
            member = group.member(own)
            if member is not None and not member.is_board:
                commands = self._orders.of(node, group)
                if any(group.member(operator) for operator in commands.operators):
                    found.append(OrderedGroup(group, member, commands))
        return found

    def operators(self, node: Node, group: GroupManifest) -> frozenset[DeviceKey]:
        """Return the operators of a group, also of one that this device is out of."""
        return frozenset(self._orders.of(node, group).operators)

    def incarnation(self) -> Incarnation:
        """Return the present one: records of an earlier one may not be all."""
        return self._store.incarnations.present()
