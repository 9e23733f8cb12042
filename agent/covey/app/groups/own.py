"""A person's own devices: their personal group, the groups and preferences in its history, and the events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.device.device import Device
from covey.app.device.known_labels import own_label
from covey.app.groups.documents import Own, OwnDevice, OwnGroupEntry, OwnGroupEvent, OwnPreference, OwnPreferenceEvent
from covey.app.groups.groups import change_group, removal
from covey.app.groups.own_devices import own_devices
from covey.core.group.manifest import EQUAL_MODES, GroupManifest, Mode, Role
from covey.core.history.bodies import read_body
from covey.core.history.operation import read_operation
from covey.core.history.personal import FLEET, IN_FLEET, NOT_IN_FLEET, Holding, OwnGroup, Preference
from covey.core.ids import DeviceKey, GroupId, device_name
from covey.core.own.state import KnownGroup, PersonalState
from covey.core.presence.status import condition
from covey.errors import LocalError, UsageError
from covey.limits.personal import MAXIMUM_PREFERENCE_KEY_BYTES, MAXIMUM_PREFERENCE_VALUE_BYTES, MAXIMUM_PREFERENCES

if TYPE_CHECKING:
    from covey.core.ids import OperationId


_NONE = LocalError(
    "this device is in no group of your own devices",
    hint="create one: covey own create; or get a code on another device of yours: covey own link",
)


def personal_group(device: Device) -> GroupManifest:
    """Return the group of the person's own devices.

    Raises:
        LocalError: none is named on this device, or it is no member of it.
    """
    found = own_devices(device).group()
    if found is not None:
        return found
    joined = (group.group_id.hex()[:8] for group in device.node.groups.joined() if group.mode is Mode.PERSONAL)
    if (name := next(joined, None)) is not None:
        raise LocalError(
            f"this device joined group {name} with 'covey join', so it is not one of your own devices there",
            hint=f"covey group leave --group {name}; then, with a new code: covey own link CODE",
        )
    raise _NONE


def create_personal(device: Device) -> GroupManifest:
    """Make the group of the person's own devices, with this one alone in it.

    Raises:
        LocalError: this device is in one, or in too many groups.
    """
    check_unlinked(device)
    with device.store.transaction():
        made = device.node.membership.create(own_label(device), (), device.now().wall_us, Mode.PERSONAL)
        device.store.personal.pin(made.group_id)
    return made


def check_unlinked(device: Device) -> None:
    """Check that this device is not in a group of its person's devices.

    Raises:
        LocalError: it is.
    """
    found = own_devices(device).group()
    if found is not None:
        raise LocalError(
            "this device is already in a group of your own devices",
            hint=f"'covey own devices' lists them; to leave it: covey group leave --group {found.group_id.hex()[:8]}",
        )


def check_linked(device: Device, group_id: GroupId) -> None:
    """Check that a group that was just joined as one's own is a personal one; else forget that it was named so.

    Raises:
        LocalError: it is a group of another mode.
    """
    if device.node.groups.group(group_id).mode is not Mode.PERSONAL:
        with device.store.transaction():
            device.store.personal.unpin()
        raise LocalError(
            "that is not a group of own devices; this device is now a plain member of it",
            hint="get a code with 'covey own link' on the other device; to leave this group: covey group leave "
            f"--group {group_id.hex()[:8]}",
        )


@dataclass(frozen=True, slots=True)
class Retired:
    """The groups of this device that a retired one is out of, and those that list it still, each with what helps."""

    out: list[GroupManifest]
    listed: list[tuple[GroupManifest, str]]


def retire(device: Device, retired: DeviceKey) -> Retired:
    """Take one of the person's other devices out of their group, then of all others as far as these let this one.

    What it has left or erased stays so: this device says it from now on.

    Raises:
        LocalError: as `personal_group`; or nobody keeps more of this device's history.
    """
    personal = personal_group(device)
    with device.store.transaction():
        own_devices(device).speak_for(retired, device.now())
    change_group(device, personal, removal(retired))
    found = Retired([], [])
    for group in [each for each in device.node.groups.joined() if each.member(retired) is not None]:
        if group.mode in EQUAL_MODES:
            change_group(device, group, removal(retired))
            found.out.append(group)
        else:
            found.listed.append((group, _removing(device, group, retired)))
    return found


def set_fleet(device: Device, group: GroupManifest, *, belongs: bool) -> None:
    """Add a group to the fleet of all of the person's devices, or remove it.

    Raises:
        UsageError: it is public, or that of the own devices.
        LocalError: there is no group of own devices.
    """
    if belongs and group.mode is Mode.PUBLIC:
        raise UsageError("a public group cannot belong to a fleet", hint="anyone can join it and read your orders")
    if group.mode is Mode.PERSONAL:
        raise UsageError("the group of your own devices is not part of the fleet", hint="it keeps the fleet's plans")
    personal = personal_group(device)
    with device.store.transaction():
        said = Preference(group.group_id, FLEET, IN_FLEET if belongs else NOT_IN_FLEET)
        device.node.history.write(personal.group_id, said, device.now())


def _removing(device: Device, group: GroupManifest, retired: DeviceKey) -> str:
    """Return how to remove a device from a group of unequal members: a ban by its admins, or leaving it."""
    own, group_id = group.member(device.node.identity.signing_public), group.group_id.hex()[:8]
    if group.mode is Mode.ONE_TO_ONE:
        return f"covey group leave --group {group_id}"
    where = "" if own is not None and own.role is Role.ADMIN else "on an admin's device: "
    return f"{where}covey group ban {device_name(retired)} --group {group_id}"


def follows(device: Device, group: GroupManifest) -> bool:
    """Say whether other devices of the person leave a group when this one does."""
    found = own_devices(device).group()
    return found is not None and group.group_id != found.group_id and len(found.members) > 1


def own(device: Device) -> Own:
    """Return the person's devices, groups and preferences.

    Raises:
        LocalError: as `personal_group`.
    """
    personal = personal_group(device)
    state = own_devices(device).state(personal)
    return Own(personal.group_id.hex(), _devices(device, personal), _groups(device, state), _preferences(state))


def _devices(device: Device, personal: GroupManifest) -> tuple[OwnDevice, ...]:
    shared = [each for each in device.node.groups.joined() if each.mode is not Mode.PERSONAL]
    seen, presences = device.store.presence.last_seen(), device.store.presence.of_peers()
    now_us, this = device.now().wall_us, device.node.identity.signing_public

    def shown(key: DeviceKey, label: str) -> OwnDevice:
        presence, since_us = condition(presences.get(key), seen.get(key), now_us)
        groups = tuple(each.group_id.hex() for each in shared if each.member(key) is not None)
        if key == this:
            return OwnDevice(device_name(key), label, True, None, None, None, groups)
        return OwnDevice(device_name(key), label, False, presence, since_us, seen.get(key), groups)

    return tuple(shown(each.keys.signing_public, each.label) for each in personal.members)


def _groups(device: Device, state: PersonalState) -> tuple[OwnGroupEntry, ...]:
    by_holding = sorted(state.groups.values(), key=lambda each: (each.holding, each.group_id))
    return tuple(group_entry(device, each) for each in by_holding)


def group_entry(device: Device, known: KnownGroup) -> OwnGroupEntry:
    """Return a group of the person's as one of the devices knows it."""
    member = any(each.group_id == known.group_id for each in device.node.groups.joined())
    title = device.node.history.profile(known.group_id).title if member else ""
    return OwnGroupEntry(
        known.group_id.hex(),
        title or known.title,
        known.holding.name.lower(),  # type: ignore[arg-type]  # the names are the document's
        member,
        device_name(known.author),
        known.made_at_us,
    )


