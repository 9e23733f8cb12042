"""Covey's own update on trial: two virtual environments, and a link to the one that runs (`actions/installing.py`).

The folder holds the slots `a` and `b`, the link `current`, and `launch` (`covey system-files systemd/launch`), which
the service manager starts. On trial there is a file `trial` with the old slot's name, and `starts`, which `launch`
fills.

1. A new version is built in the slot that does not run, as a copy of the one that does with other packages in it. So
   nothing is fetched, and nothing that runs is touched.
2. A version that cannot be started, or that converts the state into one which the present version cannot read, is
   refused before anything changes: nobody could go back from it. So is one that leaves the disk no room; what was
   built of a version that does not stay is deleted.
3. The link changes by a rename, after what says how to go back is durable. Then the agent is ended, so that its service
   manager starts the new one. Where an agent ends over and over on trial, `launch` puts the link back.
4. Confirmed is only a version that itself runs this.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from covey.adapters.files import remove_durably, remove_leftovers, replace_durably, storage_errors, synchronise
from covey.adapters.sqlite.migrations import newest_schema
from covey.errors import DiskFullError, LocalError
from covey.limits.actions import SLOT_FREE_BYTES

_SLOTS = ("a", "b")
_PIECE = 1 << 20
_WHEEL = re.compile(r"[A-Za-z0-9_.+!-]{1,200}\.whl")
_ABOUT = re.compile(r"(covey-[A-Za-z0-9_.+!]{1,60})\.dist-info/WHEEL")
_PURE = "py3-none-any"
_MAXIMUM_UNPACKED_BYTES = 1 << 30
_COPIES_OF_A_WHEEL = 3
"""A wheel's content lies on the disk as it came, unpacked by pip, and in the slot."""
_ASK = (
    "import covey.app.agent.daemon, covey.app.loop.runtime, covey.app.device.relay_access; "
    "from covey.cli.main import full_parser; "
    "full_parser(); from covey.adapters.sqlite.migrations import oldest_reader; print(oldest_reader())"
)
"""Loads what an agent and its commands need; says which versions can read what it leaves of the state."""


