"""Joins what operators want a device to do, the definitions of its owner, and the agent's role."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.unit_programs import UnitPrograms
from covey.app.device.pins import pins
from covey.app.orders.action_programs import ActionPrograms, agent_actions
from covey.app.orders.kept_orders import KeptOrders
from covey.app.orders.ordered_actions import OrderedActions, OrderedGroup
from covey.app.orders.owners_actions import defined_action, owners_action
from covey.app.orders.staged_files import StagedFiles
from covey.core.actions.definition import ActionDefinition
from covey.core.actions.execution import Execution
from covey.core.actions.given import GroupCommands, NewCommands
from covey.core.actions.installing import Installing
from covey.core.actions.records import Halted, Moment, ObeyedSince
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.kinds import OperationKind
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole
    from covey.core.node import Node
    from covey.core.orders.authority import Pins
    from covey.core.records.orders import CommandRecords

_KINDS = (OperationKind.OPERATOR, OperationKind.COMMAND, OperationKind.APPROVAL, OperationKind.RELEASE)


def commands_role(device: Device, restart: Callable[[], None], roles: Sequence[AgentRole]) -> OrderedActions:
    """Return the role that does what operators have told a device to do; `roles` are those that can be told."""
    commands, path, owner = device.store.commands, device.folder.action_socket, OwnerActions(device)
    installing = Installing(device.store.installations, owner, StagedFiles(device))
    units = None if path is None else UnitPrograms(path)
    return OrderedActions(
        device.store,
        commands,
        Execution(commands, owner, device.node.identity.noise, installing),
        PinnedCommands(device.store, lambda group_id: pins(device, group_id)),
        ActionPrograms(device.folder.path, agent_actions(restart, roles), units),
        device.clock,
        report,
    )


def end_obeying(device: Device) -> None:
    """Forget from where on this device obeyed commands, where its owner lets nobody give it any: so nothing that is
    ordered until they do again is ever done."""
    groups = device.store.commands.obeyed_groups()
    if groups:
        with device.store.transaction():
            for group_id in groups:
                device.store.commands.end_obeying(group_id)


class OwnerActions:
    """The actions that a device's owner lets operators have done; implements `execution.ActionOwner`
    and `installing.InstallerOwner`.

    What they are is read anew each time.
    """

    def __init__(self, device: Device) -> None:
        self._device = device

    def action(self, name: str) -> ActionDefinition:
        """Return an action that is allowed.

        Raises:
            ActionError: it is not, or is none.
        """
        return owners_action(self._device.folder.actions, self._device.config.operations.commands, name)

    def defined(self, name: str) -> ActionDefinition:
        """Return an action, allowed or not.

        Raises:
            ActionError: it is none.
        """
        return defined_action(self._device.folder.actions, name)


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Implements `ordered_actions.OrderedGroup`."""

    group: GroupManifest
    member: Member
    commands: GroupCommands

    @property
    def counting(self) -> tuple[OperationId, ...]:
        return self.commands.counting

    @property
    def halted(self) -> Halted:
        return self.commands.halted

    @property
    def operators(self) -> frozenset[DeviceKey]:
        return frozenset(self.commands.operators)

    @property
    def judgement(self) -> GroupCommands:
        return self.commands

    def new(self, since: ObeyedSince, records: CommandRecords, moment: Moment) -> NewCommands:
        return self.commands.new(self.member, since, records.knows, moment)


class PinnedCommands:
    """What the operators want done whom a device's owner has pinned; implements `ordered_actions.Commands`."""

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
                    found.append(_Ordered(group, member, commands))
        return found

    def incarnation(self) -> Incarnation:
        """Return the present one."""
        return self._store.incarnations.present()
