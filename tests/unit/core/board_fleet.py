"""Two gateways, a collector, and a board behind one of the gateways."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from covey.core.events import EnvelopeDropped
from covey.core.ids import GroupId, Incarnation
from covey.core.vault.landing import LandingPlan
from covey.core.wire.message import read_message
from tests.board import Board, enrol
from tests.fleet import Device, carry, found


@dataclass
class Fleet:
    """Two gateways, a collector and a board behind the first gateway."""

    gate: Device
    other: Device
    collector: Device
    board: Board
    group_id: GroupId

    def telemetry(self) -> bytes:
        return self.board.message(self.collector.identity.keys, self.group_id)

    def forward(self, envelope: bytes, by: Device | None = None) -> None:
        gateway = by or self.gate
        with gateway.store.transaction():
            gateway.node.forward(self.board.key, self.collector.key, envelope, gateway.now)

    def land(self) -> None:
        """Let the collector put everything into its vault, and tell."""
        collector = self.collector
        waiting = collector.store.landing.waiting(1 << 20, 100)
        assert waiting is not None
        with collector.store.transaction():
            for landed in collector.store.landing.until(waiting[0]):
                collector.node.landing.landed(landed.author, landed.incarnation, {landed.link_seq}, collector.now)
            plan = LandingPlan(1, Incarnation(b"incarnat"), waiting[0], 1, bytes(24))
            collector.store.landing.begin(plan)
            collector.store.landing.finish(plan, 1)

    def carry(self) -> None:
        carry(self.gate, self.other, self.collector)

    def acknowledgements(self, device: Device | None = None) -> list[int]:
        taken = (device or self.gate).node.routes.take()
        assert {forward.to for forward in taken} <= {self.board.key}
        return [self.board.acknowledged(forward.envelope) for forward in taken]

    def landed(self) -> list[bytes]:
        """Return the bodies that the collector holds of the board."""
        waiting = self.collector.store.landing.waiting(1 << 20, 100)
        rows = self.collector.store.landing.until(waiting[0]) if waiting else []
        return [read_message(row.message).body for row in rows if row.author == self.board.key]


def behind_two_gateways(folder: Path) -> Fleet:
    """Found the group, and let the board in."""
    gate, other = Device("gate", folder), Device("other", folder)
    collector = Device("collector", folder, collects=True)
    group_id = found(gate, other, collector)
    board = Board("board")
    enrol(board, gate, group_id)
    made = Fleet(gate, other, collector, board, group_id)
    made.carry()
    return made


def codes(device: Device) -> list[str]:
    """Return why envelopes were dropped."""
    return [event.code for event in device.events() if isinstance(event, EnvelopeDropped)]
