"""MicroPython for a Cortex-M0 in QEMU, built from Debian's source package: where instructions can be counted exactly.

The port is MicroPython's own `qemu`, board MICROBIT, with the Thumb emitter switched on. QEMU runs one instruction per
nanosecond of virtual time (`-icount shift=0`), which the nRF51's timer counts in steps of 62.5. Instructions are not
cycles: a load takes two on a real M0.

Needs `arm-none-eabi-gcc` and `make` on the path; the rest comes into `.cache/micropython` like the other runtimes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from hil.boards import micropython_build, runtimes
from hil.boards.firmware_files import board_modules
from hil.conftest import cross_compile

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "firmware_bridge" / "native"
ON_BOARD = HERE / "crypto_on_board.py"
FLAGS = "-DMICROPY_EMIT_THUMB_ARMV7M=0 -DMICROPY_EMIT_INLINE_THUMB_FLOAT=0"
HEAP_BYTES = 160 * 1024
QEMU = ("-M", "microbit", "-global", "nrf51-soc.flash-size=1048576", "-global", "nrf51-soc.sram-size=262144",
        "-nographic", "-monitor", "none", "-serial", "stdio", "-semihosting", "-icount", "shift=0")  # fmt: skip
PROMPT = b">>> "
ANSWER_SECONDS_MAX = 120


def _artefacts(target: Path) -> Path:
    """Write the modules' `.mpy` files as plain bytes into a module of its own."""
    artefacts = {}
    for source in _modules():
        viper = "@micropython.viper" in source.read_text()
        artefacts[f"{source.stem}.mpy"] = cross_compile("armv6m" if viper else "", source)
    target.write_text(
        "".join(f"FILE_{i} = {data!r}\n" for i, data in enumerate(artefacts.values()))
        + "def find(name):\n"
        + "".join(f"    if name == {name!r}:\n        return FILE_{i}\n" for i, name in enumerate(artefacts))
    )
    return target


def _modules() -> list[Path]:
    return [source for source in board_modules() if source.stem.startswith("tweetnacl")]


def build() -> Path:
    """Build the firmware and return its ELF file.

    Raises:
        runtimes.MissingError: no compiler, or it failed.
    """
    folder = runtimes.CACHE / "firmware"
    folder.mkdir(parents=True, exist_ok=True)
    return micropython_build.make(
        "MICROBIT",
        folder,
        frozen=[*_modules(), ON_BOARD, _artefacts(folder / "crypto_artefacts.py")],
        march="armv6m",
        settings={"MICROPY_HEAP_SIZE": HEAP_BYTES, "CFLAGS_EXTRA": FLAGS, "USER_C_MODULES": NATIVE},
    )


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
