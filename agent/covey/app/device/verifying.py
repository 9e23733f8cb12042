"""Verify the state database, and recover what can be read if it is damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covey.adapters.services import hint_for
from covey.adapters.sqlite.file.salvage_report import SalvageReport
from covey.app.device.device import open_device
from covey.errors import ConfigurationError, CoveyError, LocalError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder


@dataclass(frozen=True, slots=True)
class Verified:
    """What is wrong with the file, whether it was repaired, and what earlier repairs have saved and lost."""

    complaints: list[str]
    repaired: bool
    salvages: list[dict[str, Any]]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.complaints

    def saved(self) -> list[str]:
        """Return each earlier repair as a line for people."""
        return [
            SalvageReport(each["aside"], each["saved"], each["lost"], each["restored"]).line() for each in self.salvages
        ]


def verify_state(folder: StateFolder, progress: Callable[[int], None], *, repair: bool) -> Verified:
    """Look through a state's file; `progress` is told how many messages were looked at.

    Raises:
        ConfigurationError: no device is there, or this user may not open its files.
        LocalError: it is to be repaired while an agent has it open.
    """
    from covey.adapters.sqlite.file.inspection import verify

    folder.identity()  # a device must be here
    path = folder.state_file.path
    try:
        complaints = verify(path, progress) if path.exists() else []
    except ConfigurationError:
        raise
    except CoveyError as error:
        complaints = [str(error)]
    if complaints and repair:
        folder.state_file.note_damage()
        if folder.locks.agent_runs():
            raise LocalError(
                "the agent is using the state; it repairs the state at its next start",
                hint=hint_for("covey", "sudo systemctl restart {unit}", "restart the agent"),
            )
    repaired = bool(complaints) and repair
    salvages: list[dict[str, Any]] = []
    if not complaints or repaired:
        with open_device(folder) as device:
            salvages = [{"at_us": at_us, **about} for at_us, about in device.store.device.salvages()]
    return Verified(complaints, repaired, salvages)
