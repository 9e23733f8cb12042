"""Processes that a test has started, and what these have started in turn: read from /proc, where Linux shows them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_DAEMON = "pyspark.daemon"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_EXECUTOR_ID = "--executor-id"


@dataclass(frozen=True, slots=True)
class Process:
    """One running process."""

    pid: int
    parent: int
    command: str


def below(root: int) -> dict[int, Process]:
    """Return a process and all that descend from it, by their ids."""
    children: dict[int, list[int]] = {}
    for pid in _numbers():
        with suppress(OSError):
            children.setdefault(_parent(pid), []).append(pid)
    pids = [root]
    for pid in pids:  # which grows meanwhile
        pids += children.get(pid, [])
    return {found.pid: found for found in map(_look, pids) if found is not None}


def python_workers(found: Mapping[int, Process], *, of_executors: bool = False) -> list[int]:
    """Return those among processes in which tasks run in Python: PySpark's daemons have forked them.

    `of_executors` leaves out those of a driver's own JVM, in which the source plans.
    """
    workers = []
    for process in found.values():
        daemon = found.get(process.parent)
        if daemon is None or _DAEMON not in process.command or _DAEMON not in daemon.command:
            continue
        java = found.get(daemon.parent)
        if not of_executors or (java is not None and _EXECUTOR in java.command):
            workers.append(process.pid)
    return sorted(workers)


def executors(found: Mapping[int, Process]) -> dict[int, str]:
    """Return those among processes that are executors of a cluster, and the ids that their driver has given them."""
    words = {pid: process.command.split() for pid, process in found.items() if f".{_EXECUTOR} " in process.command}
    return {pid: line[line.index(_EXECUTOR_ID) + 1] for pid, line in words.items() if _EXECUTOR_ID in line}


def working_in(folder: Path) -> dict[int, Process]:
    """Return the processes that were told of a folder, in their arguments or environment."""
    name = os.fsencode(folder)
    found = {}
    for pid in _numbers():
        with suppress(OSError):
            parts = [(Path(f"/proc/{pid}") / part).read_bytes() for part in ("cmdline", "environ")]
            if pid != os.getpid() and any(name in part for part in parts) and (process := _look(pid)) is not None:
                found[pid] = process
    return found


def kill(pids: Iterable[int]) -> int:
    """SIGKILL processes; return how many were still there."""
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - tests look often


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - as above
        return int(stat.read().rpartition(b")")[2].split()[1])


def _look(pid: int) -> Process | None:
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return Process(pid, _parent(pid), command)
    return None
