"""Kills at seeded random moments: the broker with its queue, an agent, the collector, the Spark driver."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demo.board import Board
    from demo.fleet import Fleet
    from demo.ingest import Ingest

_AWAY_SECONDS = 1.5
"""Seconds that a victim stays down: long enough for the others to notice."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One kill: when, who, and how it comes back; seconds since the start."""

    at: float
    victim: str
    kill: Callable[[], None]
    revive: Callable[[], None]


def plan(
    fleet: Fleet, seconds: float, seed: int, ingest: Ingest | None = None, board: Board | None = None
) -> list[Strike]:
    """Return one kill for each kind of victim, at times that the seed alone decides."""
    dice = random.Random(seed)
    agent = dice.choice(fleet.agents)
    victims = [
        ("broker, with its queue", lambda: _kill_broker(fleet), fleet.broker.start),
        (agent.name, agent.kill, lambda: agent.start("run")),
        ("collector", fleet.collector.kill, fleet.start_collector),
    ]
    if ingest is not None:
        victims.append(("Spark driver", ingest.kill, ingest.start))
    if board is not None:
        victims.append(("the board's cable (it returns under another port name)", board.replug, lambda: None))
    dice.shuffle(victims)
    slot = seconds / (len(victims) + 1)
    return [
        Strike((number + dice.uniform(0.3, 0.9)) * slot, name, kill, revive)
        for number, (name, kill, revive) in enumerate(victims)
    ]


def _kill_broker(fleet: Fleet) -> None:
    fleet.broker.kill()
    fleet.broker.forget_queue()


class Chaos:
    """Carries out a plan of kills."""

    def __init__(self, strikes: list[Strike]) -> None:
        self._strikes = list(strikes)
        self._dead: list[tuple[float, Strike]] = []

    def advance(self, elapsed: float) -> str | None:
        """Kill or restart the victim that is due; return a line for the screen."""
        if self._dead and elapsed >= self._dead[0][0]:
            strike = self._dead.pop(0)[1]
            strike.revive()
            return f"restarted: {strike.victim}"
        if self._strikes and elapsed >= self._strikes[0].at and not self._dead:
            strike = self._strikes.pop(0)
            strike.kill()
            self._dead.append((elapsed + _AWAY_SECONDS, strike))
            return f"SIGKILL: {strike.victim}"
        return None

    @property
    def done(self) -> bool:
        """Return whether every victim was killed and runs again."""
        return not self._strikes and not self._dead
