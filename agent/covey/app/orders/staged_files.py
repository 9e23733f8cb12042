"""The files that operators have this device install: asked for, and opened where installers read them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from covey.adapters.sqlite.content import ContentState, KeptFile
from covey.config.actions import COVEY
from covey.core.actions.definition import Invocation, ProgramBounds
from covey.core.actions.installation import Installation
from covey.core.actions.results import NOT_FETCHED
from covey.core.history.files import FileOffer
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.ids import OperationId
from covey.errors import ActionError
from covey.limits.units import MIB

if TYPE_CHECKING:
    from covey.app.device.device import Device

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
            raise ActionError("no file of that id is offered in the group", NOT_FETCHED)
        offer = FileOffer.from_wire(operation.body)
        kept = self._store.content.of(offer.content.hash)
        if kept is not None and (kept.state is ContentState.WANTED or self._is_locked(installation, offer, kept)):
            return None
        if kept is not None and kept.state is ContentState.REFUSED:
            raise ActionError("the file is not what its author says", NOT_FETCHED)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        group, target = installation.group_id.hex(), self.path(installation.operation)
        words = (COVEY, "get", installation.file, f"--group={group}", "--force", f"--output={target}", "--wait=1s")
        return Invocation(installation.action, {}, words, _BOUNDS)

    def is_here(self, installation: Installation) -> bool:
        """Say whether the file has come, so that only opening it can fail."""
        raw = self._store.operations.raw(installation.group_id, OperationId(bytes.fromhex(installation.file)))
        if raw is None:
            return False
        offer = FileOffer.from_wire(read_operation(raw, verify=False).body)
        kept = self._store.content.of(offer.content.hash)
        return kept is not None and kept.state is ContentState.HERE and not self._is_locked(installation, offer, kept)

    def _is_locked(self, installation: Installation, offer: FileOffer, kept: KeptFile) -> bool:
        """Say whether the secret that a file opens by is asked for still."""
        return kept.is_lacking and self._store.groups.secret(installation.group_id, offer.epoch_id) is None

    def path(self, operation: OperationId) -> str:
        """Return the whole path where it lies then."""
        return str((self._folder / operation.hex()).absolute())

    def keep_only(self, operations: Collection[OperationId]) -> None:
        """Delete the files of all other ones."""
        kept = {each.hex() for each in operations}
        for path in self._folder.glob("*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
