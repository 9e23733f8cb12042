"""The newest orders, roll-outs and files of this device's groups, with their results, for the fleet's table and page.

1. The state of an installation on a device is its last report of that action.
2. Only the newest releases and files are shown; a group without any costs nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from covey.app.fleet.documents import FleetFile, FleetOrder, FleetRelease, FleetRollback
from covey.core.actions.results import NOT_ROLLED_BACK, ROLLED_BACK, CommandState
from covey.core.history.bodies import read_body
from covey.core.history.kinds import ORDER_KINDS, OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import CommandOrder
from covey.core.ids import DeviceKey, device_name, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from covey.app.device.device import Device
    from covey.app.orders.release_reports import Release
    from covey.core.actions.results import KeptResult
    from covey.core.group.manifest import GroupManifest


_SHOWN = 8
"""Orders that are shown of all groups; `covey order` has the others."""
_CHARACTERS = 200
"""Of what an order says."""


class RecentOrders:
    """The newest orders, reloaded when something has arrived since the last look."""

    def __init__(self) -> None:
        self._upto = -1
        self._found: tuple[FleetOrder, ...] = ()

    def look(self, device: Device) -> tuple[FleetOrder, ...]:
        """Return the newest orders of all groups, each plan once, the newest first."""
        upto = device.store.events.last_number()
        if upto != self._upto:
            self._upto, self._found = upto, tuple(_newest(device))
        return self._found


def _newest(device: Device) -> Iterator[FleetOrder]:
    groups = [each for each in device.node.groups.joined() if _has_orders(device, each)]
    if not groups:
        return  # most devices know none, and nothing is loaded for it
    from covey.app.orders.plans import newest_listed

    for each in newest_listed(device, groups, _SHOWN):
        entry = each.entry
        yield FleetOrder(
            entry.id,
            each.groups,
            entry.author,
            entry.label,
            entry.made_at_us,
            printable(entry.text, _CHARACTERS),
            len(entry.signers),
            entry.needed,
            entry.counts,
            each.outcomes,
        )


def _has_orders(device: Device, group: GroupManifest) -> bool:
    records = device.store.operations
    return any(next(iter(records.of_kind(group.group_id, each)), None) is not None for each in ORDER_KINDS)


"""Releases and files of all groups; `covey release list` and `covey file list` have the others."""
_ROLL_OUT_CHARACTERS = 160


class RollOuts:
    """Watches releases; reports are reloaded when something has arrived since the last look."""

    def __init__(self) -> None:
        self._upto = -1
        self._rollbacks: tuple[FleetRollback, ...] = ()

    def releases(self, device: Device) -> tuple[FleetRelease, ...]:
        """Return the newest releases of all groups, the newest first."""
        groups = tuple(_with(device, OperationKind.COMMAND))
        if not groups:
            return ()  # most devices know none, and nothing is loaded for it
        from covey.app.orders.release_reports import newest_releases

        return tuple(_counted(groups, each) for each in newest_releases(device, groups, _SHOWN))

    def rollbacks(self, device: Device) -> tuple[FleetRollback, ...]:
        """Return the devices on which an installation did not stay, the newest first."""
        upto = device.store.events.last_number()
        if upto != self._upto:
            found = [each for group in _with(device, OperationKind.COMMAND) for each in _rollbacks(device, group)]
            self._upto, self._rollbacks = upto, tuple(sorted(found, key=lambda each: -each.at_us))
        return self._rollbacks


def newest_files(device: Device) -> tuple[FleetFile, ...]:
    """Return the files that were offered last in all groups, the newest first."""
    found = [each for group in _with(device, OperationKind.FILE) for each in _files(device, group)]
    return tuple(sorted(found, key=lambda each: (each.offered_at_us, each.id), reverse=True)[:_SHOWN])


def _with(device: Device, kind: OperationKind) -> Iterator[GroupManifest]:
    for group in device.node.groups.joined():
        if next(iter(device.store.operations.of_kind(group.group_id, kind)), None) is not None:
            yield group


def _counted(groups: Collection[GroupManifest], found: Release) -> FleetRelease:
    author = DeviceKey(bytes.fromhex(found.author))
    labels = (_label(group, author) for group in groups if group.group_id.hex() in found.groups)
    return FleetRelease(
        found.id,
        found.groups,
        device_name(author),
        next((each for each in labels if each), ""),
        found.began_at_us,
        printable(f"{found.action} for {found.selector}", _ROLL_OUT_CHARACTERS),
        found.state,
        found.waves_given,
        len(found.waves),
        len(found.devices),
        sum(each.outcome == "done" for each in found.devices),
        len(found.failed),
        len(found.silent),
        found.others,
    )


def _rollbacks(device: Device, group: GroupManifest) -> Iterator[FleetRollback]:
    actions: dict[bytes, str] = {}
    newest: dict[tuple[bytes, str], KeptResult] = {}
    for each in device.store.order_results.all(group.group_id):
        if group.member(each.device) is None or each.result.state is CommandState.REFUSED:
            continue
        if each.result.order not in actions:
            actions[each.result.order] = _action(device, group, each)
        place = each.device, actions[each.result.order]
        if place[1] and (place not in newest or newest[place].id < each.id):
            newest[place] = each
    for (key, action), each in newest.items():
        if each.result.code in {ROLLED_BACK, NOT_ROLLED_BACK}:
            yield FleetRollback(
                key.hex(),
                _label(group, each.device),
                each.result.order.hex(),
                printable(action, _ROLL_OUT_CHARACTERS),
                printable(each.result.why, _ROLL_OUT_CHARACTERS),
                each.result.code == ROLLED_BACK,
                each.received_at_us,
            )


def _action(device: Device, group: GroupManifest, kept: KeptResult) -> str:
    raw = device.store.operations.raw(group.group_id, kept.result.order)
    body = None if raw is None else read_body(read_operation(raw, verify=False))
    return body.action if isinstance(body, CommandOrder) else ""


def _files(device: Device, group: GroupManifest) -> Iterator[FleetFile]:
    from covey.app.content.content import described
    from covey.app.content.file_offers import offers

    for offer in islice(offers(device, group), _SHOWN):
        found = described(device, group, offer)
        yield FleetFile(
            found.id,
            group.group_id.hex(),
            printable(found.name, _ROLL_OUT_CHARACTERS),
            found.size,
            found.author[:8],
            found.label,
            found.offered_at_us,
            found.state,
            found.fetched,
            found.holders,
        )


def _label(group: GroupManifest, key: DeviceKey) -> str:
    member = group.member(key)
    return "" if member is None else member.label
