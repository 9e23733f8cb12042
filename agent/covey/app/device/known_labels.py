"""Labels of other devices, for texts that only know keys and names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from covey.app.device.device import Device, find_state, open_device
from covey.core.ids import labelled_name, printable
from covey.errors import CoveyError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder

_SELECTOR = 48
"""Characters that are shown of a label or capability."""


def known_labels() -> dict[str, Any]:
    """Return the members of this device's groups as `covey fleet --json` names them; nothing where there is no device.

    A report needs no device: whatever keeps this one from being read is no error of the report's.
    """
    try:
        with open_device(find_state()) as device:
            members = [each for group in device.node.groups.joined() for each in group.members]
            return {"devices": [{"key": each.keys.signing_public.hex(), "label": each.label} for each in members]}
    except (CoveyError, OSError):
        return {}


def namer_of(folder: StateFolder) -> Callable[[str], str]:
    """Return a `namer` of the device in a folder; what keeps that from being read leaves names as they are."""
    try:
        with open_device(folder) as device:
            return namer(device)
    except (CoveyError, OSError):
        return str


def namer(device: Device) -> Callable[[str], str]:
    """Return a function that adds a device's labels to its name, safe for a terminal."""
    labels = {each.name: each.label for group in device.node.groups.joined() for each in group.members}
    return lambda name: labelled_name(name, labels.get(name, ""))


def own_label(device: Device) -> str:
    """Return what this device is called: by a group that it is in, so that a renamed device has one name; else by its
    configuration."""
    own = device.node.identity.signing_public
    members = (group.member(own) for group in device.node.groups.joined())
    return next((member.label for member in members if member is not None and member.label), device.config.label)


def named_selector(device: Device, selector: str) -> str:
    """Return an order's targets, as `Selector` writes them, with devices named by a `namer`."""
    if selector == "all" or ":" in selector:
        return printable(selector, _SELECTOR)
    return ", ".join(map(namer(device), selector.split(",")))
