"""Releases: a command about a file, given to one wave of devices after the other (`core/orders/roll_out.py`).

The history holds the whole release: commands, targets, the plan, and whether it is paused, aborted or resumed
(`core/orders/release_standing.py`). So any operator's device can continue or stop it; none does so without being asked.
With a threshold above one, operators approve the first wave, and with it the plan.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.app.history.writing import write
from covey.app.orders.commands import check_may_order
from covey.app.orders.operators import check_operator
from covey.app.orders.release_reports import (
    Release,
    described,
    fared,
    in_turns,
    named_member,
    pick_release,
    release,
)
from covey.core.history.orders import ONCE_BYTES, CommandOrder
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.orders.roll_out import RollOut, Wave
from covey.core.orders.selector import Selector, SelectorKind, read_selector
from covey.errors import LocalError, MalformedError, UsageError
from covey.limits.orders import MAXIMUM_RELEASE_WHY_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from covey.app.device.device import Device
    from covey.app.orders.release_reports import GivenRelease
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import DeviceKey


def read_waves(text: str) -> tuple[Wave, ...]:
    """Return waves as a person writes them: numbers of devices, and percents, with commas between them.

    Raises:
        UsageError: they are none.
    """
    try:
        return tuple(_wave(each.strip()) for each in text.split(","))
    except (MalformedError, ValueError) as error:
        raise UsageError(f"'{text[:64]}' is not a list of waves", hint="for example --waves 1,1%,10%,100%") from error


def _wave(text: str) -> Wave:
    number = int(text.removesuffix("%"))
    return Wave.from_wire([number] if text.endswith("%") else number)


def plan_release(
    device: Device,
    manifest: GroupManifest,
    selector: str,
    waves: tuple[Wave, ...],
    stop: int,
    patience: int,
    soak: int,
    seen_within_us: int | None = None,
) -> RollOut:
    """Return the plan of a release; `stop` in percent, the others in microseconds.

    Raises:
        LocalError: this device may not order that, or none of its targets obeys.
        UsageError: the selector is invalid, or selects nothing; or there are more waves than a plan holds.
    """
    check_may_order(device, manifest, selector)
    plan = RollOut(read_selector(selector, manifest.members), waves, stop, patience, soak, seen_within_us)
    try:
        return RollOut.from_wire(plan.to_wire())
    except MalformedError as error:
        raise UsageError(str(error), hint="for example --waves 1,1%,10%,100%") from error


def begin(device: Device, manifest: GroupManifest, action: str, arguments: Mapping[str, str], plan: RollOut) -> Release:
    """Give the first wave a command.

    Raises:
        LocalError: nobody is there to get it, or this device may not.
    """
    order = CommandOrder(plan.selector, action, arguments, secrets.token_bytes(ONCE_BYTES), roll_out=plan)
    _give(device, manifest, order, frozenset())
    return release(device, manifest, order.once.hex())


def go_on(device: Device, manifest: GroupManifest, name: str) -> Release:
    """Give the next wave what the ones before were given, where it is ready; pause what too many fare badly with.

    Raises:
        LocalError: nothing of that name; or this device may not.
    """
    given = pick_release(device, manifest, name)
    how = fared(device, manifest, given, given.stop_percent)
    found = described(device, manifest, given, how)
    if found.state == "ready":
        _give(device, manifest, given.waves[-1].order, given.devices())
        return release(device, manifest, name)
    if found.state == "stopped" and given.standing.state is ReleaseState.GOING:
        parts = [f"{len(each)} {how}: {', '.join(each[:3])}" for how, each in _badly(found) if each]
        _say(device, manifest, given, ReleaseChange(given.once, ReleaseState.PAUSED, _why("; ".join(parts))))
        return release(device, manifest, name)
    return found


def _badly(found: Release) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("failed", found.failed), ("silent", found.silent)


def pause(device: Device, manifest: GroupManifest, name: str, why: str = "") -> Release:
    """Hold devices that have not started.

    Raises:
        LocalError: nothing of that name, or it was aborted; or this device may not.
    """
    return _halt(device, manifest, name, ReleaseState.PAUSED, why)


def abort(device: Device, manifest: GroupManifest, name: str, why: str = "") -> Release:
    """Cancel on devices that have not started, and roll back trials; this is permanent.

    Raises:
        LocalError: nothing of that name, or it was aborted; or this device may not.
    """
    return _halt(device, manifest, name, ReleaseState.ABORTED, why)


def _halt(device: Device, manifest: GroupManifest, name: str, state: ReleaseState, why: str) -> Release:
    given = pick_release(device, manifest, name)
    if len(why.encode()) > MAXIMUM_RELEASE_WHY_BYTES:
        raise UsageError(f"--why: {len(why.encode())} bytes", hint=f"at most {MAXIMUM_RELEASE_WHY_BYTES}")
    if given.standing.state is not state:
        _say(device, manifest, given, ReleaseChange(given.once, state, why))
    return release(device, manifest, name)


def resume(device: Device, manifest: GroupManifest, name: str, stop: int | None, *, accept: bool) -> Release:
    """Resume a release that is paused, or that stopped by itself.

    `stop` is another limit in percent from now on. With `accept` it continues in spite of the devices that have failed
    so far, which no longer count.

    Raises:
        LocalError: nothing of that name, or it was aborted; or this device may not.
    """
    given = pick_release(device, manifest, name)
    _check_not_aborted(manifest, given)
    how = fared(device, manifest, given, given.stop_percent if stop is None else stop)
    if how.stops and not accept:
        return described(device, manifest, given, how)
    accepted = how.bad if accept else ()
    if stop is not None or accepted or given.standing.state is not ReleaseState.GOING:
        change = ReleaseChange(given.once, ReleaseState.GOING, accepted=accepted, stop_percent=stop)
        _say(device, manifest, given, change)
    return go_on(device, manifest, name)


def _say(device: Device, manifest: GroupManifest, given: GivenRelease, change: ReleaseChange) -> None:
    check_operator(device, manifest)
    _check_not_aborted(manifest, given)
    write(device, manifest, change)


def _check_not_aborted(manifest: GroupManifest, given: GivenRelease) -> None:
    if given.standing.state is ReleaseState.ABORTED:
        aborted = next(each for each, said in given.standing.said if said.state is ReleaseState.ABORTED)
        raise LocalError(
            f"release {given.once.hex()[:8]} was aborted by {named_member(manifest, aborted.author)}",
            hint="an abort is final: create a new release with 'covey release create'",
        )


def _why(text: str) -> str:
    return text.encode()[:MAXIMUM_RELEASE_WHY_BYTES].decode(errors="ignore")


def _give(device: Device, manifest: GroupManifest, order: CommandOrder, given: Collection[DeviceKey]) -> None:
    plan = order.roll_out
    assert plan is not None, "a wave of a release"
    check_may_order(device, manifest, "all")
    wanted = plan.next_wave(given, in_turns(device, manifest, order.once, plan, given))
    if not wanted:
        raise LocalError("no remaining device obeys commands", hint="'covey order' shows which devices obey")
    write(device, manifest, replace(order, selector=Selector(SelectorKind.DEVICES, devices=tuple(sorted(wanted)))))
