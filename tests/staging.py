"""Files that are to be installed, for those who install none, or one that is there at once."""

from __future__ import annotations

from collections.abc import Collection

from covey.core.actions.definition import Invocation, ProgramBounds
from covey.core.actions.installation import Installation
from covey.core.actions.results import NOT_FETCHED
from covey.core.ids import OperationId
from covey.errors import ActionError


class Unstaged:
    """No file is ever offered."""

    def fetch(self, installation: Installation) -> Invocation | None:
        raise ActionError(f"{installation.file} is not offered", NOT_FETCHED)

    def is_here(self, installation: Installation) -> bool:
        del installation
        return False

    def path(self, operation: OperationId) -> str:
        return f"/nowhere/{operation.hex()}"

    def keep_only(self, operations: Collection[OperationId]) -> None:
        del operations


class Staged(Unstaged):
    """Every file is offered; `coming`: it has not come yet, `missing`: it cannot be had."""

    def __init__(self) -> None:
        self.coming = self.missing = False
        self.kept: set[OperationId] = set()

    def fetch(self, installation: Installation) -> Invocation | None:
        if self.missing:
            return super().fetch(installation)
        return None if self.coming else Invocation(installation.action, {}, ("covey", "get"), ProgramBounds())

    def keep_only(self, operations: Collection[OperationId]) -> None:
        self.kept = set(operations)
