"""What MPS2 starts: LittleFS on memory that survives the processor, files that the host has left, and `main.py`."""

# ruff: noqa: ARG002 - arguments are MicroPython's

import sys

import vfs
from uctypes import bytearray_at

_FLASH, _FLASH_BYTES, _BLOCK_BYTES = 0x21000000, 1 << 20, 4096
_LEFT = 0x21100000  # b"left", then length of name, name, length (4 bytes), data; a length of 0 ends it
_ROM, _ROM_BYTES = 0x21800000, 1 << 20


class _Flash:
    """A block device as `vfs.VfsLfs2` wants it."""

    def __init__(self):
        self._memory = memoryview(bytearray_at(_FLASH, _FLASH_BYTES))

    def readblocks(self, block, buffer, offset=0):
        at = block * _BLOCK_BYTES + offset
        buffer[:] = self._memory[at : at + len(buffer)]

    def writeblocks(self, block, buffer, offset=0):
        at = block * _BLOCK_BYTES + offset
        self._memory[at : at + len(buffer)] = buffer

    def ioctl(self, operation, argument):
        if operation == 4:
            return _FLASH_BYTES // _BLOCK_BYTES
        if operation == 5:
            return _BLOCK_BYTES
        return 0


def _mount():
    flash = _Flash()
    try:
        vfs.mount(vfs.VfsLfs2(flash, mtime=False), "/")
    except OSError:
        vfs.VfsLfs2.mkfs(flash)
        vfs.mount(vfs.VfsLfs2(flash, mtime=False), "/")


def _take_what_is_left():
    mark = bytearray_at(_LEFT, 4)
    if mark != b"left":
        return
    at = _LEFT + 4
    while True:
        (length,) = bytearray_at(at, 1)
        if not length:
            break
        name = bytearray_at(at + 1, length).decode()
        at += 1 + length
        length = int.from_bytes(bytearray_at(at, 4), "little")
        with open(name, "wb") as file:  # noqa: PTH123 - boards have no pathlib
            file.write(bytearray_at(at + 4, length))
        at += 4 + length
    mark[:] = b"took"


def _mount_rom():
    """As `py/runtime.c` does where a port has `vfs.rom_ioctl`."""
    rom = bytearray_at(_ROM, _ROM_BYTES)
    if rom[:3] == b"\xd2\xcd\x31":
        vfs.mount(vfs.VfsRom(memoryview(rom)), "/rom")
        sys.path.append("/rom")


_mount()
_take_what_is_left()
sys.path[:] = ["", ".frozen"]
_mount_rom()
del sys.modules["boot_mps2"]
import main  # noqa: E402, F401
