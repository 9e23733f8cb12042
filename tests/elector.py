"""A device that may sign checkpoints, as its agent does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from covey.app.history.roles import CheckpointSigning
from covey.core.checkpoints.checkpoints import Checkpoint, Checkpoints
from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.state import CheckpointState, state_of
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.history.bodies import Merge
from covey.core.history.body import OperationBody
from covey.core.history.checkpoint import divided
from covey.core.history.operation import Operation
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.node import Node
from covey.core.now import Now
from covey.core.orders.authority import Pins
from tests.fleet import Device


def _as_it_is(state: CheckpointState) -> CheckpointState:
    return state


class Elector:
    """A device that has pinned operators, and signs what it makes itself."""

    def __init__(self, device: Device, pins: Pins) -> None:
        self.device, self.pins = device, pins
        device.nodes.pins = pins
        self.reported: list[str] = []
        self._now_us = 0
        self.start()

    def start(self) -> None:
        """Begin a process."""
        store = self.device.store
        self._role = CheckpointSigning(
            store, store.operations, self._proposals, lambda _level, line: self.reported.append(line)
        )

    def _proposals(self, node: Node, group: GroupManifest) -> Iterable[Checkpoint]:
        return self.of(node, group.group_id).last_of_each_author()

    def of(self, node: Node, group_id: GroupId) -> Checkpoints:
        """Return what it holds."""

        def named(manifest_hash: ManifestHash) -> GroupManifest | None:
            raw = self.device.store.groups.manifest(group_id, manifest_hash)
            return None if raw is None else read_manifest(raw)

        void = node.history.standing(group_id).void
        return Checkpoints(self.device.store.operations, group_id, self.pins, void, named)

    def turn(self) -> None:
        """Let the role take a turn, some time later."""
        self._now_us += 5_000_000
        self._role.turn(self.device.node, Now(self._now_us, self._now_us))

    def say(self, group_id: GroupId, body: OperationBody) -> Operation:
        """Write an operation."""
        with self.device.store.transaction():
            return self.device.node.history.write(group_id, body, self.device.now)

    def propose(
        self,
        group_id: GroupId,
        pins: Pins | None = None,
        lie: Callable[[CheckpointState], CheckpointState] = _as_it_is,
    ) -> OperationId:
        """Propose a checkpoint; return its id."""
        operations, merge = self.device.store.operations, self.say(group_id, Merge())
        raw = self.device.store.groups.manifest(group_id, merge.manifest)
        assert raw is not None, "it was just named"
        covered = covered_by(operations.nodes(group_id), operations.frontier(group_id, merge.id))
        members = [each.keys.signing_public for each in read_manifest(raw).members]
        state = state_of(operations, group_id, covered, merge.id, pins or self.pins, members)
        return [self.say(group_id, part) for part in divided(lie(state).to_wire())][-1].id

    def signers(self, group_id: GroupId, checkpoint: OperationId) -> set[DeviceKey]:
        """Return who has signed a checkpoint."""
        found = self.of(self.device.node, group_id).newest_first()
        return set(next(each for each in found if each.id == checkpoint).signers)
