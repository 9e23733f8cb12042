"""One writer of a set of tables: a lock on a file beside them, which goes with its process."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from covey.errors import ConfigurationError


def locked(root: Path) -> IO[str]:
    """Return the open file that holds the lock; closing it lets go. Raises OSError.

    Raises:
        ConfigurationError: another process holds it.
    """
    file = (root / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigurationError(
            f"another ingest is writing to {root}", hint="stop it, or give this one other tables"
        ) from None
    return file
