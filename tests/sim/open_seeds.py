"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS: dict[int, str] = {
    22_000_767: "outboxes do not drain: {'ann': 0, 'ben': 2, 'collector': 0, 'guest': 0}",
}
"""22000767: a member owes a removed device its removal and a loss record, for 30 days; that one had heard of it from
others, and takes the loss record for a stranger's."""
