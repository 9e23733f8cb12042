"""`covey` commands without an interpreter's start for each: a process that has loaded everything forks for them.

1. What runs is `main`, in a process of its own: own pid, own environment and folder, own standard streams, its exit
   code, the signals that it gets. Only what an interpreter does before the first line is done once for all.
2. The server has no thread, no open database and no lock; what it holds, each command finds as after imports.
3. It ends with the process that started it: then the socket that both hold is closed.
4. Processes that this one starts find its server by their environment. The workers of a run of tests share one, which
   `share` starts before them: to load everything takes as long as two dozen commands.
5. Tests of the start itself (footprint, import time, an interrupted start) start `COVEY` by themselves.
"""

from __future__ import annotations

import ast
import atexit
import gc
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.waiting import GUARD_S

COVEY = [sys.executable, "-m", "covey.cli.main"]
_ROOT = Path(__file__).parents[1]
_SERVER = "WARM_SERVER"
"""In the environment: the path of the socket of another process's server."""
_USER = "WARM_USER"
"""In the environment of a command: the number of the user that it runs as."""
FIRST = "WARM_FIRST"
"""In the environment of a command: code that runs before it."""
_REQUEST_BYTES_MAX = 1 << 20


class WarmCovey:
    """A running command; what `Popen` says of one."""

    def __init__(
        self, words: Sequence[str], streams: Sequence[IO[bytes]], environment: Mapping[str, str], folder: Path
    ) -> None:
        """Start it with three standard streams."""
        self.args = [*COVEY, *words]
        self.returncode: int | None = None
        self._control, theirs = socket.socketpair()
        files = [stream.fileno() for stream in streams]
        request = json.dumps([words, dict(environment), str(folder)]).encode()
        assert len(request) < _REQUEST_BYTES_MAX
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES_MAX)
            server.connect(share())
            socket.send_fds(server, [request], [*files, theirs.fileno()])
        self._control.settimeout(GUARD_S)
        self.pid = int(self._line())

    def _line(self) -> bytes:
        """Receive a line, byte by byte: it is short."""
        line = b""
        while not line.endswith(b"\n"):
            byte = self._control.recv(1)
            if not byte:
                raise RuntimeError("the server of warm commands has ended")
            line += byte
        return line

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal."""
        if self.returncode is None:
            self._control.settimeout(timeout)
            try:
                self.returncode = int(self._line())
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._control.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.001)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it like a power cut."""
        self.send_signal(signal.SIGKILL)


class WarmDialogue(WarmCovey):
    """A running command, what a test says to it, and what it prints."""

    def __init__(self, words: Sequence[str], errors: IO[bytes], environment: Mapping[str, str] | None = None) -> None:
        """Start it in this process's folder, with its errors in a file."""
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.stdin: IO[str] = open(ours_in, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as long as the command
        self.stdout: IO[str] = open(ours_out, encoding="utf-8")  # noqa: PTH123, SIM115
        with open(theirs_in, "rb") as source, open(theirs_out, "wb") as output:  # noqa: PTH123 - they are numbers
            streams = (source, output, errors)
            super().__init__(words, streams, os.environ if environment is None else environment, Path.cwd())


def run(
    words: Sequence[str],
    feed: str | bytes = "",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    user: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, in a folder, as a user; without an environment, in this process's."""
    environment = os.environ if environment is None else environment
    environment = environment if user is None else {**environment, _USER: str(user)}
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(feed.encode() if isinstance(feed, str) else feed)
        stdin.seek(0)
        streams = (stdin, stdout, stderr)
        command = WarmCovey(words, streams, environment, folder or Path.cwd())
        try:
            code = command.wait(GUARD_S)
        except BaseException:
            command.kill()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(command.args, code, stdout.read().decode(), stderr.read().decode())


def is_shared() -> bool:
    """Say whether this process uses the server of another one that started it."""
    return _SERVER in os.environ


@cache
def share() -> str:
    """Start this process's server, unless another one has; return the path of its socket."""
    if is_shared():
        return os.environ[_SERVER]
    folder = tempfile.mkdtemp(prefix="warm-covey-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(128)  # who connects before it has loaded waits
        ours, theirs = socket.socketpair()
        _lasting.append(ours)
        with theirs:
            files = [listener.fileno(), theirs.fileno()]
            words = [sys.executable, "-m", "tests.warm_covey", *map(str, files)]
            subprocess.Popen(words, cwd=_ROOT, pass_fds=files)
    os.environ[_SERVER] = path
    return path


_lasting: list[socket.socket] = []
"""What is open as long as this process lives."""


def _serve(listener: socket.socket, starter: socket.socket) -> list[str]:
    """Fork for each request; return, in the process that is to run it, its words. Ends with who started it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for the commands
    while True:
        ready, _, _ = select.select([listener, starter], [], [])
        if starter in ready:
            os._exit(0)
        with listener.accept()[0] as asks:
            request, files, _, _ = socket.recv_fds(asks, _REQUEST_BYTES_MAX, 4)
        if not request:
            continue  # it ended before it had asked
        if _USER.encode() in request:
            _load_late_imports()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            starter.close()
            _wait_for_the_command(files[3])
            words, environment, folder = json.loads(request)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            _take_streams(files)
            exec(os.environ.pop(FIRST, ""), {})
            _become(os.environ.pop(_USER, None))
            return list(words)
        for file in files:
            os.close(file)


def _wait_for_the_command(control: int) -> None:
    """Fork once more. The child returns; the parent tells its number and, at its end, its exit code."""
    command = os.fork()
    if command == 0:
        return
    os.write(control, b"%d\n" % command)
    for file in range(3):
        os.close(file)  # they are the server's
    _close_others(control)
    _, status = os.waitpid(command, 0)
    with suppress(OSError):
        os.write(control, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _close_others(kept: int) -> None:
    os.closerange(3, kept)
    os.closerange(kept + 1, kept + 64)


def _take_streams(files: list[int]) -> None:
    """Make the files the standard streams, as an interpreter opens them."""
    for standard, file in enumerate(files[:3]):
        os.dup2(file, standard)
    for file in files:
        os.close(file)
    terminal = os.isatty(1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False, buffering=1 if terminal else -1)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)  # noqa: SIM115


def _become(user: str | None) -> None:
    """Run as another user, without groups; all that a command needs is loaded, so the user need not read it."""
    if user is not None:
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))


@cache
def _load_late_imports() -> None:
    """Import what functions of Covey import: another user may not be able to read the interpreter's library."""
    import covey

    for folder in covey.__path__:
        for source in Path(folder).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_bytes())):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module:
                    names = [node.module]
                for name in names:
                    with suppress(ImportError):
                        import_module(name)


def _load() -> None:
    """Import what commands import, some of it only when they run."""
    import covey

    for module in pkgutil.walk_packages(covey.__path__, "covey."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                import_module(module.name)
    gc.collect()
    gc.freeze()  # or each command would copy these pages to count references


if __name__ == "__main__":
    _load()
    _words = _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
    sys.argv = ["covey", *_words]
    sys.exit(sys.modules["covey.cli.main"].main(_words))
