"""Count Cortex-M0 instructions and heap for the boards' cryptography: `python -m bench.boards.crypto_instructions`.

Exact counts, not times: see `crypto_firmware`. Beside ours stands, in the same firmware, the same interface in plain
Python with big integers, which is what a port without viper gets, and the native module in C. The reaches are those
that the project has set itself for viper; the status is 1 if one is missed.

Not measured: cycles (flash wait states and two-cycle loads come on top), a real board.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bench.boards import crypto_firmware
from hil.boards import runtimes

if TYPE_CHECKING:
    from pathlib import Path

# Millions of instructions: X25519, Ed25519 signing in constant time, XSalsa20-Poly1305; messages of 256 bytes.
TARGETS = {"scalarmult": 20.0, "sign": 15.0, "secretbox": 0.6}
HEAP_KIB_TARGET = 24
TIMER_STEP = 63
"""The timer counts in steps of 62.5 instructions: QEMU 7 of Debian 12 may end a count one step early or late."""
OPERATIONS = ("scalarmult", "scalarmult_base", "sign", "verify", "sha512", "secretbox", "secretbox_open")
IMPLEMENTATIONS = ("viper", "plain", "native")
MODULE = "import crypto_on_board as board; board."


def counts(firmware: Path, implementation: str) -> dict[str, float]:
    """Return millions of instructions by operation."""
    lines = crypto_firmware.run(firmware, f"{MODULE}measure({implementation!r})")
    values = dict(line.split() for line in lines)
    if values.get("verified") != "True":
        raise RuntimeError("\n".join(lines))
    loop = int(values["loop-3000"]) - int(values["loop-1000"])
    if min(loop % 2000, -loop % 2000) > TIMER_STEP:  # a loop's body is a whole number of instructions, give or take one
        raise RuntimeError(f"2000 turns of a loop took {loop}")
    nothing = int(values["nothing"])
    return {name: (int(values[name]) - nothing) / 1e6 for name in OPERATIONS}


def spreads(firmware: Path, implementation: str) -> dict[str, float]:
    """Return by how many per cent the count differs between keys, each at its best of four."""
    lines = crypto_firmware.run(firmware, f"{MODULE}spread({implementation!r})")
    return {name: 100 * (int(most) / int(fewest) - 1) for name, fewest, most in (line.split() for line in lines)}


def smallest_heap_kib(firmware: Path, *, frozen: bool) -> int:
    """Return the smallest heap in which everything works, by trying."""
    for kib in range(6, 65):
        if crypto_firmware.run(firmware, f"{MODULE}fits({kib * 1024}, {frozen})") == ["fits True"]:
            return kib
    raise RuntimeError("more than 64 KiB")


def main(*, short: bool = False) -> int:
    """Measure, print, compare; where it is to be short, only what every operation takes."""
    try:
        firmware = crypto_firmware.build()
    except runtimes.MissingError as error:
        print(f"error: {error}\nhint: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi make", file=sys.stderr)
        return 2
    counted = {name: counts(firmware, name) for name in IMPLEMENTATIONS}
    print("million Cortex-M0 instructions, messages of 256 bytes")
    print(f"{'':16}{''.join(f'{name:>9}' for name in IMPLEMENTATIONS)}{'reach':>9}")
    missed = []
    for name in OPERATIONS:
        target = TARGETS.get(name)
        row = "".join(f"{each[name]:9.3f}" for each in counted.values())
        print(f"{name:16}{row}{'' if target is None else f'{target:9.1f}'}")
        if target is not None and counted["viper"][name] > target:
            missed.append(name)
    if short:
        return 1 if missed else 0
    print(f"{'spread over keys, %':22}{''.join(f'{name:>9}' for name in IMPLEMENTATIONS)}")
    spread = {name: spreads(firmware, name) for name in IMPLEMENTATIONS}
    for name in spread["viper"]:
        print(f"{name:22}{''.join(f'{each[name]:9.4f}' for each in spread.values())}")
    frozen, loaded = (smallest_heap_kib(firmware, frozen=frozen) for frozen in (True, False))
    print(f"smallest heap: {frozen} KiB with the code in flash, {loaded} KiB with .mpy files loaded into it")
    if frozen > HEAP_KIB_TARGET:
        missed.append("heap")
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
