"""The production code in seeded worlds: whatever fails, what was accepted comes once."""

from __future__ import annotations

from tests.sim.many import run_seeds
from tests.sim.world import run_seed


def test_what_is_accepted_comes_once(seeds: range) -> None:
    outcomes = list(run_seeds(seeds))
    assert not [str(outcome) for outcome in outcomes if outcome.violation is not None]
    assert any(outcome.accepted for outcome in outcomes)


def test_a_seed_replays_exactly() -> None:
    def told(seed: int) -> list[str]:
        lines: list[str] = []
        run_seed(seed, lines.append)
        return lines

    assert told(7) == told(7)
