"""A device of somebody else's as a child process: started, told to do something, killed and started again.

It serves `covey conformance`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from covey.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LAST_LINES = 5
_GRACE_S = 5.0
"""How long a program may take to end after SIGTERM."""


class ForeignDevice:
    """A command line in a process group of its own; what it prints goes to a log."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = list(command), log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it.

        Raises:
            UsageError: there is no such program.
        """
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - the person's own command line
                    self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise UsageError(
                    f"cannot start {self._command[0]}: {error.strerror}",
                    hint="after --, name the device's program and its arguments",
                ) from error

    def write_line(self, line: str) -> None:
        """Write a line to its standard input; a program that does not read it misses that."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    @property
    def ended(self) -> bool:
        """Whether it does not run."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """End it and its children with SIGKILL."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end; kill it if it does not."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def last_words(self) -> str:
        """Return what it printed last."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-_LAST_LINES:])
