"""A deadline for a whole exchange on a connection, however slowly the other side sends.

The time limit of a socket begins again with each byte, so one byte now and then would hold its reader forever.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_RETRY_S = 1.0
"""Before a connection is cut once more: it may just have been made."""


@contextmanager
def ended_within(seconds: float, its_socket: Callable[[], socket.socket | None]) -> Iterator[None]:
    """Close a connection if the work here takes too long; the block sets its socket once there is one.

    Raises:
        TimeoutError: it took longer, even if it succeeded.
    """
    over, cut = threading.Event(), threading.Event()

    def cut_when_due() -> None:
        pause = seconds
        while not over.wait(pause):
            cut.set()
            pause = _RETRY_S
            if (found := its_socket()) is not None:
                with suppress(OSError):
                    # a TLS connection's own method lets go of its keys, by which another thread reads just now
                    socket.socket.shutdown(found, socket.SHUT_RDWR)

    watch = threading.Thread(target=cut_when_due, name="exchange deadline", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
    if cut.is_set():
        raise TimeoutError("timed out")
