"""A board on a serial line without a board: the firmware on real MicroPython for i386, in a process of its own.

What its flash would hold lies in a folder, and survives `kill`. The heap is a hard limit.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from mpremote.romfs import VfsRomWriter  # type: ignore[import-untyped]

from hil.boards import runtimes
from hil.boards.firmware_files import DEVICE, sources
from hil.boards.serial_line import SerialLine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEAP_KIB = 64
_PATH = "import sys\nsys.path.append('.')\n"
_ROM = """
import vfs
image = bytearray({size})
with open("{path}", "rb") as file:
    file.readinto(image)
vfs.mount(vfs.VfsRom(image), "/rom")
sys.path.insert(0, "/rom")
"""
_MAIN = (DEVICE / "main.py").read_text(encoding="utf-8")


def _rom_image(modules: Mapping[str, bytes]) -> bytes:
    """Return a ROM file system, as `covey mcu flash` writes one."""
    writer = VfsRomWriter()
    for name, content in modules.items():
        writer.mkfile(name, content)
    return bytes(writer.finalise())


class EmulatedBoard:
    """The board, with the line that it hangs on.

    Args:
        folder: for its flash; the gateway's end of the line is `port` in it.
        settings: of its `covey.json`, over those of a quick board without a prompt.
        modules: the firmware by file name; None for its sources, which cost heap when they are compiled.
        rom: whether they lie in a ROM file system, where they take no heap: it is given to this port's in addition.
        before: a program that runs before the firmware does: what a port has, and this one has not.
        baud, permille, seed: of the line.

    Raises:
        hil.boards.runtimes.MissingError: MicroPython cannot be had here.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, object] | None = None,
        modules: Mapping[str, bytes] | None = None,
        heap_kib: int = HEAP_KIB,
        rom: bool = False,
        before: str = "",
        tool: runtimes.Tool | None = None,
        baud: int | None = 115_200,
        permille: int = 0,
        seed: int = 1,
    ) -> None:
        self._tool = tool or runtimes.unix32()
        self.flash = folder / "flash"
        self.flash.mkdir(mode=0o700, parents=True, exist_ok=True)
        if rom:
            image = _rom_image(modules or sources())
            (folder / "rom.image").write_bytes(image)
            heap_kib += -(-len(image) // 1024)
            before = _ROM.format(path=folder / "rom.image", size=len(image)) + before
        else:
            for name, data in (modules or sources()).items():
                (self.flash / name).write_bytes(data)
        (self.flash / "covey.json").write_text(json.dumps({"prompt_seconds": 0, **(settings or {})}))
        (folder / "start.py").write_text(_PATH + before + _MAIN)
        self._command = [*self._tool.command, "-X", f"heapsize={heap_kib}k", str(folder / "start.py")]
        self._log = folder / "board.log"
        self.line = SerialLine(folder / "port", baud=baud, permille=permille, seed=seed)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> Path:
        """What the gateway opens."""
        return self.line.port

    @property
    def alive(self) -> bool:
        """Say whether the firmware runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """Return what the firmware wrote to standard error: nothing, unless it raised."""
        return self._log.read_text(errors="replace")

    @property
    def state(self) -> str:
        """Say whether the firmware runs, and what it said: for whoever waits in vain."""
        ended = None if self._process is None else self._process.poll()
        if self._process is None:
            doing = "is off"
        elif ended is None:
            doing = "runs"
        else:  # where a board restarts, this process ends
            doing = "asked for a restart" if ended == 0 else f"ended with status {ended}"
        return f"{doing}, and said {self.said!r}"

    def file(self, name: str) -> bytes:
        """Return a file of its flash."""
        return (self.flash / name).read_bytes()

    def start(self) -> None:
        """Switch it on."""
        assert not self.alive
        end = self.line.pty.theirs
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the emulator that runtimes.py installs
                self._command, cwd=self.flash, stdin=end, stdout=end, stderr=log
            )

    def kill(self) -> None:
        """Switch it off: RAM is gone, flash stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Switch it off and take the line away."""
        self.kill()
        self.line.close()
