"""What a person changes from the fleet page: the same functions as the commands, so the same checks of authority.

Each takes the device of the page and the query of a request, and returns what JSON holds; each raises `LocalError`
where this device may not do that, or the request names nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from covey.app.groups.requests import accept_invitation, waiting_invitations
from covey.core.ids import KEY_BYTES, DeviceKey, from_hex
from covey.errors import LocalError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.app.device.device import Device

Query = Mapping[str, str]
_HOUR_US = 3_600_000_000
_DIGITS = 4


def accept(device: Device, query: Query) -> dict[str, Any]:
    """Accept an invitation to a group, by its whole id: `group`, of a member, by its key: `inviter`."""
    group, inviter = query.get("group", ""), query.get("inviter", "")
    if not any((each.group_id, each.inviter) == (group, inviter) for each in waiting_invitations(device)):
        raise LocalError("no such invitation is waiting")
    return {"accepted": accept_invitation(device, group, inviter).hex()}


def approve(device: Device, query: Query) -> dict[str, Any]:
    """Approve an order or a plan, by its whole id: `order`."""
    from covey.app.orders import operators, plans
    from covey.app.orders.fleet import shared_groups

    groups, name = shared_groups(device), _id(query, "order")
    plan = plans.find_plan(device, groups, name)
    if plan is None:
        entry = operators.approve(device, plans.group_of_order(device, groups, name), name)
    else:
        entry = plans.approve_plan(device, plan)
    return {"approved": entry.id, "counts": entry.counts}


def pause(device: Device, query: Query) -> dict[str, Any]:
    """Pause a release: `release`."""
    from covey.app.orders import fleet, releases

    found = releases.pause(device, fleet.Scope(fleet.shared_groups(device)), _id(query, "release"))
    return {"release": found.id, "state": found.state}


def abort(device: Device, query: Query) -> dict[str, Any]:
    """Abort a release permanently: `release`."""
    from covey.app.orders import fleet, releases

    found = releases.abort(device, fleet.Scope(fleet.shared_groups(device)), _id(query, "release"))
    return {"release": found.id, "state": found.state}


def resume(device: Device, query: Query) -> dict[str, Any]:
    """Resume a release, or start its next wave: `release`; with `accept` in spite of failed and silent devices."""
    from covey.app.orders import continuing, fleet, plans, releases

    groups, name = fleet.shared_groups(device), _id(query, "release")
    known = plans.find_plan(device, groups, name)
    if known is not None and known.kept is not None and continuing.lacking(device, known):
        raise LocalError("some of its groups lack this release", hint=f"covey release resume {name[:8]}")
    found = releases.resume(device, groups, name, None, accept=query.get("accept") == "yes")
    return {"release": found.id, "state": found.state}


def remove(device: Device, query: Query) -> dict[str, Any]:
    """Remove a device, by its key: `device`, from all groups that it shares with this one, or from none."""
    from covey.app.groups import groups
    from covey.app.orders import fleet

    key = device_key(query)
    if key == device.node.identity.signing_public:
        raise LocalError("that is this device", hint="covey group leave")
    found = [each for each in fleet.shared_groups(device) if each.member(key) is not None]
    if not found:
        raise LocalError("no such device")
    if len(found) == 1:
        groups.change_group(device, found[0], groups.removal(key))
    else:
        fleet.remove_everywhere(device, key, found, groups.labels_in(device, found[0]).named(key))
    return {"removed": key.hex(), "groups": [each.group_id.hex() for each in found]}


def silence(device: Device, query: Query) -> dict[str, Any]:
    """Send no alerts about a device, by its key: `device`, for so many `hours`; 0 ends it."""
    from covey.app.fleet import silences

    key, hours = device_key(query), query.get("hours", "")
    if not hours.isascii() or not hours.isdecimal() or len(hours) > _DIGITS:
        raise LocalError("hours is not a number")
    if not any(each.member(key) for each in device.node.groups.joined()):
        raise LocalError("no such device")
    if int(hours) == 0:
        silences.end_silence(device, key)
        return {"until_us": None}
    return {"until_us": silences.silence(device, key, int(hours) * _HOUR_US)}


ACTIONS: Mapping[str, Callable[[Device, Query], dict[str, Any]]] = {
    "/accept": accept,
    "/approve": approve,
    "/pause": pause,
    "/abort": abort,
    "/resume": resume,
    "/remove": remove,
    "/silence": silence,
}
"""What the page can change, by the path of the request."""


def device_key(query: Query) -> DeviceKey:
    """Return the key of the device that a query names.

    Raises:
        LocalError: it is no key.
    """
    try:
        return DeviceKey(from_hex(query.get("device", ""), KEY_BYTES))
    except RemoteError as error:
        raise LocalError("no such device") from error


def _id(query: Query, name: str) -> str:
    """Return a whole id: the page never abbreviates what it changes."""
    found = query.get(name, "")
    if len(found) not in {32, 64}:
        raise LocalError(f"no such {name}")
    return found