class SlotInstaller:
    """Installs, confirms and takes back Covey itself, as the version that runs now does it."""

    def __init__(self, folder: Path, end_agent: Callable[[], None]) -> None:
        """`end_agent` has the agent end that this was started by; it may return before that has come to pass.

        Raises:
            LocalError: this Covey does not run from a slot of the folder.
        """
        self._folder = folder.resolve()
        self._end_agent = end_agent
        self._trial, self._starts = self._folder / "trial", self._folder / "starts"
        self._incoming, self._next = self._folder / "incoming", self._folder / ".next"
        running = Path(sys.prefix).resolve()
        if running.parent != self._folder or running.name not in _SLOTS or self._current() not in _SLOTS:
            hint = "docs/how-to/releases.md shows how its slots are laid out"
            raise LocalError(f"this Covey does not run from a slot of {folder}", hint=hint)
        self._running = running.name

    def install(self, content: BinaryIO) -> int:
        """Build what a stream holds, a wheel of Covey or a zip of wheels, and have it run; return 0.

        Raises:
            LocalError: it is none, or cannot be gone back from.
            StorageError: the disk refused.
        """
        with storage_errors("write", self._folder):
            other = next(slot for slot in _SLOTS if slot != self._running)
            self._switch(self._running)  # where an earlier one was cut off
            remove_durably(self._starts)
            replace_durably(self._trial, self._running.encode(), 0o644)
            shutil.rmtree(self._folder / other, ignore_errors=True)
            self._need_room(_bytes_in(self._folder / self._running))
            wheels = self._unpacked(content)
            shutil.copytree(self._folder / self._running, self._folder / other, symlinks=True, copy_function=self._copy)
            self._fill(other, wheels)
            shutil.rmtree(self._incoming)
            os.sync()
            self._switch(other)
        self._end_agent()
        return 0

    def confirm(self) -> int:
        """Have the new version stay; return 0.

        Raises:
            LocalError: it is not the new one that runs.
            StorageError: the disk refused.
        """
        if self._trial.exists() and (self._running == self._old() or self._running != self._current()):
            raise LocalError(f"the new version is not running; {self.version()} is")
        self._end_trial()  # where it was confirmed, and nobody heard it, what was cut off
        return 0

    def roll_back(self) -> int:
        """Have the old version run; return 0.

        Raises:
            LocalError: the new one runs still.
            StorageError: the disk refused.
        """
        if self._trial.exists():
            old = self._old()
            self._switch(old)
            if self._running != old:
                self._end_agent()
                raise LocalError("the agent did not stop", hint="restart the agent, then try again")
            shutil.rmtree(self._folder / next(slot for slot in _SLOTS if slot != old), ignore_errors=True)
        self._end_trial()
        return 0

    @staticmethod
    def version() -> str:
        """Return the version that runs this."""
        return f"covey {version('covey')}"

    def _current(self) -> str:
        link = self._folder / "current"
        return str(link.readlink()) if link.is_symlink() else ""

    def _old(self) -> str:
        old = self._trial.read_text(encoding="ascii").strip()
        if old not in _SLOTS:
            raise LocalError(f"{self._trial} does not name a slot")
        return old

    def _switch(self, slot: str) -> None:
        self._next.unlink(missing_ok=True)
        self._next.symlink_to(slot)
        self._next.replace(self._folder / "current")
        synchronise(self._folder)

    def _end_trial(self) -> None:
        """Delete everything next to the slots, starting with the mark of the trial."""
        with storage_errors("write", self._folder):
            remove_durably(self._trial)
            remove_durably(self._starts)
            self._next.unlink(missing_ok=True)
            remove_leftovers(self._folder)
            shutil.rmtree(self._incoming, ignore_errors=True)

    def _need_room(self, size: int) -> None:
        """Check that so many bytes fit, and leave what the agent's state needs.

        Raises:
            DiskFullError: they do not.
        """
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        if free < size + SLOT_FREE_BYTES:
            raise DiskFullError(
                f"no room for a slot of {size} bytes: {free} bytes are free, and Covey keeps {SLOT_FREE_BYTES} of "
                "them free",
                hint="free space on that disk, then release the version again",
            )

    # -- building -----------------------------------------------------------------------------------------------------

    def _unpacked(self, content: BinaryIO) -> list[Path]:
        shutil.rmtree(self._incoming, ignore_errors=True)
        self._incoming.mkdir(mode=0o700)
        package = self._incoming / "package"
        with package.open("wb") as file:
            shutil.copyfileobj(content, file, _PIECE)
        try:
            with zipfile.ZipFile(package) as archive:
                unpacked = sum(each.file_size for each in archive.infolist())
                if unpacked > _MAXIMUM_UNPACKED_BYTES:
                    raise LocalError("the release unpacks to more than 1 GiB")
                self._need_room(_bytes_in(self._folder / self._running) + _COPIES_OF_A_WHEEL * unpacked)
                names = archive.namelist()
                for name in filter(_WHEEL.fullmatch, names):
                    with archive.open(name) as read, (self._incoming / name).open("wb") as file:
                        shutil.copyfileobj(read, file, _PIECE)
        except zipfile.BadZipFile as error:
            raise LocalError("the release is neither a wheel nor a zip of wheels") from error
        wheels = sorted(self._incoming.glob("*.whl"))
        about = [found[1] for found in map(_ABOUT.fullmatch, names) if found]
        if not wheels and len(about) == 1:
            wheels = [package.rename(self._incoming / f"{about[0]}-{_PURE}.whl")]
        if not any(each.name.startswith("covey-") for each in wheels):
            raise LocalError("the release contains no wheel of Covey")
        return wheels

    def _copy(self, source: str, target: str) -> None:
        """Copy a file, or stop the whole copy at once: `copytree` would continue, and then name every file."""
        with storage_errors("write", self._folder):
            shutil.copy2(source, target)

    def _fill(self, slot: str, wheels: Sequence[Path]) -> None:
        """Install packages into a slot, and check that it starts and can be left again (rule 2)."""
        python = str(self._folder / slot / "bin" / "python")
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps")
        _output(python, "-I", *pip, "--force-reinstall", *map(str, wheels))
        oldest = _output(python, "-I", "-c", _ASK).split()[-1]
        if int(oldest) > newest_schema():
            raise LocalError(
                f"the new version converts the state to a format that {self.version()} cannot read, so it could "
                "not be rolled back",
                hint="install it by hand, on the device",
            )


def _bytes_in(folder: Path) -> int:
    return sum(each.lstat().st_blocks for each in folder.rglob("*")) * 512


def end_agent_above(deadline_s: float) -> Callable[[], None]:
    """Return what ends the agent whose guard started this process, and waits to be ended with it."""

    def end() -> None:
        guard = os.getppid()
        if "program_guard.py" not in Path(f"/proc/{guard}/cmdline").read_text(encoding="utf-8", errors="replace"):
            return  # a person calls it, who restarts the agent
        status = Path(f"/proc/{guard}/stat").read_text(encoding="utf-8", errors="replace")
        os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGTERM)
        time.sleep(deadline_s)

    return end


def _output(*words: str) -> str:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise LocalError(f"the release cannot be installed: {said[-1].strip() if said else done.returncode}")
    return done.stdout
