"""Noise keys that devices name in their reports, where no manifest lists them (docs/protocol/groups.md, "Lost keys").

A device whose state and keys come from an old backup has another noise key than its groups list: nothing that is
sealed for the listed one opens there, so it never learns of that. Its report names the key that it does hold. Until a
manifest lists that one, reports go for both keys, and what else tells it of its groups in turn for either.

Nobody can be sure that the report is new, because a relay may repeat an old one. So the listed key stays in use.
"""

from __future__ import annotations

from covey.core.ids import DeviceKey, NoisePublic
from covey.limits.heads import NAMED_KEY_US, NAMED_KEYS


class NamedKeys:
    """The key that each device has named last; in memory only."""

    def __init__(self) -> None:
        self._named: dict[DeviceKey, tuple[NoisePublic, int]] = {}

    def note(self, device: DeviceKey, named: NoisePublic | None, listed: NoisePublic, now_us: int) -> None:
        """Note what a device's report names, with the key that this device knows of it."""
        self._named.pop(device, None)
        if named is not None and named != listed:
            while len(self._named) >= NAMED_KEYS:
                del self._named[next(iter(self._named))]
            self._named[device] = named, now_us

    def of(self, device: DeviceKey, listed: NoisePublic, now_us: int) -> NoisePublic | None:
        """Return the key that a device has named of late, unless it is the listed one."""
        named, since_us = self._named.get(device, (listed, now_us))
        return named if named != listed and now_us < since_us + NAMED_KEY_US else None
