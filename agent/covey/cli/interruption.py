"""What a person is told who ends a command by Ctrl-C: what of it stays, and by what it goes on.

The process ends as a shell expects (`main.INTERRUPTED`). Where nothing was begun there is nothing to tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def explained_interruption(what_stays: Callable[[], str]) -> Iterator[None]:
    """Print what stays, in one line of stderr, where Ctrl-C ends what is done here."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted: {what_stays()}", file=sys.stderr)
        raise
