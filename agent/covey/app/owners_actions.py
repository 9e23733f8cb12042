"""What the owner of a device lets operators have done: its own definitions before those that Covey brings."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from covey.adapters.action_files import read_action_file
from covey.app import shipped_files
from covey.config.actions import read_action
from covey.core.actions.definition import ActionDefinition
from covey.core.actions.results import NOT_ALLOWED, NOT_DEFINED
from covey.errors import ActionError, ConfigurationError, UsageError


def owners_action(folder: Path, allowed: Collection[str], name: str) -> ActionDefinition:
    """Return an action that is allowed, by the folder of an owner's own definitions.

    Raises:
        ActionError: it is not, or is none.
    """
    if name not in allowed:
        why = f"this device's owner lets no operator have {name} done"
        raise ActionError(why, NOT_ALLOWED, hint="operations.commands names what they may")
    try:
        return read_action_file(folder, name) or _shipped(name)
    except ConfigurationError as error:
        raise ActionError(str(error), NOT_DEFINED, hint=error.hint) from error
    except UsageError as error:
        why = f"{name} is not defined on this device"
        raise ActionError(why, NOT_DEFINED, hint=f"operations.d/{name}.toml defines it") from error


def _shipped(name: str) -> ActionDefinition:
    path = f"operations.d/{name}.toml"
    return read_action(name, shipped_files.read(path), path)
