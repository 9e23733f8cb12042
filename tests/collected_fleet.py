"""A collector's state and vault as a fleet leaves them, made without the fleet, for `covey fleet` and its page."""

from __future__ import annotations

import time
from pathlib import Path

from covey.adapters.state_folder import StateFolder
from covey.app.device.device import Device, open_device
from covey.app.groups.groups import create_group
from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import EpochId
from covey.core.presence.status import PeerPresence, State
from covey.core.telemetry.batch import ClockKind, ClockReading
from tests.integration.gateway import Gateway
from tests.spark.fleet import BOOTED_US, Author, Collector

_HOUR_US = 3_600_000_000
_AT_ONCE = 500
"""Messages of one segment."""
_IN_A_GROUP = 900


class CollectedFleet:
    """A device named `hub` with groups of so many devices in all, and two hours of their readings in its vault."""

    def __init__(self, folder: Path, count: int, rounds: int = 8) -> None:
        self.hub = Gateway(folder, "hub")
        self.hub.ok("vault", "init")
        self.now_us = time.time_ns() // 1000
        self.folder = StateFolder.at(self.hub.state)
        with open_device(self.folder) as device:
            keys = self.folder.vault_key(device.node.identity).read().keys
            self.collector = Collector(self.hub.state / "vault", 1, keys[0], device.node.identity)
            self.authors = [Author(self.collector, seed) for seed in range(2, 2 + count)]
            for first in range(0, count, _IN_A_GROUP):
                group = create_group(device, ("collector",), "admin-invites")
                self.group_id = group.group_id.hex()
                self._let_in(device, group, range(first, min(first + _IN_A_GROUP, count)))
            self._note_presence(device)
            for place in range(rounds):
                self._land(self.now_us - (rounds - 1 - place) * 2 * _HOUR_US // rounds)

    def label(self, place: int) -> str:
        """Return what a device is called."""
        return f"field-{place:05}"

    def land_one(self, place: int, name: str, value: float) -> int:
        """Let a device's collector land a reading of now; return its time in microseconds since 1970."""
        author, at_us = self.authors[place], time.time_ns() // 1_000
        clock = ClockReading(author.boot_id, BOOTED_US, at_us, ClockKind.SYNCHRONISED)
        self.collector.identity = self.folder.identity()  # that of the set-up was wiped at its end
        message = author.telemetry([(name, "m", BOOTED_US, value)], clock)
        self.collector.land(message, received_at_us=at_us)
        return at_us

    def _let_in(self, device: Device, group: GroupManifest, places: range) -> None:
        def edit(draft: GroupManifest, _: EpochId) -> GroupManifest:
            for place in places:
                keys = self.authors[place].identity.keys
                draft = draft.adding(Member(keys, self.label(place), since=draft.version))
            return draft

        with device.store.transaction():
            device.node.actions.change(group.group_id, edit, device.now())
            for place in places:
                device.store.outbox.forget(self.authors[place].identity.signing_public)

    def _note_presence(self, device: Device) -> None:
        with device.store.transaction():
            for place, author in enumerate(self.authors):
                seen_us = self.now_us - (_HOUR_US if place % 20 == 7 else 0)
                presence = PeerPresence(1, State.HERE, 60, (0,), seen_us - _HOUR_US, seen_us)
                device.store.presence.note(author.identity.signing_public, presence)

    def _land(self, at_us: int) -> None:
        for first in range(0, len(self.authors), _AT_ONCE):
            batch = [self._measured(place, at_us) for place in range(first, min(first + _AT_ONCE, len(self.authors)))]
            self.collector.land(*batch, received_at_us=at_us)

    def _measured(self, place: int, at_us: int) -> bytes:
        author = self.authors[place]
        clock = ClockReading(author.boot_id, BOOTED_US, at_us, ClockKind.SYNCHRONISED)
        swing = (at_us // 60_000_000 + 7 * place) % 40
        readings = [
            ("soil:moisture", "%RH", BOOTED_US - 1_000_000, 25 + swing / 4),
            ("air:temperature", "Cel", BOOTED_US - 1_000_000, 12.5 + swing / 8),
            ("battery", "V", BOOTED_US - 1_000_000, 3.3 + place % 7 / 10),
            ("pump", "", BOOTED_US - 1_000_000, place % 2 == 0),
        ]
        return author.telemetry(list(readings), clock)
