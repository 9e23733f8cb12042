"""Memory that the agent no longer needs: half a MiB after its start, more after a large history or a full outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.limits.storage import FREED_MEMORY_START_US, FREED_MEMORY_US

if TYPE_CHECKING:
    from covey.core.node import Node
    from covey.core.now import Now


class FreedMemory:
    """Returns freed memory to the kernel. Implements `runtime.AgentRole`."""

    def __init__(self, now: Now) -> None:
        """Begin with the end of the start."""
        self._due_us = now.monotonic_us + FREED_MEMORY_START_US

    def turn(self, node: Node, now: Now) -> int:
        """Return what was freed, if it is time."""
        del node
        if now.monotonic_us >= self._due_us:
            from covey.adapters.c_library import return_freed_memory

            return_freed_memory()
            self._due_us = now.monotonic_us + FREED_MEMORY_US
        return self._due_us

    def stop(self, node: Node, now: Now) -> None:
        """Do nothing: the process ends."""
