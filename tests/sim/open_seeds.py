"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS: dict[int, str] = {
    50_001_857: "outboxes do not drain: {'ann': 0, 'ben': 3, 'collector': 0, 'guest': 0}",
}
"""50001857: a banned device is restored to before its ban, and issues a version of its own with the number of the one
that bans it. It shares another group with the others, is behind nobody, and so is never told that it is out."""
