"""Install a file at a path that the device's owner names, and roll back (`core/actions/installing.py`).

1. A rename replaces the file: at any moment the path has the old or the new one, whole.
2. The old file is kept next to it, durably, before anything changes, until it is confirmed or restored: `.NAME.old`, or
   `.NAME.none` if there was none. An existing one is the last confirmed version, and stays.
3. Each step can be interrupted anywhere; repeated, it gives the same result.
4. Keeping and restoring the old file needs no room on disks with hard links.
5. A hook runs after each change, with the path as its argument; if it fails, the step has failed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from covey.adapters.files import remove_durably, storage_errors, synchronise
from covey.adapters.owners_program import run_owners_program
from covey.errors import LocalError

_MODE = 0o644
_DIGEST_CHARACTERS = 16
_PIECE = 1 << 20


class FileInstaller:
    """Installs, confirms and takes back; `hook` and `check` are programs, with their arguments, or empty."""

    def __init__(self, target: Path, hook: Sequence[str] = (), check: Sequence[str] = ()) -> None:
        self._target = target
        self._hook = hook
        self._check = check
        self._old = target.with_name(f".{target.name}.old")
        self._none = target.with_name(f".{target.name}.none")
        self._new = target.with_name(f".{target.name}.new")

    def install(self, content: BinaryIO) -> int:
        """Put what a stream holds at the path; return 0.

        Raises:
            LocalError: the hook failed.
            StorageError: the disk refused.
        """
        with storage_errors("replace", self._target):
            self._new.unlink(missing_ok=True)
            if not (self._old.exists() or self._none.exists()):
                if self._target.exists():
                    self._keep(self._target, self._old)
                else:
                    self._none.touch(mode=0o600)
                    synchronise(self._target.parent)
            like = self._target.stat() if self._target.exists() else None
            self._write(content, self._target, like)
        self._changed()
        return 0

    def confirm(self) -> int:
        """Delete the previous version if the check program succeeds; return its exit code.

        Raises:
            LocalError: it cannot be started.
            StorageError: the disk refused.
        """
        code = run_owners_program([*self._check, str(self._target)]) if self._check else 0
        if code == 0:
            for path in (self._old, self._none, self._new):
                remove_durably(path)
        return code

    def roll_back(self) -> int:
        """Put back what was there before; return 0. Where nothing was changed, nothing is.

        Raises:
            LocalError: the hook failed.
            StorageError: the disk refused.
        """
        with storage_errors("replace", self._target):
            self._new.unlink(missing_ok=True)
            if self._old.exists():
                self._keep(self._old, self._target)
            elif self._none.exists():
                remove_durably(self._target)
            else:
                return 0
        self._changed()
        for path in (self._old, self._none):
            remove_durably(path)
        return 0

    def version(self) -> str:
        """Return the version at the path: the beginning of its SHA-256 sum.

        Raises:
            StorageError: it cannot be read.
        """
        if not self._target.exists():
            return "none"
        with storage_errors("read", self._target), self._target.open("rb") as file:
            return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:_DIGEST_CHARACTERS]}"

    def _keep(self, source: Path, target: Path) -> None:
        """Have one path name another's file, durably: by a hard link, or a copy if the disk has no links."""
        synchronise(source)
        try:
            os.link(source, self._new)
        except OSError:
            with source.open("rb") as content:
                self._write(content, target, os.fstat(content.fileno()))
            return
        self._new.replace(target)
        self._new.unlink(missing_ok=True)  # where both were the same file, a rename does nothing
        synchronise(target.parent)

    def _write(self, content: BinaryIO, target: Path, like: os.stat_result | None) -> None:
        """Replace a file by a stream's content, durably, with another file's owner and mode."""
        with self._new.open("wb") as file:
            shutil.copyfileobj(content, file, _PIECE)
            file.flush()
            if like is not None and os.geteuid() == 0:
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), _MODE if like is None else stat.S_IMODE(like.st_mode))
            os.fsync(file.fileno())
        self._new.replace(target)
        synchronise(target.parent)

    def _changed(self) -> None:
        if self._hook and (code := run_owners_program([*self._hook, str(self._target)])):
            raise LocalError(f"{self._hook[0]} exited with code {code}")
