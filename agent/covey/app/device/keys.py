"""This device's noise key: draw a new one, and list earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

from covey.app.device.device import Device
from covey.limits.key import RETIRED_NOISE_KEY_US_MAX


@dataclass(frozen=True, slots=True)
class RetiredKey:
    """A noise key of before a rotation; `listed`: a group names it still. It is wiped at `latest_us` at the latest."""

    public: bytes
    listed: bool
    latest_us: int


def rotate_noise_key(device: Device) -> None:
    """Store a new key, then tell every group: what a crash leaves undone, the agent or the next rotation finishes."""
    with device.store.transaction():
        device.node.refresh()
        device.folder.noise_keys.rotate(device.node.identity, device.clock.wall_us())
        device.node.actions.rotate_noise_key(device.now())


def retired_keys(device: Device) -> list[RetiredKey]:
    """Return the noise keys that are kept until all members know the new one."""
    listed = {
        own.keys.noise_public
        for group in device.node.groups.joined()
        if (own := group.member(device.node.identity.signing_public)) is not None
    }
    return [
        RetiredKey(key.public, key.public in listed, key.retired_at_us + RETIRED_NOISE_KEY_US_MAX)
        for key in device.node.identity.noise.retired
    ]
