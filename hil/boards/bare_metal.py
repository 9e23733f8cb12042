"""A board without a board, on bare metal: MicroPython for a Cortex-M3 in QEMU (MPS2, AN385), from Debian's sources.

It is MicroPython's own `qemu` port with LittleFS and with Covey's native module (`firmware_bridge/native`), and the
registers of UARTs, timer and watchdog in `mps2/`. Its 16 MiB of PSRAM are a file of the host's: the first one is flash
and survives whoever ends the machine; behind it the host leaves files for the next start, and a ROM file system.

Needs `arm-none-eabi-gcc` and `make` on the path.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mpremote.romfs import VfsRomWriter  # type: ignore[import-untyped]

from hil.boards import micropython_build
from hil.boards.drivers import BAUD, RUN_SECONDS_MAX, BoardError
from hil.boards.firmware_files import DEVICE
from hil.boards.runtimes import CACHE, qemu_system_arm
from hil.boards.serial_line import SerialLine

if TYPE_CHECKING:
    from collections.abc import Mapping

ARCHITECTURE = "armv7m"
HEAP_BYTES = 128 * 1024
_PSRAM_BYTES = 16 << 20
_LEFT_OFFSET = 1 << 20
_ROM_OFFSET = 8 << 20
_SEED_OFFSET = 15 << 20
_FROZEN = Path(__file__).parents[1] / "on_board" / "mps2"
_NATIVE = Path(__file__).resolve().parents[2] / "firmware_bridge" / "native"
_PROMPT = b">>> "
_TURN_SECONDS = 0.02


def build() -> Path:
    """Build the firmware, as far as it is not built yet, and return its ELF file.

    Raises:
        runtimes.MissingError: no compiler, or it failed.
    """
    return micropython_build.make(
        "MPS2_AN385",
        CACHE / "mps2",
        frozen=sorted(_FROZEN.glob("*.py")),
        march=ARCHITECTURE,
        settings={"MICROPY_HEAP_SIZE": HEAP_BYTES, "MICROPY_VFS_LFS2": 1, "USER_C_MODULES": _NATIVE},
    )


def _left(files: Mapping[str, bytes]) -> bytes:
    """Return files as `mps2/boot_mps2.py` reads them."""
    parts = [
        bytes([len(name)]) + name.encode() + len(data).to_bytes(4, "little") + data for name, data in files.items()
    ]
    return b"left" + b"".join(parts) + b"\0"


def _main(before: str) -> bytes:
    return before.encode() + (DEVICE / "main.py").read_bytes()


class Machine:
    """The processor with its memory.

    Args:
        folder: for the memory that survives, and for what the machine says at its prompt.
    """

    def __init__(self, folder: Path) -> None:
        self._firmware = build()
        self._memory = folder / "psram"
        with self._memory.open("wb") as memory:
            memory.truncate(_PSRAM_BYTES)
        self._log = folder / "board.log"
        self._log.touch()
        self._process: subprocess.Popen[bytes] | None = None

    def leave(self, files: Mapping[str, bytes]) -> None:
        """Have the next start write these files into its flash."""
        self._write(_LEFT_OFFSET, _left(files))

    def leave_rom(self, files: Mapping[str, bytes]) -> None:
        """Have it start with these files in its ROM file system, as `mpremote romfs deploy` writes one."""
        rom = VfsRomWriter()
        for name, content in files.items():
            rom.mkfile(name, content)
        self._write(_ROM_OFFSET, rom.finalise())

    def _write(self, offset: int, data: bytes) -> None:
        with self._memory.open("r+b") as memory:
            memory.seek(offset)
            memory.write(data)

    @property
    def alive(self) -> bool:
        """Say whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """Return what it wrote at its prompt since it exists."""
        return self._log.read_text(errors="replace")

    def start(self, line: str = "null") -> None:
        """Switch it on, with `line` as its second UART: another start of the same flash."""
        assert not self.alive
        self._write(_SEED_OFFSET, os.urandom(32))
        memory = f"memory-backend-file,id=psram,size={_PSRAM_BYTES},mem-path={self._memory},share=on"
        command = [
            "timeout", str(int(RUN_SECONDS_MAX)), *qemu_system_arm().command,
            "-machine", "mps2-an385,memory-backend=psram", "-object", memory, "-nographic", "-monitor", "none",
            "-semihosting", "-serial", "stdio", "-serial", line, "-kernel", str(self._firmware),
        ]  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the emulator that runtimes.py installs
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """Switch it off: RAM is gone, flash stays, as it is at this moment."""
        if self._process is not None:
            self._process.terminate()  # timeout hands it on
            self._process.wait()
            self._process = None

    def run(self, program: str, files: Mapping[str, bytes]) -> str:
        """Start with a program beside files, and return what it prints until its end.

        Raises:
            BoardError: it raised, or the machine stopped.
        """
        self.leave({**files, "main.py": program.encode()})
        self._log.write_bytes(b"")
        self.start()
        while _PROMPT not in self._log.read_bytes():
            if not self.alive:
                raise BoardError(self.said[-2000:])
            time.sleep(_TURN_SECONDS)
        printed = self.said.replace("\r\n", "\n").rpartition("MicroPython ")[0]
        self.kill()
        if "Traceback" in printed:
            raise BoardError(printed[-2000:])
        return printed


class BareMetalBoard:
    """The firmware on the machine, with the line that it hangs on: as `emulated_board.EmulatedBoard`.

    Args:
        folder: for its memory; the gateway's end of the line is `port` in it.
        modules: the firmware by file name.
        settings: of its `covey.json`.
        permille, seed: of the line.
        before: what is run before the firmware's `main.py`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        modules: Mapping[str, bytes],
        settings: Mapping[str, object] | None = None,
        permille: int = 0,
        seed: int = 1,
        before: str = "",
    ) -> None:
        self.machine = Machine(folder)
        uart = {"id": 1, "baud": BAUD}
        covey = json.dumps({"prompt_seconds": 0, "uart": uart, **(settings or {})}).encode()
        self.machine.leave({**modules, "main.py": _main(before), "covey.json": covey})
        self.line = SerialLine(folder / "port", baud=BAUD, permille=permille, seed=seed)

    def flash_rom(self, modules: Mapping[str, bytes], heap_bytes: int, before: str) -> None:
        """Have it start with the firmware in ROM, before what lies in its flash, and with so much heap.

        What is taken of the heap is taken in pieces, wherever there is room.
        """
        taken = f"heap = [bytearray(1024) for _ in range({(HEAP_BYTES - heap_bytes) // 1024})]\n"
        small = f"{taken}import sys\nsys.path.insert(0, '/rom')\n"
        self.machine.leave_rom(modules)
        self.machine.leave({"main.py": _main(small + before)})

    @property
    def port(self) -> Path:
        """What the gateway opens."""
        return self.line.port

    @property
    def alive(self) -> bool:
        """Say whether the machine runs."""
        return self.machine.alive

    @property
    def state(self) -> str:
        """Say whether the machine runs, and what it said: for whoever waits in vain."""
        return f"{'runs' if self.alive else 'has ended'}, and said {self.machine.said!r}"

    def start(self) -> None:
        """Switch it on."""
        self.machine.start(self.line.pty.name)

    def kill(self) -> None:
        """Switch it off: RAM is gone, flash stays."""
        self.machine.kill()

    def close(self) -> None:
        """Switch it off and take the line away."""
        self.kill()
        self.line.close()
