"""One program in a transient systemd unit, which root runs for the agent: user, sandbox, bounds, end.

1. `systemd-run` and `systemctl` use systemd's private socket: no message bus is needed.
2. There is one such unit. A program left by an earlier agent is ended before another one begins. Its remaining
   processes end with it; everything ends when its time is up, when the agent asks or is gone, and when this process is
   gone (`BindsTo=`), in whatever way.
3. The program writes into a pipe in this process's own folder: `ACTION_READ_BYTES` at a time are read, and the
   beginning is kept. Its input is a file of that folder, which only root may open, and which exists only as long as the
   unit. It holds nothing else of this process's, and no socket of the agent's.
4. It may read what its user may, and write only what the definition names.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from covey.adapters.files import replace_file
from covey.core.actions.definition import Invocation, UnitRights
from covey.core.actions.results import NOT_STARTED
from covey.errors import ActionError
from covey.limits.actions import ACTION_READ_BYTES, MAXIMUM_ACTION_TASKS
from covey.ports import ProgramEnd

UNIT = "covey-ordered.service"

_SYSTEMD_RUN, _SYSTEMCTL = "/usr/bin/systemd-run", "/usr/bin/systemctl"
_PIECE = 65_536
_ENDED_BY_ITSELF = "1"
"""systemd's ExecMainCode (CLD_EXITED); others are signals."""
_SANDBOX = (
    *("NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateMounts=yes"),
    *(
        "PrivateIPC=yes",
        "ProtectProc=invisible",
        "ProtectHostname=yes",
        "ProtectClock=yes",
        "ProtectKernelTunables=yes",
    ),
    *("ProtectKernelModules=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes", "RestrictNamespaces=yes"),
    *("RestrictRealtime=yes", "RestrictSUIDSGID=yes", "LockPersonality=yes", "KeyringMode=private", "RemoveIPC=yes"),
    *("SystemCallArchitectures=native", "SystemCallErrorNumber=EPERM", "DevicePolicy=closed", "UMask=0077"),
)
_BOUNDS = (
    *("LimitCORE=0", "MemorySwapMax=0", f"TasksMax={MAXIMUM_ACTION_TASKS}", "OOMScoreAdjust=1000", "CPUWeight=20"),
    *("KillSignal=SIGKILL", "TimeoutStopSec=5"),
)


class TransientUnit:
    """Runs programs, one after the other."""

    def __init__(self, folder: Path, bound_to: str) -> None:
        """Take an empty folder that nobody else may enter, and the unit with which a program's own ends."""
        self._pipe, self._input = folder / "output", folder / "input"
        self._bound_to = bound_to
        os.mkfifo(self._pipe, 0o600)

    def run(self, invocation: Invocation, asked_by: socket.socket) -> ProgramEnd:
        """Run a program to its end, or until the requester closes the connection.

        Raises:
            ActionError: it could not be started.
        """
        if not (Path(invocation.argv[0]).is_file() and os.access(invocation.argv[0], os.X_OK)):
            raise ActionError(f"{invocation.argv[0]} is not an executable program", NOT_STARTED)
        _clear()
        if invocation.stdin:
            self._offer(invocation.stdin)
        # Opened for writing, too: so it never ends, whoever has it open there.
        output = _Output(os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), invocation.bounds.output_bytes)
        try:
            code, said, asked = _started([*self._command(invocation), *_words(invocation.argv)], output, asked_by)
            output.read()
            return _end(code, said, output, asked=asked)
        finally:
            os.close(output.descriptor)
            _clear()
            self._input.unlink(missing_ok=True)

    def _offer(self, content: bytes) -> None:
        try:
            replace_file(self._input, content, 0o600)
        except OSError as error:
            raise ActionError(f"its input file cannot be written: {error.strerror}", NOT_STARTED) from error

    def _command(self, invocation: Invocation) -> list[str]:
        memory, time_us = invocation.bounds.memory_bytes, invocation.bounds.time_us
        properties = [
            *(*_SANDBOX, *_BOUNDS, *_opened(invocation.rights)),
            *(f"BindsTo={self._bound_to}", f"After={self._bound_to}"),
            # Where the machine goes down, perhaps by this, the agent ends first; the next one finds out.
            *("DefaultDependencies=no", "IgnoreOnIsolate=yes", "Before=covey.service covey-collector.service"),
            f"TimeoutStartSec={time_us}us",
            *(f"MemoryMax={memory}", f"LimitAS={memory}", f"LimitFSIZE={invocation.bounds.file_bytes}"),
            *([f"StandardInput=file:{self._input}"] if invocation.stdin else []),
            *(f"StandardOutput=file:{self._pipe}", "StandardError=inherit", "Environment=LANG=C.UTF-8 HOME=/"),
        ]
        # "oneshot": systemd-run then waits for its end.
        command = [_SYSTEMD_RUN, "--quiet", "--service-type=oneshot", f"--unit={UNIT}"]
        command.append(f"--description=Covey: {invocation.action}, as an operator ordered")
        return [*command, *(f"--property={each}" for each in properties), "--"]


