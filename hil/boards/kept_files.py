"""What lies on a real board is kept while tests use it, and put back: identity, group, firmware and settings.

1. Kept before anything is written, in a private folder on this machine, since `identity.key` is a secret.
2. A folder that is there already is of a run that was killed: it holds what the board had, and is not replaced.
3. Put back, read once more, and only then removed here. What the tests have left on the board goes.
4. Folders on a board are left alone, as the tests write none.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Protocol

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "boards"

_READ = """
import binascii, os
for name in os.listdir():
    try:
        file = open(name, 'rb')
    except OSError:
        continue
    print('file', name)
    part = file.read(128)
    while part:
        print('hex', binascii.hexlify(part).decode())
        part = file.read(128)
    file.close()
"""
"""For MicroPython. A folder cannot be opened."""


class Prompt(Protocol):
    """A board at its prompt."""

    def mpremote(self, *words: str) -> str:
        """Have `mpremote` do something with the board, and return what it prints."""


class KeptFiles:
    """The files of one board.

    Args:
        board: at its prompt.
        folder: of this board alone.
    """

    def __init__(self, board: Prompt, folder: Path) -> None:
        self._board, self._folder = board, folder

    def keep(self) -> None:
        """Keep what the board holds, unless an earlier run has (rule 2)."""
        if self._folder.is_dir():
            return
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self._folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        for name, content in self._on_board().items():
            (part / name).touch(mode=0o600)
            (part / name).write_bytes(content)
        part.rename(self._folder)

    def put_back(self) -> None:
        """Have the board hold what it held.

        Raises:
            OSError: it does not; what was kept stays in the folder.
        """
        kept = {path.name: path.read_bytes() for path in sorted(self._folder.iterdir())}
        there = self._on_board()
        for name in there.keys() - kept.keys():
            self._board.mpremote("exec", f"import os; os.remove({name!r})")
        copies: list[str] = []
        for name, content in kept.items():
            if there.get(name) != content:
                copies += ["+", "fs", "cp", str(self._folder / name), f":{name}"]
        if copies:
            self._board.mpremote(*copies[1:])
        if self._on_board() != kept:
            raise OSError(f"the board does not hold what it held: {self._folder} has its files")
        shutil.rmtree(self._folder)

    def _on_board(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        name = None
        for kind, text in re.findall(r"^(file|hex) (.+)$", self._board.mpremote("exec", _READ), re.MULTILINE):
            if kind == "file":
                name = text
                if Path(name).name != name:
                    raise OSError(f"a file on the board is called {name!r}")
                found[name] = b""
            elif name is not None:
                found[name] += bytes.fromhex(text)
        return found
