"""Read files that define what this machine runs, only if nobody but the owner can write them.

They and their folder belong to root or to the user who reads them, and neither group nor others may write them; a link
is not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from covey.adapters.files import read_regular
from covey.errors import ConfigurationError


def check_owned_folder(folder: Path) -> None:
    """Raise where others may write a folder.

    Raises:
        ConfigurationError: they may, or it is none.
    """
    _check_owned(folder, _status(folder), stat.S_ISDIR)


def check_owned_file(path: Path) -> None:
    """Raise where others may write a file.

    Raises:
        ConfigurationError: they may, or it is none.
    """
    _check_owned(path, _status(path), stat.S_ISREG)


def read_owned(path: Path, maximum: int) -> str:
    """Return the text of a file of at most so many bytes.

    Raises:
        ConfigurationError: others may write it, it is longer, or no text.
    """
    try:
        status, content = read_regular(path, maximum)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    _check_owned(path, status, stat.S_ISREG)
    if len(content) > maximum:
        raise ConfigurationError(f"{path} is longer than {maximum} bytes")
    return text


def _status(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


def _check_owned(path: Path, status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    if not is_kind(status.st_mode):
        raise ConfigurationError(f"{path} must be a regular file or folder, not a link")
    if status.st_uid not in {0, os.geteuid()}:
        raise ConfigurationError(f"{path} belongs to neither root nor the agent's user", hint=f"sudo chown root {path}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"other users may write {path}", hint=f"sudo chmod go-w {path}")