def _preferences(state: PersonalState) -> tuple[OwnPreference, ...]:
    by_place = sorted(state.preferences.items(), key=lambda each: (each[0][0] or b"", each[0][1]))
    return tuple(
        OwnPreference(None if group_id is None else group_id.hex(), key, value) for (group_id, key), value in by_place
    )


def read_preference(body: bytes) -> tuple[str, str | None, str | None]:
    """Read a program's preference: (key, value or None for none any more, beginning of a group's id or None).

    Raises:
        UsageError: it is not what is asked for.
    """
    try:
        found = json.loads(body)
    except ValueError as error:
        raise UsageError("the body is not JSON") from error
    if not isinstance(found, dict) or not {"key", "value"} <= set(found) <= {"key", "value", "group"}:
        raise UsageError(
            "a preference must be a JSON object with key, value and optionally group; the value null unsets it"
        )
    key, value, group = found["key"], found["value"], found.get("group")
    if not isinstance(key, str) or not all(each is None or isinstance(each, str) for each in (value, group)):
        raise UsageError("key, value and group must be texts")
    try:
        f"{key}{value}{group}".encode()
    except UnicodeEncodeError as error:
        raise UsageError("a text is not valid Unicode") from error
    return key, value, group


def set_preference(device: Device, key: str, value: str | None, group: str | None) -> OwnPreference | None:
    """Say how the person wants something, on all their devices; None: no longer. `group` is the beginning of an id.

    Raises:
        LocalError: no personal group, too many preferences, or no such group.
        UsageError: too long, or without a name.
    """
    for what, text, most in (
        ("a preference's name", key, MAXIMUM_PREFERENCE_KEY_BYTES),
        ("a preference", value or "", MAXIMUM_PREFERENCE_VALUE_BYTES),
    ):
        if len(text.encode()) > most:
            raise UsageError(f"{what} must have at most {most} bytes", hint="a note may be longer: covey history post")
    if not key:
        raise UsageError("a preference needs a name", hint="covey own preference NAME VALUE")
    personal = personal_group(device)
    state = own_devices(device).state(personal)
    group_id = None if group is None else _pick(state, group)
    if (group_id, key) not in state.preferences and len(state.preferences) >= MAXIMUM_PREFERENCES:
        raise LocalError(
            f"you have {MAXIMUM_PREFERENCES} preferences, the maximum", hint="covey own preference --unset NAME"
        )
    with device.store.transaction():
        device.node.history.write(personal.group_id, Preference(group_id, key, value), device.now())
    return None if value is None else OwnPreference(None if group_id is None else group_id.hex(), key, value)


