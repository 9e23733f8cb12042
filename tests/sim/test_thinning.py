"""Worlds in which every outbox is full: each batch is in a vault, in a summary there, or reported as lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest

from tests.sim import world as world_module
from tests.sim.ledger import Ledger
from tests.sim.plan import Plan, draw
from tests.sim.world import run_seed

pytestmark = pytest.mark.slow


def _full(source: Random) -> Plan:
    return replace(draw(source), outbox_bytes=source.choice((3_000, 5_000)), submissions=30)


@pytest.fixture
def ledgers() -> Iterator[list[Ledger]]:
    """The ledgers of the worlds that have begun."""
    begun: list[Ledger] = []
    begin = Ledger.__init__

    def noting(ledger: Ledger, *arguments: frozenset[object]) -> None:
        begin(ledger, *arguments)  # type: ignore[arg-type]
        begun.append(ledger)

    with patch.object(world_module, "draw", _full), patch.object(Ledger, "__init__", noting):
        yield begun


def test_the_ledger_balances_where_every_outbox_is_full(ledgers: list[Ledger]) -> None:
    for seed in range(39_000_000, 39_000_012):
        run_seed(seed)
    assert sum(ledger.summaries for ledger in ledgers) > 20, "the worlds thin"
