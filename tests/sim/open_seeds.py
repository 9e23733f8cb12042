"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS: dict[int, str] = {
    7_205_584: "outboxes do not drain: {'ann': 1, 'ben': 2, 'collector': 3, 'guest': 0}",
}
"""A destruction crosses the ban of who issued it: one member has obeyed it, another one never will, and each goes on
sending what the other one does not take. Which of the two is to hold is to be decided (docs/protocol.md, section 9)."""
