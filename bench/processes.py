"""The processes of a benchmark: each gets ready, waits for a line, works, and ends."""

from __future__ import annotations

import subprocess
import sys
import time


def start(module: str, *words: str) -> subprocess.Popen[str]:
    """Start a module of ours."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def feed(process: subprocess.Popen[str], line: str) -> None:
    """Give it a line."""
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def await_ready(process: subprocess.Popen[str]) -> None:
    """Wait until it says that it is ready."""
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("a benchmark process did not start")


def go(processes: list[subprocess.Popen[str]], ready: int | None = None) -> float:
    """Start the prepared ones together; return the seconds until all have ended."""
    for process in processes[:ready]:
        await_ready(process)
    begin = time.perf_counter()
    for process in processes[:ready]:
        feed(process, "")
    for process in processes:
        if process.wait(timeout=300):
            raise RuntimeError("a benchmark process failed")
    return time.perf_counter() - begin
