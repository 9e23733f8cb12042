"""Two networks of their own with a cable between them, where root may make such."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cable() -> Iterator[tuple[str, str] | None]:
    """Yield the names of two network namespaces, 192.168.77.1 and .2; None where none can be made."""
    name = f"cv{secrets.token_hex(3)}"
    ends = (f"{name}a", f"{name}b")
    try:
        _ip("netns", "add", ends[0])
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        _ip("netns", "add", ends[1])
        _ip("link", "add", ends[0], "netns", ends[0], "type", "veth", "peer", "name", ends[1], "netns", ends[1])
        for number, end in enumerate(ends, 1):
            _ip("-n", end, "address", "add", f"192.168.77.{number}/24", "dev", end)
            _ip("-n", end, "link", "set", end, "up")
            _ip("-n", end, "link", "set", "lo", "up")
        yield ends
    finally:
        for end in ends:
            subprocess.run(["ip", "netns", "delete", end], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
