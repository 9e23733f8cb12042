"""The production code in seeded worlds: whatever fails, what was accepted comes once."""

from __future__ import annotations

import pytest

from tests.sim.ledger import ViolationError
from tests.sim.world import run_seed


def test_what_is_accepted_comes_once(seeds: range) -> None:
    accepted = 0
    for seed in seeds:
        try:
            accepted += run_seed(seed).accepted
        except ViolationError as error:
            pytest.fail(f"seed {seed}: {error}\nreplay it: python -m tests.sim {seed}")
    assert accepted


def test_a_seed_replays_exactly() -> None:
    def told(seed: int) -> list[str]:
        lines: list[str] = []
        run_seed(seed, lines.append)
        return lines

    assert told(7) == told(7)
