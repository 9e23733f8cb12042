"""Programs that an action runs, each in a systemd unit, as the agent requests them (docs/how-to/orders.md).

1. The agent gives a name and arguments to `covey-action.socket`, the secret ones separately; root's own files there
   define the rest.
2. Nothing here waits, except `stop`, for `_GRACE_S`.
3. Without a valid answer the result is unknown.
4. A unit has `_GRACE_US` more than its time in which to end and answer; then the connection's end ends it.
"""

from __future__ import annotations

import socket
from pathlib import Path

from covey.adapters.action_socket import ANSWER_BYTES, ActionAnswer, ActionOutcome, to_request
from covey.core.actions.definition import Invocation
from covey.core.actions.results import NOT_STARTED
from covey.errors import ActionError, RemoteError
from covey.ports import ProgramEnd

_GRACE_S = 5.0
_GRACE_US = 15_000_000
_UNKNOWN = ProgramEnd(None, b"", cut=False, timed_out=False)


class UnitPrograms:
    """Starts programs through a socket; implements `ports.Programs`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer(self) -> bool:
        """Say whether there is such a socket now."""
        return self._path.is_socket()

    def start(self, invocation: Invocation, now_us: int) -> UnitProgram:
        """Have a program started.

        Raises:
            ActionError: nobody listens, or takes it.
        """
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            channel.connect(str(self._path))
            channel.send(to_request(invocation.action, invocation.arguments, invocation.secrets))
        except OSError as error:
            channel.close()
            raise ActionError(f"{self._path} does not answer: {error.strerror}", NOT_STARTED) from error
        return UnitProgram(channel, now_us + invocation.bounds.time_us + _GRACE_US)


class UnitProgram:
    """A program that runs in a unit; implements `ports.RunningProgram`."""

    def __init__(self, channel: socket.socket, ends_at_us: int) -> None:
        self._channel = channel
        self._ends_at_us = ends_at_us

    def look(self, now_us: int) -> ProgramEnd | None:
        """See whether it is done.

        Raises:
            ActionError: it was not started.
        """
        try:
            packet = self._channel.recv(ANSWER_BYTES + 1)
        except BlockingIOError:
            if now_us < self._ends_at_us:
                return None
            packet = b""
        except OSError:
            packet = b""
        self._channel.close()
        return _end(packet)

    def stop(self) -> ProgramEnd:
        """End it now.

        Raises:
            ActionError: it was not started.
        """
        packet = b""
        try:
            self._channel.settimeout(_GRACE_S)
            self._channel.shutdown(socket.SHUT_WR)
            packet = self._channel.recv(ANSWER_BYTES + 1)
        except OSError:
            pass
        self._channel.close()
        return _end(packet)


def _end(packet: bytes) -> ProgramEnd:
    try:
        answer = ActionAnswer.from_wire(packet)
    except RemoteError:
        return _UNKNOWN
    if answer.outcome is ActionOutcome.REFUSED:
        raise ActionError(answer.why, answer.code)
    code = None if answer.outcome is ActionOutcome.UNKNOWN else answer.exit
    return ProgramEnd(code, answer.output, cut=answer.cut, timed_out=answer.outcome is ActionOutcome.TIMED_OUT)
