"""Builds the role that runs commands, from the owner's definitions and the commands that operators gave.

`StagedFiles` requests the file of an installation and opens it where installers read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.sqlite.content import ContentState, KeptFile
from covey.adapters.unit_programs import UnitPrograms
from covey.app.device.known_labels import own_label
from covey.app.device.pins import pins
from covey.app.orders.action_programs import ActionPrograms, agent_actions
from covey.app.orders.ordered_actions import OrderedActions
from covey.app.orders.owners_actions import defined_action, owners_action
from covey.app.orders.pinned_commands import PinnedCommands
from covey.config.actions import COVEY
from covey.core.actions.definition import ActionDefinition, Invocation, ProgramBounds
from covey.core.actions.execution import Execution
from covey.core.actions.installation import Installation
from covey.core.actions.installing import Installing
from covey.core.actions.moving import Moving
from covey.core.actions.results import NOT_FETCHED
from covey.core.history.files import FileOffer
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.ids import OperationId
from covey.errors import ActionError
from covey.limits.units import MIB

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole


_BOUNDS = ProgramBounds(time_us=600_000_000, memory_bytes=512 * MIB)


class StagedFiles:
    """Implements `installing.Staging`."""

    def __init__(self, device: Device) -> None:
        self._store = device.store
        self._folder = device.folder.installing

    def fetch(self, installation: Installation) -> Invocation | None:
        """Return what asks for the file, or opens it where it is here; None while it is on its way.

        Raises:
            ActionError: no such file is offered, or it is not what its author says.
        """
        raw = self._store.operations.raw(installation.group_id, OperationId(bytes.fromhex(installation.file)))
        operation = None if raw is None else read_operation(raw, verify=False)
        if operation is None or operation.kind != OperationKind.FILE:
            raise ActionError("no member offers a file with that id", NOT_FETCHED)
        offer = FileOffer.from_wire(operation.body)
        kept = self._store.content.of(offer.content.hash)
        if kept is not None and (kept.state is ContentState.WANTED or self._is_locked(installation, offer, kept)):
            return None
        if kept is not None and kept.state is ContentState.REFUSED:
            raise ActionError("the file does not match its offer", NOT_FETCHED)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        group, target = installation.group_id.hex(), self.path(installation.operation)
        words = (
            COVEY,
            "file",
            "get",
            installation.file,
            f"--group={group}",
            "--force",
            f"--output={target}",
            "--wait=1s",
        )
        return Invocation(installation.action, {}, words, _BOUNDS)

    def is_here(self, installation: Installation) -> bool:
        raw = self._store.operations.raw(installation.group_id, OperationId(bytes.fromhex(installation.file)))
        if raw is None:
            return False
        offer = FileOffer.from_wire(read_operation(raw, verify=False).body)
        kept = self._store.content.of(offer.content.hash)
        return kept is not None and kept.state is ContentState.HERE and not self._is_locked(installation, offer, kept)

    def _is_locked(self, installation: Installation, offer: FileOffer, kept: KeptFile) -> bool:
        return kept.is_lacking and self._store.groups.secret(installation.group_id, offer.epoch_id) is None

    def path(self, operation: OperationId) -> str:
        return str((self._folder / operation.hex()).absolute())

    def keep_only(self, operations: Collection[OperationId]) -> None:
        kept = {each.hex() for each in operations}
        for path in self._folder.glob("*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)


def commands_role(device: Device, restart: Callable[[], None], roles: Sequence[AgentRole]) -> OrderedActions:
    """Return the role that does what operators have told a device to do; `roles` are those that can be told."""
    commands, path, owner = device.store.commands, device.folder.action_socket, OwnerActions(device)
    installing = Installing(device.store.installations, owner, StagedFiles(device))
    units = None if path is None else UnitPrograms(path)
    return OrderedActions(
        device.store,
        commands,
        Execution(commands, owner, device.node.identity.noise, installing, Moving(device.store)),
        PinnedCommands(device.store, lambda group_id: pins(device, group_id)),
        ActionPrograms(device.folder.path, agent_actions(restart, roles), units),
        device.clock,
        report,
        lambda: own_label(device),
        lambda: not device.config.operations.operators,
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
    """The actions that a device's owner lets operators have done; implements `installing.ActionOwner`.

    Definitions are read again each time.
    """

    def __init__(self, device: Device) -> None:
        self._device = device

    def action(self, name: str) -> ActionDefinition:
        return owners_action(self._device.folder.actions, self._device.config.operations.commands, name)

    def defined(self, name: str) -> ActionDefinition:
        return defined_action(self._device.folder.actions, name)
