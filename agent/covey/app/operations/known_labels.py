"""What the device on this machine calls others, for a report that is made of keys alone."""

from __future__ import annotations

from typing import Any

from covey.app.device import find_state, open_device
from covey.errors import CoveyError


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