class _Output:
    """The beginning of what a program writes."""

    def __init__(self, descriptor: int, kept_bytes: int) -> None:
        self.descriptor = descriptor
        self.kept = bytearray()
        self.cut = False
        self._kept_bytes = kept_bytes

    def read(self) -> None:
        """Read what is there, up to a bound: more than a pipe holds."""
        for _ in range(ACTION_READ_BYTES // _PIECE):
            try:
                piece = os.read(self.descriptor, _PIECE)
            except BlockingIOError:
                return
            room = self._kept_bytes - len(self.kept)
            self.kept += piece[:room]
            self.cut |= len(piece) > room


def _started(command: list[str], output: _Output, asked_by: socket.socket) -> tuple[int, str, bool]:
    """Have systemd run it, and read on until that has ended; return systemd-run's exit code, what it said, and whether
    the end was asked for."""
    asked = False
    with (
        subprocess.Popen(  # noqa: S603 - the words are root's own, and arguments that were checked
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as running,
        selectors.DefaultSelector() as selector,
    ):
        ended = os.pidfd_open(running.pid)
        for each in (ended, output.descriptor, asked_by):
            selector.register(each, selectors.EVENT_READ)
        while running.poll() is None:
            for key, _ in selector.select():
                if key.fileobj == output.descriptor:
                    output.read()
                elif key.fileobj is asked_by:  # it says no more, or has gone
                    asked = True
                    selector.unregister(asked_by)
                    _systemctl("stop", UNIT)
        os.close(ended)
        _systemctl("stop", UNIT)  # until what it left behind has gone, too
        assert running.stderr is not None
        return running.returncode, " ".join(running.stderr.read(1_024).split()), asked


def _end(code: int, said: str, output: _Output, *, asked: bool) -> ProgramEnd:
    """Return the end that systemd recorded for a failed unit; it forgets successful ones."""
    timed_out = False
    status: int | None = 0
    if code != 0:
        shown = _systemctl("show", "--property=LoadState,Result,ExecMainCode,ExecMainStatus", UNIT)
        found = dict(line.partition("=")[::2] for line in shown.splitlines())
        timed_out = found.get("Result") == "timeout"
        status = _status(found)
        if status is None and said:  # else it was begun, and nobody knows any more
            raise ActionError(f"systemd did not start it: {said[:160]}", NOT_STARTED)
        if status is None and asked:
            status = -signal.SIGKILL
    return ProgramEnd(status, bytes(output.kept), cut=output.cut, timed_out=timed_out)


def _status(shown: Mapping[str, str]) -> int | None:
    """Return an exit code, or a signal's number below 0; None if systemd has forgotten it."""
    kind, status = shown.get("ExecMainCode", "0"), int(shown.get("ExecMainStatus") or 0)
    if shown.get("LoadState") == "not-found" or kind == "0":
        return None
    return status if kind == _ENDED_BY_ITSELF else -status


def _clear() -> None:
    _systemctl("stop", UNIT)
    _systemctl("reset-failed", UNIT)


def _systemctl(*words: str) -> str:
    done = subprocess.run(  # noqa: S603 - words of this module
        [_SYSTEMCTL, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def _words(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield a command line's words for systemd, which would expand $NAME."""
    yield argv[0]
    yield from (word.replace("$", "$$") for word in argv[1:])


def _opened(rights: UnitRights) -> Iterator[str]:
    yield f"User={rights.user}" if rights.user else "DynamicUser=yes"
    if rights.groups:
        yield f"SupplementaryGroups={' '.join(rights.groups)}"
    if rights.writes:
        yield f"ReadWritePaths={' '.join(rights.writes)}"
    yield f"PrivateDevices={'no' if rights.devices else 'yes'}"
    yield from (f"DeviceAllow={device} rw" for device in rights.devices)
    if rights.network:
        yield "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK"
    else:
        yield from ("PrivateNetwork=yes", "RestrictAddressFamilies=AF_UNIX")
    named = " ".join(rights.capabilities)
    yield from (f"CapabilityBoundingSet={named}", f"AmbientCapabilities={named}")
    if not rights.capabilities:  # which say what it may; else calls that need one are none of its business
        yield from ("SystemCallFilter=@system-service", "SystemCallFilter=~@privileged @resources")
