"""How a thread of the agent gets its loop to do a turn at once."""

from __future__ import annotations

from collections.abc import Callable


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
