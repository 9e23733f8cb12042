"""The installers that Covey brings, as an owner's definition names them: one of four words each time.

`install` reads the new version, `confirm` returns whether it is well (`core/actions/installing.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from covey.adapters.file_installer import FileInstaller
from covey.adapters.slot_installer import SlotInstaller, end_agent_above
from covey.errors import UsageError

_ENDS_S = 600.0
"""Within which the agent ends, where it is asked to."""

WORDS = ("install", "confirm", "rollback", "version")


def install_file(word: str, target: Path, hook: Sequence[str], check: Sequence[str], content: BinaryIO) -> int | str:
    """Do what a word says with the file at `target`; return an exit code, or the version.

    Raises:
        LocalError: the hook failed, or a program cannot be started.
        StorageError: the disk refused.
        UsageError: the target is no place for a file.
    """
    if not target.is_absolute() or not target.parent.is_dir():
        raise UsageError(f"--to: '{target}' is no whole path in a folder that is there", hint="--to /srv/model.bin")
    installer = FileInstaller(target, hook, check)
    os.umask(0o022)  # the file is for other programs
    match word:
        case "install":
            return installer.install(content)
        case "confirm":
            return installer.confirm()
        case "rollback":
            return installer.roll_back()
    return installer.version()


def install_covey(word: str, slots: Path, content: BinaryIO) -> int | str:
    """Do what a word says with Covey itself, in its slots; return an exit code, or the version.

    Raises:
        LocalError: this Covey runs from no slot; or what is to be installed is none that can be gone back from.
        StorageError: the disk refused.
    """
    installer = SlotInstaller(slots, end_agent_above(_ENDS_S))
    match word:
        case "install":
            return installer.install(content)
        case "confirm":
            return installer.confirm()
        case "rollback":
            return installer.roll_back()
    return installer.version()
