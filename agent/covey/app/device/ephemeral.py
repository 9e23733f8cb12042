"""Ephemeral messages between the threads of the local API and the agent's loop, which alone speaks with its node.

What a program says waits for the loop's next turn, which answers it. What was heard is kept in memory for the streams
of events, the last `EPHEMERAL_KEPT`; who reads more slowly misses some, as does who is away.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from covey.errors import CoveyError, TransientError
from covey.limits.ephemeral import EPHEMERAL_KEPT

if TYPE_CHECKING:
    from covey.core.ephemeral.state import ReceivedEphemeral
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now

_ANSWER_S = 10.0
"""The loop's turns take less, but for a disk that hangs."""


@dataclass(slots=True)
class _Request:
    """What a program says, and what came of it when it is `done`."""

    group_id: GroupId
    content: bytes
    done: Event = field(default_factory=Event)
    outcome: int | CoveyError = 0


class EphemeralExchange:
    """Implements `runtime.AgentRole` for the loop; the rest is for other threads."""

    def __init__(self) -> None:
        self._requests: deque[_Request] = deque()
        self._received: deque[tuple[int, ReceivedEphemeral]] = deque(maxlen=EPHEMERAL_KEPT)
        self.last_number = 0
        """Of what was heard, since this process began."""

    def say(self, group_id: GroupId, content: bytes) -> int:
        """Say something to the members of a group who are there now; return to how many it goes.

        Raises:
            LocalError: too long.
            TransientError: no relay is reached, too many in a short time, or the agent does nothing now.
        """
        request = _Request(group_id, content)
        self._requests.append(request)  # bounded: a connection to the local API waits for each
        if not request.done.wait(_ANSWER_S):
            raise TransientError("the agent is busy; perhaps nothing was sent", hint="try again")
        if isinstance(request.outcome, CoveyError):
            raise request.outcome
        return request.outcome

    def received_after(self, number: int) -> list[tuple[int, ReceivedEphemeral]]:
        """Return what was heard after a number, with the numbers of these."""
        return [each for each in self._received.copy() if each[0] > number] if number < self.last_number else []

    def turn(self, node: Node, now: Now) -> None:
        """Say what is asked for, and take up what was heard."""
        while self._requests:
            request = self._requests.popleft()
            try:
                request.outcome = node.ephemeral.say(request.group_id, request.content, now)
            except CoveyError as error:
                request.outcome = error
            request.done.set()
        for received in node.ephemeral.take_received():
            self._received.append((self.last_number + 1, received))
            self.last_number += 1

    def stop(self, node: Node, now: Now) -> None:
        """Say what is asked for still: the loop's last turn sends it."""
        self.turn(node, now)
