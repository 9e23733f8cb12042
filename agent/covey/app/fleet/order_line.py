"""One order or release as a time line: its waves, and when devices reported what.

1. Results are counted by interval, and only the newest are named: what a browser gets does not grow with the fleet.
2. One order of one group is read at a time, so that others can ask the device meanwhile (`Dashboard.order`).
3. A time is that of the arrival here, by this device's clock: clocks of devices may be wrong.
4. A device that is in several of the groups refuses the repeated order in all but one: only the first result counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from covey.app.history.history import pick_operation
from covey.app.orders import operators, plans
from covey.app.orders.command_reports import ArrivedResult, arrived_results, targets
from covey.core.actions.results import REPEATED
from covey.core.history.bodies import read_body
from covey.core.history.orders import CommandOrder
from covey.core.ids import DeviceKey, printable
from covey.core.orders.plans import announcing
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.orders.operators import OrderEntry
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import Operation

_SPANS_US = {"hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000}
_INTERVALS = {"hour": 60, "day": 48, "week": 56}
_MINUTE_US = 60_000_000
_ALL_INTERVALS = 60
_NAMED = 50
"""Failures, and other results, that are named: the newest; `covey order show` has all of them."""
_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class LineWave:
    """A wave: when it was given, to how many devices, and how many reported what, the last of them when."""

    number: int
    given_at_us: int
    devices: int
    outcomes: dict[str, int]
    last_at_us: int | None


@dataclass(frozen=True, slots=True)
class LineResult:
    """What one device reported."""

    device: str
    label: str
    outcome: str
    why: str
    at_us: int


@dataclass(frozen=True, slots=True)
class OrderLine:
    """An order with its results between `since_us` and `until_us`: of each `step_us` how many are `good` and `bad`.

    `before`: how many came earlier; `reports`: whether devices report when they did it, which they do of commands and
    releases; `devices`: how many it is for; `failures` and `newest`: the newest results that are bad, and others.
    """

    id: str
    what: str
    by: str
    given_at_us: int
    counts: bool
    reports: bool
    groups: int
    devices: int
    since_us: int
    until_us: int
    step_us: int
    good: tuple[int, ...]
    bad: tuple[int, ...]
    before: int
    outcomes: dict[str, int]
    waves: tuple[LineWave, ...]
    failures: tuple[LineResult, ...]
    newest: tuple[LineResult, ...]


class OrderPart(NamedTuple):
    """One operation of it, in one group, of a wave that counts from 1, for so many devices."""

    group: GroupManifest
    operation: Operation
    wave: int
    targets: int


@dataclass(slots=True)
class _Wave:
    """A wave that is being counted, in all groups."""

    given_at_us: int
    devices: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    last_at_us: int | None = None


class GatheredLine:
    """Counts the results of an order, part by part."""

    def __init__(self, entry: OrderEntry, parts: Sequence[OrderPart], now_us: int, span: str, from_us: int) -> None:
        """Begin.

        Args:
            entry: the order as this device judges it.
            parts: its operations.
            now_us: the device's clock.
            span: a name of `_SPANS_US`, or whatever else for all of the time since it was given.
            from_us: where the span begins; 0 for when it was given.
        """
        self._entry, self._parts = entry, parts
        self._given_us = min(each.operation.made_at_us for each in parts)
        self._since_us = from_us or self._given_us
        self._intervals = _INTERVALS.get(span, _ALL_INTERVALS)
        whole_us = max(now_us - self._since_us, _MINUTE_US * _ALL_INTERVALS)
        self._step_us = -(-_SPANS_US.get(span, whole_us) // self._intervals)
        self._good, self._bad = [0] * self._intervals, [0] * self._intervals
        self._before = 0
        self._waves: dict[int, _Wave] = {}
        self._failures: list[ArrivedResult] = []
        self._newest: list[ArrivedResult] = []
        self._several = len({each.group.group_id for each in parts}) > 1

    def add(self, part: OrderPart, results: Iterable[ArrivedResult]) -> None:
        """Count the results of one part."""
        given_us = part.operation.made_at_us
        wave = self._waves.setdefault(part.wave, _Wave(given_us))
        wave.given_at_us = min(wave.given_at_us, given_us)
        wave.devices += part.targets
        counted = [each for each in results if not (self._several and each.code == REPEATED)]
        for each in counted:
            wave.outcomes[each.outcome] += 1
            wave.last_at_us = max(wave.last_at_us or 0, each.at_us)
            place = (each.at_us - self._since_us) // self._step_us
            if place < 0:
                self._before += 1
            elif place < self._intervals:
                (self._good if each.is_good else self._bad)[place] += 1
        bad = (each for each in counted if not each.is_good)
        self._failures = nlargest(_NAMED, [*self._failures, *bad], key=_when)
        self._newest = nlargest(_NAMED, [*self._newest, *counted], key=_when)

    def line(self) -> OrderLine:
        """Return what was counted."""
        entry, waves = self._entry, sorted(self._waves.items())
        outcomes: Counter[str] = sum((wave.outcomes for _, wave in waves), Counter())
        return OrderLine(
            entry.id,
            printable(entry.text, _CHARACTERS),
            entry.label or entry.author[:8],
            self._given_us,
            entry.counts,
            any(isinstance(read_body(each.operation), CommandOrder) for each in self._parts),
            len({each.group.group_id for each in self._parts}),
            sum(wave.devices for _, wave in waves),
            self._since_us,
            self._since_us + self._step_us * self._intervals,
            self._step_us,
            tuple(self._good),
            tuple(self._bad),
            self._before,
            dict(outcomes),
            tuple(
                LineWave(number, each.given_at_us, each.devices, dict(each.outcomes), each.last_at_us)
                for number, each in waves
            ),
            tuple(map(_result, self._failures)),
            tuple(map(_result, self._newest)),
        )


def _when(result: ArrivedResult) -> int:
    return result.at_us


def _result(each: ArrivedResult) -> LineResult:
    why = each.why or each.code or (f"exit code {each.exit}" if each.exit else "")
    return LineResult(each.device.hex(), each.label, each.outcome, printable(why, _CHARACTERS), each.at_us)


def parts_of(device: Device, groups: Sequence[GroupManifest], name: str) -> tuple[OrderEntry, list[OrderPart]]:
    """Return an order, a plan or a release by its id, and its operations with how many devices each is for.

    Raises:
        LocalError: there is none.
    """
    if not groups:
        raise LocalError("this device is in no group")
    known = plans.find_plan(device, groups, name)
    if known is None:
        group = plans.group_of_order(device, groups, name)
        operation = pick_operation(device, group.group_id, name, "covey order")
        return operators.judged(device, group, operation), [_part(device, group, operation, frozenset())]
    plans.check_not_deleted(known)
    if not known.orders:
        raise LocalError("none of its orders has arrived here yet")
    nobody = frozenset(announcing(known.id).devices)
    return plans.merged(device, known), [_part(device, group, each, nobody) for group, each in known.orders]


def _part(device: Device, group: GroupManifest, operation: Operation, nobody: frozenset[DeviceKey]) -> OrderPart:
    body = read_body(operation)
    if not isinstance(body, CommandOrder):
        return OrderPart(group, operation, 1, 0)
    if body.roll_out is not None:
        return OrderPart(group, operation, body.wave, len(set(body.selector.devices) - nobody))
    return OrderPart(group, operation, 1, targets(device, group, operation))


def results_of(device: Device, part: OrderPart) -> list[ArrivedResult]:
    """Return what devices reported of a part."""
    return arrived_results(device, part.group, part.operation)
