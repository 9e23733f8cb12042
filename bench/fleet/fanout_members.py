"""Members of a group, each a whole device with a connection of its own; one loop turns them all.

python -m bench.fleet.fanout_members settings|commands

A line "FOLDER USERNAME PASSWORD GROUP" each on stdin, then an empty one. They obey settings, or commands.
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
from covey.app.loop.runtime import AgentRole, Runtime
from covey.app.orders.command_role import commands_role
from covey.app.orders.setting_role import settings_role
from covey.core.actions.commands import ObeyedSince
from covey.core.group.manifest import read_manifest
from covey.core.history.operation import read_operation
from covey.ports import RelayEvent


class _Member:
    def __init__(self, device: Device, role: AgentRole) -> None:
        self.relays = Relays(make_relays(device.folder, device.config, device.node.identity))
        self.due_us: int | None = 0
        self._runtime = Runtime(
            device.store,
            self.relays,
            device.clock,
            lambda link: device.make_node(state=link, pins=partial(pins, device)),
            [role],
            report,
        )

    def turn(self, events: list[RelayEvent]) -> None:
        self.due_us = self._runtime.turn(events)


def _settle(device: Device, place: Path) -> None:
    """Give a device the group that lies in a folder as if it had joined long ago, and obeyed since where it is to."""
    manifests = sorted(
        (read_manifest(each.read_bytes()) for each in place.glob("*.manifest")), key=lambda it: it.version
    )
    last, own, now_us = manifests[-1], device.node.identity.signing_public, device.now().wall_us
    with device.store.transaction():
        for each in manifests:
            device.store.groups.save_manifest(each.group_id, each.hash, each.version, each.raw, 0)
        device.store.groups.save_secret(last.group_id, last.epoch_id, (place / "secret").read_bytes(), 0)
        for path in sorted(place.glob("*.operation")):
            operation = read_operation(path.read_bytes(), verify=False)
            device.store.operations.add(operation, last.version, now_us)
            if operation.author == own:
                since = ObeyedSince(operation.id, operation.height, device.store.incarnations.present())
                device.store.commands.note_obeyed(last.group_id, since)
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
    obeys = sys.argv[1]
    with ExitStack() as opened:
        members = []
        for folder, _, _, place in iter(lambda: sys.stdin.readline().split(), []):
            device = opened.enter_context(open_device(StateFolder.at(Path(folder))))
            _settle(device, Path(place))
            role: AgentRole = (
                settings_role(device, _nothing) if obeys == "settings" else commands_role(device, _nothing, ())
            )
            members.append(_Member(device, role))
        _turn_all(members)


def _nothing() -> None:
    """Restart nothing."""


if __name__ == "__main__":
    main()
