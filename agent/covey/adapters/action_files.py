"""The definitions of actions in a device's folder `operations.d`: read only where nobody but its owner writes them.

Whoever can write a definition has the agent run what it likes.
"""

from __future__ import annotations

import os
from pathlib import Path

from covey.adapters.owned_files import check_owned_folder, read_owned
from covey.config.actions import read_action
from covey.core.actions.definition import ActionDefinition
from covey.limits.actions import MAXIMUM_DEFINITION_BYTES


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
