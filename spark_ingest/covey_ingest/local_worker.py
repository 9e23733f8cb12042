"""A worker process of the local engine: what it has loaded before it gets its first task, and how it begins.

It is a copy of a process that has imported this module, and shares with that whatever neither changes.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import threading
import zoneinfo
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy.ma

from covey_ingest.task import tasks

LOADED: tuple[ModuleType, ...] = (numpy.ma, tasks, zoneinfo)
"""What a first task would load: PyArrow asks for masked arrays with the first numpy array, and for zones with the first
time."""

_HARMLESS = "jemalloc_bg"

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Settings of glibc's allocator, by their numbers in `malloc.h`."""
_MEMORY_KEPT = 32 * 1024 * 1024


def begin(environment: Mapping[str, str]) -> None:
    """Have this worker end when the engine has, and be ended by signals as any process is.

    The server that it is a copy of was started with the environment of then, which may have lacked a store's.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    _keep_memory()
    engine = multiprocessing.parent_process()
    if engine is not None:

        def wait() -> None:
            engine.join()
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()


def _keep_memory() -> None:
    """Keep freed memory for the next array, where the C library has such a setting.

    Else each array of numpy above 128 KiB is new pages of the system, and filling these takes longer than computing
    what is in them: decoding took half as long again.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for setting in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            mallopt(setting, _MEMORY_KEPT)


def may_copy_itself() -> bool:
    """Say whether this process can be copied as it is: it has no threads but an allocator's, which sees to that itself.

    A lock that another thread holds is held in the copy for ever. Where the system does not say which threads there
    are, the answer is no.
    """
    names = [_content(name) for name in Path("/proc/self/task").glob("*/comm")]
    return sum(not name.startswith(_HARMLESS) for name in names) == 1


def settle() -> None:
    """Keep what is loaded by now out of the way of collections, which would write to it and so end the sharing."""
    gc.collect()
    gc.freeze()


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the thread has ended
        return _HARMLESS
