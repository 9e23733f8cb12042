"""The real collector over a directory that fails when told to: `python -m tests.spark.failing_store collect …`.

The word in the file that `COVEY_TEST_FAULT` names decides what the next puts do; without the file all is well. These
are faults that a directory shows to no root user, or not on demand.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from covey.adapters.files import storage_error
from covey.adapters.objects import folder
from covey.cli.main import main

VARIABLE = "COVEY_TEST_FAULT"
_SLOW_SECONDS = 1.5


class Fault(StrEnum):
    """What becomes of a put."""

    READ_ONLY = "a read-only store"
    SLOW = "a slow store"
    FAILING = "every other put fails, its object half of the times stored"


def _failing(write: Callable[..., None], puts: list[int]) -> Callable[..., None]:
    def wrapped(path: Path, content: bytes, **options: Any) -> None:
        fault = _ordered_fault()
        if fault is Fault.READ_ONLY:
            raise storage_error("write", path, OSError(errno.EROFS, os.strerror(errno.EROFS)))
        if fault is Fault.SLOW:
            threading.Event().wait(_SLOW_SECONDS)
        puts.append(len(content))
        if fault is Fault.FAILING and len(puts) % 2:
            if len(puts) % 4 == 1:
                write(path, content, **options)
            raise storage_error("write", path, OSError(errno.EIO, os.strerror(errno.EIO)))
        write(path, content, **options)

    return wrapped


def _ordered_fault() -> Fault | None:
    try:
        return Fault(Path(os.environ[VARIABLE]).read_text())
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    setattr(folder, "replace_durably", _failing(getattr(folder, "replace_durably"), []))  # noqa: B009, B010 - where it is used
    sys.exit(main(sys.argv[1:]))
