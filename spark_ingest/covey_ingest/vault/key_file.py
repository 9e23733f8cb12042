"""The vault keys that a reader holds: from a key file that only its owner may read.

Only the file's path is in options and plans; driver and executors each read it themselves (004.19).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import KeyRing
from covey.errors import ConfigurationError
from covey.limits.vault import MAXIMUM_KEY_FILE_BYTES


def read_key_file(path: Path) -> KeyRing:
    """Read a vault key file.

    Raises:
        ConfigurationError: missing, unreadable, readable by others, or not a key file.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAXIMUM_KEY_FILE_BYTES)
    except OSError as error:
        raise ConfigurationError(
            f"the vault key file {path} cannot be read: {error.strerror}",
            hint="name the vault.key of the vault's collector, or a copy of it",
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(
            f"the vault key file {path} is open to other users (mode {stat.S_IMODE(mode):04o})",
            hint=f"chmod 600 {path}",
        )
    return KeyFile.parse(content.decode(errors="replace")).ring()
