"""The few files of a board, each written whole or not at all.

A file is written under another name and then renamed: LittleFS and POSIX do that atomically, also when the power fails.
FAT removes the old file first, so a missing file is looked for under that other name.
"""

import os

_NEW = ".new"


class Files:
    """Implements what `core.Core` asks of a storage, in a folder."""

    def __init__(self, folder=""):
        self.folder = folder

    def read(self, name):
        """Return a file's bytes, or None where there is none."""
        for path in (self.folder + name, self.folder + name + _NEW):
            try:
                with open(path, "rb") as file:
                    return file.read()
            except OSError:
                pass
        return None

    def write(self, name, data):
        """Write a file, durably as far as the port can.

        Raises:
            OSError: the flash refused; the old file is still there.
        """
        path = self.folder + name
        with open(path + _NEW, "wb") as file:
            file.write(data)
        if hasattr(os, "sync"):
            os.sync()
        os.rename(path + _NEW, path)
        if hasattr(os, "sync"):
            os.sync()
