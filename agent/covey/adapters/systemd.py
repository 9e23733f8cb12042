"""Notify systemd (sd_notify(3)) of the agent's start, watchdog and relay status.

A service manager is there when it says so in the environment: $NOTIFY_SOCKET, and $WATCHDOG_USEC for this process
($WATCHDOG_PID). Without one, every call does nothing. No call ever waits or raises: a datagram that does not fit
into the manager's queue is lost, and the next one says the same.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_MORE_TIME_S = 60


class Systemd:
    """The service manager of this process, if there is one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        self._every_s = _watchdog_s(environment) / 4  # three may be lost
        self._ready = False
        self._stays = False
        self._said_alive_at = 0.0
        self._asked_for_time_at = float("-inf")

    def alive(self) -> None:
        """Say READY=1 the first time, and WATCHDOG=1 as often as the manager wants to hear it."""
        now = time.monotonic()
        if not self._ready:
            self._ready = True
            self._said_alive_at = now
            self._send("READY=1\nWATCHDOG=1" if self._every_s else "READY=1")
        elif self._every_s and now - self._said_alive_at >= self._every_s:
            self._said_alive_at = now
            self._send("WATCHDOG=1")

    def starting(self) -> None:
        """Ask for more time: opening a large state moves, slowly."""
        now = time.monotonic()
        if not self._ready and now - self._asked_for_time_at >= _MORE_TIME_S / 4:
            self._asked_for_time_at = now
            self._send(f"EXTEND_TIMEOUT_USEC={_MORE_TIME_S * 1_000_000}")

    def status(self, line: str) -> None:
        """Give `systemctl status` a line to show."""
        self._send("STATUS=" + line.replace("\n", " "))

    def stays(self) -> None:
        """Note that this is no end: the agent restarts in this process."""
        self._stays = True

    def stopping(self) -> None:
        """Say that the end was asked for."""
        if not self._stays:
            self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as channel,
        ):
            channel.sendto(state.encode(errors="replace"), self._address)


def _watchdog_s(environment: Mapping[str, str]) -> float:
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    try:
        return max(0, int(environment.get("WATCHDOG_USEC", "0"))) / 1e6
    except ValueError:
        return 0.0
