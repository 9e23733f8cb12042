"""Programs that an action runs: each below a guard of its own, with nothing of the agent's but its user.

1. No shell, no descriptor and no variable of the agent's; the folder is `/`, the umask 077. Its standard input is
   nothing, or a file that an installer reads, or a pipe that holds all that it is to read before it starts: so nobody
   waits for what it does not read.
2. The guard (`program_guard.py`) sets limits before the program begins, and ends it with all that it leaves behind:
   when it has ended, when it is told to, or when the agent is gone. Nothing of the agent's runs between fork and exec,
   for the agent has threads.
3. Nothing here waits. `look` reads what there is, up to `ACTION_READ_BYTES`, and keeps the output's beginning.
4. A guard that does not end within `_GRACE_US` of being told to is killed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters import program_guard
from covey.core.actions.definition import Invocation, ProgramBounds
from covey.core.actions.results import NOT_STARTED
from covey.errors import ActionError
from covey.limits.actions import ACTION_READ_BYTES, MAXIMUM_ACTION_TASKS
from covey.ports import ProgramEnd

if TYPE_CHECKING:
    import subprocess

_RUN_COVEY = "import sys; sys.path.insert(0, sys.argv.pop(1)); from covey.cli.main import main; sys.exit(main())"
"""Names the package's folder itself: with `-I`, neither the environment nor the working directory can name another."""
_GRACE_US = 5_000_000
_PIECE = 65_536


def own_command(words: Sequence[str], state: Path) -> tuple[str, ...]:
    """Return the command line by which a child runs a command of this same Covey on a state."""
    package = str(Path(__file__).parents[2])
    return (sys.executable, "-I", "-c", _RUN_COVEY, package, *words, "--state", str(state))


class ChildPrograms:
    """Starts programs as children of this process; implements `ports.Programs`."""

    def start(self, invocation: Invocation, now_us: int) -> ChildProgram:
        """Start a program.

        Raises:
            ActionError: it is not there, or the machine has no room for one more process.
        """
        import subprocess  # 0.3 MiB, which an agent that does no action is spared

        argv, bounds = invocation.argv, invocation.bounds
        if not (Path(argv[0]).is_file() and os.access(argv[0], os.X_OK)):
            raise ActionError(f"{argv[0]} is not an executable program", NOT_STARTED)
        numbers = (os.getpid(), bounds.memory_bytes, bounds.time_us // 1_000_000 + 1, bounds.file_bytes)
        limits = map(str, (*numbers, MAXIMUM_ACTION_TASKS))
        try:
            with _readable(invocation) as stdin:
                process = subprocess.Popen(  # noqa: S603 - the owner's own program, its arguments checked, no shell
                    [*program_guard.command(), *limits, *argv],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=program_guard.ENVIRONMENT,
                    cwd="/",
                    umask=0o077,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            raise ActionError(f"{argv[0]} cannot be started: {error}", NOT_STARTED) from error
        return ChildProgram(process, bounds, now_us)


@contextmanager
def _readable(invocation: Invocation) -> Iterator[int]:
    """Open what a program is to read. The smallest pipe has room for its `stdin` (`MAXIMUM_ACTION_INPUT_BYTES`)."""
    content = invocation.stdin
    if not content:
        descriptor = os.open(invocation.stdin_path or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        return
    reading, writing = os.pipe()
    try:
        try:
            os.set_blocking(writing, False)
            if os.write(writing, content) < len(content):
                raise OSError(errno.ENOBUFS, "the input does not fit into a pipe")
        finally:
            os.close(writing)
        yield reading
    finally:
        os.close(reading)


class ChildProgram:
    """A program that runs; implements `ports.RunningProgram`."""

    def __init__(self, process: subprocess.Popen[bytes], bounds: ProgramBounds, now_us: int) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe = process.stdout
        self._output_bytes = bounds.output_bytes
        self._ends_at_us = now_us + bounds.time_us
        self._timed_out = False
        self._kept = bytearray()
        self._cut = False
        os.set_blocking(self._pipe.fileno(), False)

    def look(self, now_us: int) -> ProgramEnd | None:
        """Read what it has written, and see whether it is done; at its time, have it ended."""
        ended = self._process.poll() is not None
        self._read()
        if ended:
            return self._end()
        if now_us >= self._ends_at_us + _GRACE_US:
            self._process.kill()
        elif now_us >= self._ends_at_us and not self._timed_out:
            self._timed_out = True
            self._process.terminate()
        return None

    def stop(self) -> ProgramEnd:
        """End it now."""
        import subprocess

        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_US / 1e6)
        self._process.kill()
        self._process.wait()
        self._read()
        return self._end()

    def _end(self) -> ProgramEnd:
        self._pipe.close()
        return ProgramEnd(self._process.returncode, bytes(self._kept), cut=self._cut, timed_out=self._timed_out)

    def _read(self) -> None:
        for _ in range(ACTION_READ_BYTES // _PIECE):
            try:
                piece = os.read(self._pipe.fileno(), _PIECE)
            except BlockingIOError:
                return
            if not piece:
                return
            room = self._output_bytes - len(self._kept)
            self._kept += piece[:room]
            self._cut |= len(piece) > room
