"""A ROM file system for a port that has none, such as unix: MicroPython's `VfsRom`, over a file beside the flash."""

import sys

import vfs

_SIZE = 256 * 1024
_FILE = "../rom"


def _read():
    try:
        with open(_FILE, "rb") as file:  # noqa: PTH123 - boards have no pathlib
            return bytearray(file.read())
    except OSError:
        return bytearray(_SIZE)


class WithRom:
    """MicroPython's `vfs`, and its `rom_ioctl` with one segment that is written in blocks of 4 KiB."""

    mount, umount, VfsRom = vfs.mount, vfs.umount, vfs.VfsRom
    segment = _read()

    @classmethod
    def rom_ioctl(cls, command, *arguments):
        """Do what MicroPython's documentation of `vfs.rom_ioctl` says of a command."""
        if command == 1:
            return 1
        if command == 2:
            return memoryview(cls.segment)
        if command == 3:
            return 4
        if command == 4:
            _, offset, data = arguments
            cls.segment[offset : offset + len(data)] = data
        elif command == 5:
            with open(_FILE, "wb") as file:  # noqa: PTH123 - boards have no pathlib
                file.write(cls.segment)
        elif command == 6:
            return 4096
        return 0


sys.modules["vfs"] = WithRom
if WithRom.segment[:3] == b"\xd2\xcd\x31":
    vfs.mount(vfs.VfsRom(memoryview(WithRom.segment)), "/rom")
    sys.path.append("/rom")
