"""The actions that a device's owner allows: its own definitions before those that Covey brings.

Definitions are in the device's folder `operations.d`. They are read only if nobody but the owner can write them,
because a definition makes the agent run any program.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from covey.adapters.owned_files import check_owned_folder, read_owned
from covey.app import shipped_files
from covey.config.actions import read_action
from covey.config.file import parse
from covey.core.actions.definition import ActionDefinition
from covey.core.actions.results import NOT_ALLOWED, NOT_DEFINED
from covey.errors import ActionError, ConfigurationError, UsageError
from covey.limits.actions import MAXIMUM_DEFINITION_BYTES
from covey.limits.settings import MAXIMUM_CONFIGURATION_BYTES


def read_action_file(folder: Path, name: str) -> ActionDefinition | None:
    """Read the definition of an action; None where the folder has none of that name.

    Raises:
        ConfigurationError: others may write there, or it is none.
    """
    path = folder / f"{name}.toml"
    if not os.path.lexists(path):
        return None
    check_owned_folder(folder)
    return read_action(name, read_owned(path, MAXIMUM_DEFINITION_BYTES), str(path))


def allowed_commands(folder: Path) -> tuple[str, ...]:
    """Return `operations.commands` as root has set it for this machine.

    Raises:
        ConfigurationError: others may write what says so, or it cannot be read.
    """
    found: tuple[str, ...] = ()
    check_owned_folder(folder)
    fragments = folder / "conf.d"
    if fragments.exists():
        check_owned_folder(fragments)
    for path in (folder / "config.toml", *sorted(fragments.glob("*.toml"))):
        if path.exists():
            value = parse(read_owned(path, MAXIMUM_CONFIGURATION_BYTES), str(path)).get("operations.commands")
            found = value if isinstance(value, tuple) else found
    return found


def owners_action(folder: Path, allowed: Collection[str], name: str) -> ActionDefinition:
    """Return an action that is allowed, by the folder of an owner's own definitions.

    Raises:
        ActionError: it is not, or is none.
    """
    if name not in allowed:
        why = f"this device's owner does not let operators run {name}"
        raise ActionError(
            why, NOT_ALLOWED, hint="operations.commands on this device lists the actions that operators may order"
        )
    return defined_action(folder, name)


def defined_action(folder: Path, name: str) -> ActionDefinition:
    """Return an action, allowed or not.

    Raises:
        ActionError: it is none.
    """
    try:
        return read_action_file(folder, name) or _shipped(name)
    except ConfigurationError as error:
        raise ActionError(str(error), NOT_DEFINED, hint=error.hint) from error
    except UsageError as error:
        why = f"{name} is not defined on this device"
        raise ActionError(why, NOT_DEFINED, hint=f"operations.d/{name}.toml must define it") from error


def _shipped(name: str) -> ActionDefinition:
    path = f"operations.d/{name}.toml"
    return read_action(name, shipped_files.read(path), path)
