"""Releases: a command about a file, given to one wave of devices after the other (`core/orders/roll_out.py`).

All that a release is stands in the history: what was given to whom, and the plan. What has become of it is what the
devices report. So any operator's device that hears of it goes on with it; none does so unasked.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from covey.app.operations.commands import CommandReport, DeviceOutcome, check_may_order, command_report
from covey.app.operations.history_writing import write
from covey.app.operations.operators import orders, selected
from covey.core.actions.obeying import obeyers
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import ONCE_BYTES, CommandOrder
from covey.core.ids import DeviceKey
from covey.core.orders.roll_out import RollOut, Wave, in_turn
from covey.core.orders.selector import Selector, SelectorKind, read_selector
from covey.core.presence.status import condition
from covey.errors import LocalError, MalformedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covey.app.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import Operation

State: TypeAlias = Literal["under way", "stopped", "ready", "finished"]

_FAILED = {"failed", "refused", "unknown"}
_OPEN = {"waiting", "asleep"}
_AWAY = {"silent", "gone", "stopped"}


@dataclass(frozen=True, slots=True)
class Release:
    """A release as it stands; times are microseconds, `began_at_us` since 1970 by its author's clock.

    `state`: a wave is `under way`; too many fared badly, so it is `stopped`; the next wave is `ready` to be given; or
    all is `finished`. `devices` are those that were given it, `failed` and `silent` the names of those that fare badly,
    `others` how many it is for as well.
    """

    id: str
    action: str
    arguments: dict[str, str]
    selector: str
    waves: tuple[str, ...]
    stop_percent: int
    patience_us: int
    soak_us: int
    author: str
    began_at_us: int
    waves_given: int
    state: State
    devices: tuple[DeviceOutcome, ...]
    failed: tuple[str, ...]
    silent: tuple[str, ...]
    others: int


@dataclass(frozen=True, slots=True)
class _Given:
    """One wave, as it stands in the history."""

    operation: Operation
    order: CommandOrder
    plan: RollOut


def read_waves(text: str) -> tuple[Wave, ...]:
    """Return waves as a person writes them: numbers of devices, and percents, with commas between them.

    Raises:
        UsageError: they are none.
    """
    try:
        return tuple(_wave(each.strip()) for each in text.split(","))
    except (MalformedError, ValueError) as error:
        raise UsageError(f"'{text[:64]}' names no waves", hint="--waves 1,10%,100%") from error


def _wave(text: str) -> Wave:
    number = int(text.removesuffix("%"))
    return Wave.from_wire([number] if text.endswith("%") else number)


def plan_release(
    device: Device, manifest: GroupManifest, selector: str, waves: tuple[Wave, ...], stop: int, patience: int, soak: int
) -> RollOut:
    """Return the plan of a release; `stop` in percent, the others in microseconds.

    Raises:
        LocalError: this device may not order that, or more than one operator has to agree.
        UsageError: the selector is none, or names nobody; or there are more waves than a plan holds.
    """
    check_may_order(device, manifest, selector)
    if device.config.operations.threshold > 1:
        raise LocalError(
            "more than one operator has to agree here, with each wave", hint="covey put FILE --for WHOM is one order"
        )
    plan = RollOut(read_selector(selector, manifest.members), waves, stop, patience, soak)
    try:
        return RollOut.from_wire(plan.to_wire())
    except MalformedError as error:
        raise UsageError(str(error), hint="--waves 1,10%,100%") from error


def begin(device: Device, manifest: GroupManifest, action: str, arguments: Mapping[str, str], plan: RollOut) -> Release:
    """Give the first wave a command.

    Raises:
        LocalError: nobody is there to get it, or this device may not.
    """
    order = CommandOrder(plan.selector, action, arguments, secrets.token_bytes(ONCE_BYTES), roll_out=plan)
    _give(device, manifest, order, frozenset())
    return release(device, manifest, order.once.hex())


def go_on(device: Device, manifest: GroupManifest, name: str, stop: int | None) -> Release:
    """Give the next wave what the ones before were given, where nothing speaks against it.

    `stop`: another percentage of devices from now on at which it ends.

    Raises:
        LocalError: nothing of that name; or this device may not.
    """
    waves = _pick(device, manifest, name)
    last = waves[-1]
    plan = last.plan if stop is None else replace(last.plan, stop_percent=stop)
    found = _described(device, manifest, waves, plan)
    if found.state == "ready":
        _give(device, manifest, replace(last.order, roll_out=plan), _devices(waves))
        found = release(device, manifest, name)
    return found


def _give(device: Device, manifest: GroupManifest, order: CommandOrder, given: frozenset[DeviceKey]) -> None:
    assert order.roll_out is not None, "a wave of a release"
    check_may_order(device, manifest, "all")
    wanted = order.roll_out.next_wave(given, _others(device, manifest, order.once, order.roll_out, given))
    if not wanted:
        raise LocalError("no device is left that obeys commands", hint="'covey orders' shows who does")
    write(device, manifest, replace(order, selector=Selector(SelectorKind.DEVICES, devices=tuple(sorted(wanted)))))


def _others(
    device: Device, manifest: GroupManifest, once: bytes, plan: RollOut, given: frozenset[DeviceKey]
) -> list[DeviceKey]:
    """Return whom a release is for and who was not given it, in the order of their turns: who is away, last."""
    obeying = obeyers(device.store.operations.nodes(manifest.group_id)).bits.keys()
    wanted = {each.keys.signing_public for each in selected(manifest, plan.selector)} & obeying
    now_us, peers, seen = device.clock.wall_us(), device.store.presence.of_peers(), device.store.presence.last_seen()
    turns = in_turn(once, wanted - given)
    return sorted(turns, key=lambda key: condition(peers.get(key), seen.get(key), now_us)[0] in _AWAY)


# -- looking ----------------------------------------------------------------------------------------------------------


def releases(device: Device, manifest: GroupManifest) -> list[Release]:
    """Return the releases of a group, the oldest first."""
    return [_described(device, manifest, waves, waves[-1].plan) for waves in _all(device, manifest).values()]


def newest_releases(device: Device, manifest: GroupManifest, limit: int) -> list[Release]:
    """Return the releases of a group that were begun last, the newest first: those of whose outcomes this device hears.

    At most `limit` of them are looked at.
    """
    found = []
    for waves in [*_all(device, manifest).values()][-limit:]:
        with suppress(LocalError):
            found.append(_described(device, manifest, waves, waves[-1].plan))
    return found[::-1]


def release(device: Device, manifest: GroupManifest, name: str) -> Release:
    """Return a release by the beginning of its id.

    Raises:
        LocalError: none begins like that, or more than one; or this device does not hear what becomes of it.
    """
    waves = _pick(device, manifest, name)
    return _described(device, manifest, waves, waves[-1].plan)


def _all(device: Device, manifest: GroupManifest) -> dict[bytes, list[_Given]]:
    """Return the waves that count of all releases, by their once-ids."""
    counting = {entry.id for entry in orders(device, manifest) if entry.counts}
    found: dict[bytes, list[_Given]] = {}
    for stored in device.store.operations.of_kind(manifest.group_id, OperationKind.COMMAND):
        if stored.id.hex() not in counting:
            continue
        operation = read_operation(stored.raw, verify=False)
        order = read_body(operation)
        if isinstance(order, CommandOrder) and order.roll_out is not None:
            found.setdefault(order.once, []).append(_Given(operation, order, order.roll_out))
    return found


def _pick(device: Device, manifest: GroupManifest, name: str) -> list[_Given]:
    found = [waves for once, waves in _all(device, manifest).items() if name and once.hex().startswith(name.lower())]
    if len(found) != 1:
        what = f"{len(found)} releases' ids begin with" if found else "no release's id begins with"
        raise LocalError(f"{what} '{name[:64]}'", hint="'covey release list' shows them")
    return found[0]


def _devices(waves: list[_Given]) -> frozenset[DeviceKey]:
    return frozenset(key for each in waves for key in each.order.selector.devices)


def _described(device: Device, manifest: GroupManifest, waves: list[_Given], plan: RollOut) -> Release:
    first, given = waves[0], _devices(waves)
    outcomes = _outcomes(device, manifest, waves)
    others = _others(device, manifest, first.order.once, plan, given)
    given_us = device.store.operations.stored_at_us(manifest.group_id, waves[-1].operation.id)
    now_us = device.clock.wall_us()
    is_late = now_us > given_us + plan.patience_us
    failed = [each for each in outcomes if each.outcome in _FAILED]
    silent = [each for each in outcomes if _is_silent(each, is_late=is_late)]
    reported_us = max((each.received_at_us or 0 for each in outcomes), default=0)
    state: State = "finished"
    if plan.stops(bad=len(failed) + len(silent), given=len(given)):
        state = "stopped"
    elif (not is_late and any(each.outcome in _OPEN for each in outcomes)) or now_us < reported_us + plan.soak_us:
        state = "under way"
    elif plan.next_wave(given, others):
        state = "ready"
    return Release(
        id=first.order.once.hex(),
        action=first.order.action,
        arguments=dict(first.order.arguments),
        selector=str(plan.selector),
        waves=tuple(map(str, plan.waves)),
        stop_percent=plan.stop_percent,
        patience_us=plan.patience_us,
        soak_us=plan.soak_us,
        author=first.operation.author.hex(),
        began_at_us=first.operation.made_at_us,
        waves_given=len(waves),
        state=state,
        devices=tuple(outcomes),
        failed=tuple(map(_name, failed)),
        silent=tuple(map(_name, silent)),
        others=len(others),
    )


def _outcomes(device: Device, manifest: GroupManifest, waves: list[_Given]) -> list[DeviceOutcome]:
    """Return what has become of a release on each device that was given it.

    Raises:
        LocalError: that is not reported to this device.
    """
    found: dict[str, DeviceOutcome] = {}
    for each in waves:
        report = command_report(device, manifest, each.operation.id.hex())
        assert isinstance(report, CommandReport), "each wave is a command"
        if report.outcomes["elsewhere"]:
            raise LocalError(
                "what becomes of it is not reported to this device",
                hint="go on with it where it was begun, or on a collector that is an operator's",
            )
        for outcome in report.devices:
            found.setdefault(outcome.device, outcome)
    return list(found.values())


def _is_silent(outcome: DeviceOutcome, *, is_late: bool) -> bool:
    """Say whether a device has said nothing in its time, or nothing any more since it did it."""
    late = is_late and outcome.outcome in _OPEN
    return late or (outcome.outcome == "done" and outcome.away_since_us is not None)


def _name(outcome: DeviceOutcome) -> str:
    return f"{outcome.name} {outcome.label}".strip()
