"""Waking devices: a POST without a body, or the owner's own program; in a thread, as either may take its time.

1. A webhook is called only below an address that the mailbox's owner allows, over TLS or on this machine; redirections
   are not followed, and only the answer's status is read, within a deadline.
2. The program and its words are the owner's; it gets the device's key as its last word, and has a time limit.
3. A bounded number of calls waits; beyond it the newest is left out, because the next blob causes another.
"""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from queue import Full, Queue
from typing import TYPE_CHECKING
from urllib.parse import unquote

from covey.adapters.exchange_deadline import ended_within
from covey.adapters.web_address import is_this_machine, web_address
from covey.core.mailbox.messages import Hook
from covey.errors import ConfigurationError
from covey.limits.mailbox import HELLO_US, WAKES_WAITING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covey.core.ids import DeviceKey
    from covey.core.mailbox.messages import WakeHook
    from covey.ports import Report

_SECONDS = HELLO_US / 1e6
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


class WakeCaller:
    """Calls hooks, one after the other. `webhooks` are the addresses below which one may be called."""

    def __init__(self, webhooks: Sequence[str], program: Sequence[str], report: Report) -> None:
        """Check what the owner allows.

        Raises:
            ConfigurationError: an address that is none, or a program without its whole path.
        """
        for each in webhooks:
            url = web_address(each, "mailbox.wake_webhooks", {"http": 80, "https": 443})
            if url.scheme == "http" and not is_this_machine(url):
                raise ConfigurationError("mailbox.wake_webhooks: a webhook on another machine needs https://")
            if not each.endswith("/"):
                raise ConfigurationError(f"mailbox.wake_webhooks: {each} must end with a slash")
        if program and not program[0].startswith("/"):
            raise ConfigurationError("mailbox.wake_program must be an absolute path")
        self._webhooks = tuple(webhooks)
        self._program = tuple(program)
        self._report = report
        self._waiting: Queue[tuple[DeviceKey, str, WakeHook]] = Queue(WAKES_WAITING)
        self._thread: threading.Thread | None = None

    def wake(self, device: DeviceKey, name: str, hook: WakeHook) -> None:
        """Call a hook of a device, which is called so, soon, where the owner allows it."""
        allowed = bool(self._program) if hook.kind is Hook.PROGRAM else self._may_post(hook.target)
        if not allowed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="mailbox wakes", daemon=True)
            self._thread.start()
        with suppress(Full):
            self._waiting.put_nowait((device, name, hook))

    def _may_post(self, target: str) -> bool:
        return target.isascii() and target.isprintable() and target.startswith(self._webhooks) and not _climbs(target)

    def _work(self) -> None:
        while True:
            device, name, hook = self._waiting.get()
            failure = self._run(device) if hook.kind is Hook.PROGRAM else self._post(hook.target)
            if failure:
                self._report("warning", f"device {name} was not woken: {failure}")

    def _post(self, target: str) -> str:
        try:
            url = web_address(target, "a wake hook", {"http": 80, "https": 443})
        except ConfigurationError as error:
            return str(error)
        kind = HTTPConnection if url.scheme == "http" else HTTPSConnection
        connection = kind(url.hostname or "", url.port, timeout=_SECONDS)
        try:
            connection.connect()
            sock = connection.sock
            with ended_within(_SECONDS, lambda: sock):
                connection.request("POST", (url.path or "/") + (f"?{url.query}" if url.query else ""), b"")
                status = connection.getresponse().status
        except (OSError, HTTPException, ValueError) as error:
            return f"{url.hostname} cannot be reached: {type(error).__name__}"
        finally:
            connection.close()
        return "" if 200 <= status < 300 else f"{url.hostname} answers {status}"

    def _run(self, device: DeviceKey) -> str:
        try:
            done = subprocess.run(  # noqa: S603 - the owner's own program and words, no shell
                [*self._program, device.hex()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{self._program[0]} did not end within {_SECONDS:.0f} s"
        except OSError as error:
            return f"{self._program[0]} cannot be started: {error.strerror}"
        return f"{self._program[0]} ended with {done.returncode}" if done.returncode else ""


def _climbs(target: str) -> bool:
    """Say whether some server could read an address as one that is not below its beginning.

    Servers and the proxies before them undo escapes, once or several times, and some take a backslash for a slash.
    """
    while (plain := unquote(target, errors="replace")) != target:
        target = plain
    return ".." in target or "/./" in target or "\\" in target