def _pick(state: PersonalState, name: str) -> GroupId:
    held = [each for each, known in state.groups.items() if known.holding is Holding.HELD]
    matching = [each for each in held if each.hex().startswith(name.lower())]
    if len(matching) != 1:
        raise LocalError(f"{len(matching)} of your groups match '{name[:64]}'", hint="'covey own groups' lists them")
    return matching[0]


class OwnChanges:
    """What the personal group's history comes to when this is made, and what an operation of it says of that."""

    def __init__(self, device: Device) -> None:
        self._device = device
        machine = own_devices(device)
        self._personal = machine.group()
        self._state = None if self._personal is None else machine.state(self._personal)

    def document(
        self, group_id: GroupId, operation: OperationId, at_us: int
    ) -> OwnGroupEvent | OwnPreferenceEvent | None:
        """Return what is so now of what an operation is about; None where that is not the person's own."""
        raw = self._device.store.operations.raw(group_id, operation)
        if self._personal is None or self._state is None or group_id != self._personal.group_id or raw is None:
            return None
        match read_body(read_operation(raw, verify=False)):
            case OwnGroup(group_id=about) if about in self._state.groups:
                return OwnGroupEvent(group_id.hex(), at_us, group_entry(self._device, self._state.groups[about]))
            case Preference(group_id=about, key=key):
                value = self._state.preferences.get((about, key))
                return OwnPreferenceEvent(group_id.hex(), at_us, None if about is None else about.hex(), key, value)
        return None
