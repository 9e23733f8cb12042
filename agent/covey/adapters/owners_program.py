"""Run a program of the machine's owner, as an installer's check or hook: with this process's rights, until it ends.

What an operator's order runs is another matter: `programs.py` bounds it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from covey.errors import LocalError


def run_owners_program(words: Sequence[str]) -> int:
    """Run the owner's program; return its exit code, or 128 and more if a signal ended it, as a shell does.

    Raises:
        LocalError: it cannot be started.
    """
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - its owner's
    except OSError as error:
        raise LocalError(f"{words[0]} cannot be started: {error.strerror}") from error
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
