"""Plausible mistakes about plans, roll-outs and moves between groups: some planned world must notice each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.adapters.sqlite.orders.commands import CommandTables
from covey.app.orders import group_moves, release_reports, releases
from covey.app.orders.release_reports import Fared
from covey.core.actions import given
from covey.core.orders import authority
from covey.core.orders.authority import Pins, WeighedOrders
from covey.core.orders.roll_out import RollOut
from tests.fleet import identity
from tests.sim.mutants import Mutant
from tests.sim.planned_devices import EVE

_FARED, _WEIGH = release_reports.fared, authority.weigh_orders


def _fares_well(*arguments: Any) -> Fared:
    found = _FARED(*arguments)
    found.stops = False
    return found


def _pinned_too(records: Any, group_id: Any, pins: Pins, *others: Any, **named: Any) -> WeighedOrders:
    hostile = identity(EVE).signing_public
    return _WEIGH(records, group_id, replace(pins, operators=pins.operators | {hostile}), *others, **named)


def _all_at_once(_self: RollOut, given: int, others: Any) -> Any:
    return (1, others) if others and not given else None


PLANNED_MUTANTS = (
    Mutant(
        "a release goes on whatever becomes of it",
        {(releases, "fared"): _fares_well, (release_reports, "fared"): _fares_well},
    ),
    Mutant("the first wave is everybody", {(RollOut, "next_wave"): _all_at_once}),
    Mutant("any member is obeyed", {(given, "weigh_orders"): _pinned_too}),
    Mutant("what was done is done again", {(CommandTables, "used"): lambda *_: False}, first_seed=80),
    Mutant("devices leave before they have moved", {(group_moves, "_state"): lambda *_, **__: ("leaving", "")}),
    Mutant("nobody removes what has moved", {(group_moves, "_remove"): lambda *_: 0}),
)
