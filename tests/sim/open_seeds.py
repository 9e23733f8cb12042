"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS: dict[str, dict[int, str]] = {
    "": {},
    "metered": {},
    "planned": {},
}
"""Each with how its violation begins, by the kind of its world (`many.RUNS`)."""
