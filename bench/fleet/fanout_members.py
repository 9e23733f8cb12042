"""Members of a group, each a whole device with a connection of its own; one loop turns them all.

python -m bench.fleet.fanout_members FOLDER      a line "FOLDER USERNAME PASSWORD" each on stdin, then an empty one
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import Empty, Queue

from covey.adapters.journal import report, set_least
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import Device, open_device
from covey.app.device.pins import pins
from covey.app.device.relay_access import make_relays
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.app.orders.setting_role import settings_role
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.ports import RelayEvent


class _Member:
    def __init__(self, device: Device) -> None:
        self.relays = Relays(make_relays(device.folder, device.config, device.node.identity))
        self.due_us: int | None = 0
        self._runtime = Runtime(
            device.store,
            self.relays,
            device.clock,
            lambda link: device.make_node(state=link, pins=partial(pins, device)),
            [settings_role(device, lambda: None)],
            report,
        )

    def turn(self, events: list[RelayEvent]) -> None:
        self.due_us = self._runtime.turn(events)


def _settle(device: Device, group: list[GroupManifest], secret: bytes) -> None:
    """Give a device the group as if it had joined long ago."""
    last = group[-1]
    with device.store.transaction():
        for each in group:
            device.store.groups.save_manifest(each.group_id, each.hash, each.version, each.raw, 0)
        device.store.groups.save_secret(last.group_id, last.epoch_id, secret, 0)
    device.node.refresh()


def _turn_all(members: list[_Member]) -> None:
    """Turn whoever has heard something, or has something to do, until the process is killed."""
    arrivals: Queue[tuple[_Member, RelayEvent]] = Queue()
    for member in members:
        member.relays.start(lambda event, member=member: arrivals.put((member, event)))  # type: ignore[misc]
    ready = False
    while True:
        now_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
        events: dict[_Member, list[RelayEvent]] = defaultdict(list)
        for member in members:
            if member.due_us is not None and member.due_us <= now_us:
                events[member] = []
        next_us = min((member.due_us for member in members if member.due_us is not None), default=now_us + 1_000_000)
        try:
            timeout_s = 0 if events else max(0.0, (next_us - now_us) / 1e6)
            member, event = arrivals.get(timeout=min(timeout_s, 1.0)) if timeout_s else arrivals.get_nowait()
            events[member].append(event)
            while True:
                member, event = arrivals.get_nowait()
                events[member].append(event)
        except Empty:
            pass
        for member, arrived in events.items():
            member.turn(arrived)
        if not ready and all(member.relays.connected for member in members):
            ready = True
            print("ready", flush=True)


def main() -> None:
    """Open all, and run them."""
    set_least("error")
    place = Path(sys.argv[1]) / "group"
    group = sorted((read_manifest(file.read_bytes()) for file in place.glob("*.manifest")), key=lambda it: it.version)
    secret = (place / "secret").read_bytes()
    with ExitStack() as opened:
        members = []
        for folder, _, _ in iter(lambda: sys.stdin.readline().split(), []):
            device = opened.enter_context(open_device(StateFolder.at(Path(folder))))
            _settle(device, group, secret)
            members.append(_Member(device))
        _turn_all(members)


if __name__ == "__main__":
    main()
