"""A disk of its own for tables in a folder, that gets full: for root, who may mount one."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.spark.strikes import Dice

_SIZE = "4g"
"""Of a file system in memory, which takes no more of it than is in it."""


class TablesDisk:
    """A file system in memory. When it is struck, it has room for nothing more, for some seconds."""

    def __init__(self, folder: Path, dice: Dice) -> None:
        self._folder = folder
        self._dice = dice
        self._whole_at = math.inf
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)], check=True)

    @staticmethod
    def is_allowed() -> bool:
        """Say whether this process may mount one."""
        return os.geteuid() == 0

    def fail(self) -> int:
        """Leave room for nothing more, unless that is so; 0 where something was just written."""
        if self._whole_at != math.inf:
            return 0
        found = os.statvfs(self._folder)
        if not self._resize(str((found.f_blocks - found.f_bfree) * found.f_frsize)):
            return 0
        self._whole_at = time.monotonic() + self._dice.outage_seconds()
        return 1

    def look(self) -> None:
        """Mend it where it has been full for long enough."""
        if time.monotonic() > self._whole_at:
            self.mend()

    def mend(self) -> None:
        """Have room again."""
        self._resize(_SIZE)
        self._whole_at = math.inf

    def close(self) -> None:
        """Leave what is on it in a folder of this name."""
        copy = self._folder.with_name(f"{self._folder.name}.copy")
        shutil.copytree(self._folder, copy)
        subprocess.run(["umount", "-l", str(self._folder)], check=True)
        self._folder.rmdir()
        copy.rename(self._folder)

    def _resize(self, size: str) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self._folder)]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
