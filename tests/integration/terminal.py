"""A terminal at which a person types one command, reads what it says, and answers."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence

from tests.waiting import GUARD_S, wait_until

_AT_ONCE = 65_536


class Terminal:
    """A command at a terminal of its own; what it has said so far is `said`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Type the command."""
        self.said = ""
        self._end, theirs = pty.openpty()
        self._process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # how a terminal says that nobody is at its other end any more
            while read := os.read(self._end, _AT_ONCE):
                self.said += read.decode(errors="replace")

    def reads(self, pattern: str) -> re.Match[str]:
        """Wait until it has said something like this."""
        wait_until(lambda: re.search(pattern, self.said) or not self._reading.is_alive(), f"it says {pattern}")
        found = re.search(pattern, self.said)
        assert found, self.said
        return found

    def types(self, line: str) -> None:
        """Type a line."""
        os.write(self._end, f"{line}\n".encode())

    def ends(self) -> int:
        """Wait for the command's end; return its exit code."""
        code = self._process.wait(GUARD_S)
        self._reading.join(GUARD_S)
        os.close(self._end)
        return code
