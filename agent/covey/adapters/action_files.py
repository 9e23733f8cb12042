"""The definitions of actions in a device's folder `operations.d`: read only where nobody but its owner writes them.

Whoever can write a definition has the agent run what it likes. So the folder and each file belong to root or to the
agent's own user, and neither group nor others may write them; a link is not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from covey.adapters.files import read_regular
from covey.config.actions import read_action
from covey.core.actions.definition import ActionDefinition
from covey.errors import ConfigurationError
from covey.limits.actions import MAXIMUM_DEFINITION_BYTES


def read_action_file(folder: Path, name: str) -> ActionDefinition | None:
    """Read the definition of an action; None where the folder has none of that name.

    Raises:
        ConfigurationError: others may write there, or it is none.
    """
    path = folder / f"{name}.toml"
    if not os.path.lexists(path):
        return None
    _check_owned(folder, folder.lstat(), stat.S_ISDIR)
    return read_action(name, _text(path), str(path))


def _text(path: Path) -> str:
    try:
        status, content = read_regular(path, MAXIMUM_DEFINITION_BYTES)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    _check_owned(path, status, stat.S_ISREG)
    if len(content) > MAXIMUM_DEFINITION_BYTES:
        raise ConfigurationError(f"{path} is longer than {MAXIMUM_DEFINITION_BYTES} bytes")
    return text


def _check_owned(path: Path, status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    if not is_kind(status.st_mode):
        raise ConfigurationError(f"{path} is a link, or no folder or file of its kind")
    if status.st_uid not in {0, os.geteuid()}:
        raise ConfigurationError(f"{path} belongs to another user", hint=f"chown root {path}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"{path} may be written by others", hint=f"chmod go-w {path}")
