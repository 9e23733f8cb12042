"""A disk of its own for the edge and for the hub, which can lose its power, and be full.

It is an ext4 file system with a journal in a file, mounted by a loop device; so it needs root.

A power cut freezes the programs of its side, then stops the file system (`EXT4_IOC_SHUTDOWN` without a flush of its
journal, as the kernel's own xfstests do), kills the programs, and mounts it again, which replays the journal: the file
system's log of writes. So all that a program synchronised is there. What it only wrote is there if the kernel had
written it back by then: metadata after 5 seconds, content after up to 30. Writes are neither torn nor reordered, and no
disk lies about a sync.
A real disk may do worse, to every system.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path

MIB = 1024 * 1024
_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN: _IOR('X', 125, __u32)."""
_NO_FLUSH = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH."""
_CAP_SYS_ADMIN = 21


def lacking() -> str | None:
    """Say what a disk needs and this process has not: the right to mount, and loop devices."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    rights = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    may_mount = rights >> _CAP_SYS_ADMIN & 1
    return None if may_mount and Path("/dev/loop-control").exists() else "the right to mount loop devices (root)"


class Disk:
    """A mounted folder of so many bytes; or a plain folder, which cannot lose its power."""

    def __init__(self, folder: Path, size: int = 96 * MIB) -> None:
        self.folder = folder
        self._image = folder.with_suffix(".ext4")
        self._filler = folder / "filler"
        self.real = lacking() is None
        folder.mkdir()
        if self.real:
            with self._image.open("wb") as image:
                image.truncate(size)
            _run("mkfs.ext4", "-q", "-F", "-m", "0", "-J", "size=4", str(self._image))
            self._mount()

    def synchronise(self) -> None:
        """Have everything on the disk that was written, as after a quiet minute."""
        _run("sync", "--file-system", str(self.folder))

    def cut_power(self) -> None:
        """Stop it: what was not synchronised may be gone. Its programs are frozen, and must end now."""
        assert self.real
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_FLUSH))
        finally:
            os.close(descriptor)

    def restore_power(self) -> None:
        """Mount it again; no program may have a file open there.

        What is mounted is a copy: where another mount namespace still holds the file system, the image would come back
        as it was shut down, and refuse to be read.
        """
        self._unmount()
        copy = self._image.with_suffix(".copy")
        _run("cp", "--sparse=always", str(self._image), str(copy))
        copy.replace(self._image)
        self._mount()

    def fill(self) -> None:
        """Take all the room there is."""
        with suppress(OSError), self._filler.open("ab", buffering=0) as filler:
            while filler.write(bytes(4_096)):
                pass

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it."""
        if self.real:
            self._unmount()
            self._image.unlink()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))

    def _unmount(self) -> None:
        for _ in range(100):
            if subprocess.run(["umount", str(self.folder)], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)  # a process that was killed is still ending
        _run("umount", "--lazy", str(self.folder))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
