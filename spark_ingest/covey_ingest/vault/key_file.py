"""The vault keys that a reader holds: from a key file that only its owner may read.

Only the file's path is in options and plans; driver and executors each read it themselves (004.19).
On the collector it may be the device's own `vault.key`, which is wrapped: its key is opened once for each change of it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from covey.adapters.keys.vault_key_file import read_vault_keys
from covey.adapters.keys.wrapped_file import is_wrapped_content
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import KeyRing
from covey.errors import ConfigurationError
from covey.limits.vault import MAXIMUM_KEY_FILE_BYTES

_opened: dict[Path, tuple[tuple[int, int], KeyFile]] = {}
"""Wrapped files, as they were when the device's key was opened: a TPM takes a second for that, and tasks are many."""


def read_key_file(path: Path) -> KeyRing:
    """Read a vault key file: a copy, or the own one of the device whose state folder it is in.

    Raises:
        ConfigurationError: missing, unreadable, readable by others, or not a key file; or the device's key does not
            open without a person.
        TransientError: what seals the device's key does not open it now.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(2 * MAXIMUM_KEY_FILE_BYTES)
    except OSError as error:
        raise ConfigurationError(
            f"the vault key file {path} cannot be read: {error.strerror}",
            hint="name the vault.key of the vault's collector, or a copy of it",
        ) from error
    mode, stamp = status.st_mode, (status.st_ino, status.st_mtime_ns)
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(
            f"the vault key file {path} is open to other users (mode {stat.S_IMODE(mode):04o})",
            hint=f"chmod 600 {path}",
        )
    if not is_wrapped_content(content):
        return KeyFile.parse(content.decode(errors="replace")).ring()
    if path not in _opened or _opened[path][0] != stamp:
        _opened[path] = stamp, read_vault_keys(path)
    return _opened[path][1].ring()
