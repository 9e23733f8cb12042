"""Calls from other threads of the agent to its loop, which alone uses the node.

`Waking` makes the loop run a turn at once. `EphemeralExchange` hands an ephemeral message to the loop's next turn,
which answers it. Ephemeral messages that arrive stay in memory for event streams, the last `EPHEMERAL_KEPT` of them: a
slow reader misses some, as does an absent one. An author that sends many pushes out only its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from covey.core.ephemeral.state import KeptEphemeral
from covey.errors import CoveyError, TransientError

if TYPE_CHECKING:
    from covey.core.ephemeral.state import ReceivedEphemeral
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now


_ANSWER_S = 10.0
"""The loop's turns take less, but for a disk that hangs."""


@dataclass(slots=True)
class _Request:
    """A program's request, and its result once it is `done`."""

    group_id: GroupId
    content: bytes
    done: Event = field(default_factory=Event)
    outcome: int | CoveyError = 0


class EphemeralExchange:
    """Implements `runtime.AgentRole` for the loop; the rest is for other threads."""

    def __init__(self) -> None:
        self._requests: deque[_Request] = deque()
        self._received = KeptEphemeral()

    def say(self, group_id: GroupId, content: bytes) -> int:
        """Say something to the members of a group who are there now; return to how many it goes.

        Raises:
            LocalError: too long.
            TransientError: no relay is reached, too many in a short time, or the agent does nothing now.
        """
        request = _Request(group_id, content)
        self._requests.append(request)  # bounded: a connection to the local API waits for each
        if not request.done.wait(_ANSWER_S):
            raise TransientError("the agent is busy, and the message may not have been sent", hint="try again")
        if isinstance(request.outcome, CoveyError):
            raise request.outcome
        return request.outcome

    @property
    def last_number(self) -> int:
        """The number of the last message received since this process began."""
        return self._received.last_number

    def received_after(self, number: int) -> list[tuple[int, ReceivedEphemeral]]:
        """Return what was heard after a number, with the numbers of these."""
        return self._received.after(number)

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
            self._received.add(received)

    def stop(self, node: Node, now: Now) -> None:
        """Say what is asked for still: the loop's last turn sends it."""
        self.turn(node, now)


class Waking:
    """The loop that runs on a device now, or none; called by any thread."""

    def __init__(self) -> None:
        self._loop: Callable[[], None] | None = None

    def follow(self, loop: Callable[[], None]) -> None:
        """Call this from now on."""
        self._loop = loop

    def wake(self) -> None:
        """Have the loop do a turn, if one runs."""
        if self._loop is not None:
            self._loop()
