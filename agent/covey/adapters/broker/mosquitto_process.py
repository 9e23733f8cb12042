"""Mosquitto as a child of this process: start, stop, and verified reload.

1. Its log goes to our stderr, line by line, and shows when it runs and when it has reloaded its files.
2. It loses a SIGHUP that arrives while it still handles one, so a reload is requested again until its log shows it.
3. It does not outlive us: the kernel ends it when this process is gone, however that ended. The kernel also limits its
   memory, independently of its own limit.
4. What no disk may hold, its key above all, it reads from memory: files that it inherits, and opens by their number.
5. Log lines about subscriptions are counted (`mosquitto_log`), and not passed on: there is one for each.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from covey.adapters.broker.mosquitto_configuration import PROGRAM_PLACES
from covey.adapters.broker.mosquitto_log import SessionWatch, SubscriptionWatch
from covey.errors import ConfigurationError, TransientError
from covey.limits.broker import BROKER_DATA_BYTES

_RUNNING, _RELOADED = b" running", b"Reloading config"
_PR_SET_PDEATHSIG = 1
_RETRY_S = 1.0
_DEADLINE_S = 60.0
_LAST_LINES = 5


def find_mosquitto() -> Path:
    """Return the program.

    Raises:
        ConfigurationError: it is not installed.
    """
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *PROGRAM_PLACES])
    found = shutil.which("mosquitto", path=search)
    if found is None:
        raise ConfigurationError("mosquitto is not installed", hint="sudo apt install mosquitto")
    return Path(found)


class MemoryFile:
    """A file that is in memory alone, for this process and those that inherit it, as long as any of them runs."""

    def __init__(self, content: bytes) -> None:
        self.descriptor = os.memfd_create("covey", os.MFD_CLOEXEC)
        os.fchmod(self.descriptor, 0o600)
        self.fill(content)

    @property
    def path(self) -> str:
        """Where each of these processes opens it."""
        return f"/proc/self/fd/{self.descriptor}"

    def fill(self, content: bytes) -> None:
        """Replace the content; nobody reads it at that moment."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, content, 0)


class MosquittoProcess:
    """One process of mosquitto, from its start to its end; `others` are files that its configuration names."""

    def __init__(self, program: Path, configuration: MemoryFile, others: Sequence[MemoryFile]) -> None:
        self._running = self._reloads = 0
        self._last: list[str] = []
        self._watch, self._sessions = SubscriptionWatch(), SessionWatch()
        self._overdrawn: list[str] = []
        self._news = threading.Condition()
        libc = ctypes.CDLL(None)

        def dies_with_us() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            resource.setrlimit(resource.RLIMIT_DATA, (BROKER_DATA_BYTES, BROKER_DATA_BYTES))

        self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
            [str(program), "-c", configuration.path],
            env={name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"},  # we are the service
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[each.descriptor for each in (configuration, *others)],
            process_group=0,  # Ctrl-C is ours to handle: its queue is saved at a SIGTERM
            preexec_fn=dies_with_us,  # noqa: PLW1509 - no other thread runs yet
        )
        self._reader = threading.Thread(target=self._read, name="mosquitto's log", daemon=True)
        self._reader.start()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    @property
    def must_restart(self) -> bool:
        """Whether it has freed a session that it still lists: start it again before it touches that memory."""
        return self._sessions.is_dangling

    def accounts_to_shut_out(self, seconds_max: float) -> list[str]:
        """Wait for accounts that subscribe to more than they may; return those that have since the last call.

        Return at once where it has ended, or must be started again.
        """
        with self._news:
            self._news.wait_for(lambda: self._overdrawn or self.must_restart or self.ended, seconds_max)
            found, self._overdrawn = self._overdrawn, []
            return found

    def wait_until_running(self) -> None:
        """Return when it has opened its listener.

        Raises:
            TransientError: it ended, or did not in time; the message quotes its log.
        """
        self._wait(lambda: self._running > 0, "does not start")

    def reload(self) -> None:
        """Have it read passwords, ACL and certificates again, and return when it has begun to.

        Clients are not served before it is done.

        Raises:
            TransientError: it ended, or did not in time.
        """
        before, asked = self._reloads, -math.inf

        def has_reloaded() -> bool:
            nonlocal asked
            if self._reloads > before:
                return True
            if time.monotonic() > asked + _RETRY_S:
                self._process.send_signal(signal.SIGHUP)
                asked = time.monotonic()
            return False

        self._wait(has_reloaded, "does not read its files again")

    def stop(self) -> None:
        """End it gently: it saves sessions and queues."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_RETRY_S)

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        with self._news:
            while not condition():
                if self.ended or time.monotonic() > deadline:
                    said = "; ".join(self._last)
                    raise TransientError(f"mosquitto {'ended' if self.ended else complaint}: {said}", hint=_hint(said))
                self._news.wait(_RETRY_S / 4)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if self._watch.is_subscription(line):
                self._note_subscription(line)
                continue
            sys.stderr.write(line.decode(errors="replace"))
            sys.stderr.flush()
            with self._news:
                self._sessions.note(line)
                self._running += _RUNNING in line
                self._reloads += _RELOADED in line
                self._last = [*self._last, line.decode(errors="replace").strip()][-_LAST_LINES:]
                self._news.notify_all()

    def _note_subscription(self, line: bytes) -> None:
        account = self._watch.note(line, time.monotonic())
        if account is not None:
            with self._news:
                self._overdrawn.append(account)
                self._news.notify_all()


def _hint(said: str) -> str:
    if "Address already in use" in said:
        return "another program listens on this port: stop it, or choose another with 'covey relay serve --port'"
    return ""
