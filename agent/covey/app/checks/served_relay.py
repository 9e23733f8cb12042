"""What `covey check` says of a relay that this device serves for others."""

from __future__ import annotations

import os
from collections.abc import Iterator

from covey.app.checks.findings import Examined, Level, Seen, error, ok


def served_relay(device: Examined) -> Iterator[Seen]:
    """Whether a relay of one's own is served, and lets in whom its files let in."""
    from covey.app.relays.serving_relay import lost_address, served

    place = served(device.folder)
    if not place.exists:
        yield Level.SKIPPED, "this device serves no relay", ""
        return
    url = device.configuration.config.relay.url
    lock = device.folder.locks.served_relay()
    if lock is not None:
        os.close(lock)
        yield error("the relay of this device is not served", "systemctl start covey-relay, or: covey relay serve")
    elif address := lost_address(device.folder, url):
        yield error(
            f"devices know this relay by {address}, an address that this machine has no more",
            "have the router keep that address for it; or: covey relay serve --host NAME, and on each device: "
            "covey relay --url mqtts://NAME",
        )
    elif place.in_force():
        yield ok(f"served as {url}, with all accounts in force")
    else:
        yield error(
            "the broker has not been reloaded: who was let in or shut out last is not yet",
            "a second is usual; if this stays: systemctl restart covey-relay",
        )
