"""Checkpoints of a group's history: propose one, and list their states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from covey.app.device.device import Device
from covey.app.device.pins import pins
from covey.app.groups.groups import labels_in
from covey.core.checkpoints.checkpoints import Checkpoint, Checkpoints
from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.state import state_of
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.history.bodies import Merge
from covey.core.history.checkpoint import divided
from covey.core.history.operation import Operation
from covey.core.ids import GroupId, ManifestHash, device_name, labelled_name
from covey.core.node import Node
from covey.errors import LimitError, LocalError


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A checkpoint for people and programs: which devices signed it, by name, and of how many.

    `code` and `why` state the reason against it; both are empty if it counts. `objection` is the code of what keeps
    this device from signing it. `state_bytes` is the length of the state.
    """

    id: str
    author: str
    label: str
    signers: tuple[str, ...]
    electors: int
    counts: bool
    code: str
    why: str
    objection: str
    settings: int
    operators: int
    state_bytes: int


def checkpoints(device: Device, node: Node, manifest: GroupManifest) -> Checkpoints:
    """Return the checkpoints of a group, by what this device holds now.

    Raises:
        ConfigurationError: what is pinned is no key.
    """
    group_id = manifest.group_id
    void = node.history.standing(group_id).void
    named = partial(_named, device, group_id)
    return Checkpoints(device.store.operations, group_id, pins(device, group_id), void, named)


def entries(device: Device, manifest: GroupManifest) -> list[CheckpointEntry]:
    """Return all checkpoints of a group, the last one first."""
    labels = labels_in(device, manifest)
    return [_entry(each, labels) for each in checkpoints(device, device.node, manifest).newest_first()]


def last_that_counts(device: Device, manifest: GroupManifest) -> CheckpointEntry | None:
    """Return the checkpoint that holds; None where none does."""
    newest_first = checkpoints(device, device.node, manifest).newest_first()
    return next((_entry(each, labels_in(device, manifest)) for each in newest_first if not each.code), None)


def propose(device: Device, manifest: GroupManifest) -> CheckpointEntry:
    """Write the history's resulting state into it, for the group's admins to sign.

    Raises:
        LocalError: it is too long for a checkpoint, or not for this device to say.
    """
    with device.store.transaction():
        last = _write(device, manifest.group_id)
    found = next(each for each in checkpoints(device, device.node, manifest).newest_first() if each.id == last.id)
    return _entry(found, labels_in(device, manifest))


def _write(device: Device, group_id: GroupId) -> Operation:
    history, operations, now = device.node.history, device.store.operations, device.now()
    merge = history.write(group_id, Merge(), now)
    named = _named(device, group_id, merge.manifest)
    assert named is not None, "it was just named"
    covered = covered_by(operations.nodes(group_id), operations.frontier(group_id, merge.id))
    members = [each.keys.signing_public for each in named.members if not each.is_board]
    state = state_of(operations, group_id, covered, merge.id, pins(device, group_id), members)
    try:
        parts = divided(state.to_wire())
    except LimitError as error:
        raise LocalError(f"the group's state is too long for a checkpoint: {error}") from error
    return [history.write(group_id, part, now) for part in parts][-1]


def _named(device: Device, group_id: GroupId, manifest_hash: ManifestHash) -> GroupManifest | None:
    raw = device.store.groups.manifest(group_id, manifest_hash)
    return None if raw is None else read_manifest(raw, verify=False)


def _entry(checkpoint: Checkpoint, labels: DeviceLabels) -> CheckpointEntry:
    state = checkpoint.state
    return CheckpointEntry(
        checkpoint.id.hex(),
        device_name(checkpoint.author),
        labels.label(checkpoint.author),
        tuple(sorted(map(device_name, checkpoint.signers))),
        len(checkpoint.electors),
        not checkpoint.code,
        checkpoint.code,
        checkpoint.why,
        checkpoint.objection,
        0 if state is None else len(state.settings),
        0 if state is None else len(state.operators),
        checkpoint.state_bytes,
    )


def in_words(entry: CheckpointEntry) -> str:
    """Return one line that says what a checkpoint is worth."""
    signed = f"signed by {len(entry.signers)} of {entry.electors}"
    return f"checkpoint {entry.id[:8]} by {labelled_name(entry.author, entry.label)}: " + (entry.why or signed)
