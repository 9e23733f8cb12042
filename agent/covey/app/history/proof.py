"""Verify a history: judge every operation again, as if unknown devices had sent it."""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.adapters.sqlite.history.operations import OperationTables
from covey.adapters.sqlite.store import empty_history
from covey.app.device.device import Device
from covey.app.history.checkpoints import CheckpointEntry, checkpoints, last_that_counts
from covey.app.history.history import every_operation
from covey.core.checkpoints.forgetting import count_uncovered
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.history.acceptance import Acceptance, Waits
from covey.core.history.operation import Operation, StoredOperation, read_operation
from covey.core.ids import DeviceKey
from covey.core.membership.replay import replayed
from covey.errors import LocalError, RemoteError
from covey.limits.history import FORKS_OF_ONE

_COMPLAINTS = 20
"""Complaints that are kept: a person needs the first ones."""


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """What a replay of a group's whole history has found; `complaints` is empty where all of it holds."""

    operations: int
    authors: int
    versions: int
    first_version: int
    forks: int
    forked: tuple[str, ...]
    """Whose they are."""
    void: int
    complaints: tuple[str, ...]
    checkpoint: CheckpointEntry | None = None
    """The last one that counts."""
    deleted: int = 0
    """Operations whose content was deleted here; a checkpoint covers them."""


def verify_history(device: Device, manifest: GroupManifest) -> HistoryReport:
    """Judge every version and operation of a group again, from the first one on, as if strangers had sent them."""
    group_id = manifest.group_id
    manifests = [read_manifest(raw) for raw in device.store.groups.manifests_from(group_id, 1)]
    found = _Replayed(complaints=[])
    if replayed(group_id, manifests) is None:
        found.complaints.append("the versions of the group do not follow one another")
    kept, groups = device.store.operations, device.store.groups
    forgotten = kept.forgotten.count(group_id)
    proposed = checkpoints(device, device.node, manifest).newest_first()
    if forgotten and (lost := count_uncovered(kept, group_id, proposed)):
        found.complaints.append(f"{lost} operations are not here that no checkpoint covers")
    with empty_history(kept.forgotten) as operations:
        acceptance = Acceptance(operations, groups.manifest, at_version=groups.manifests_at)
        for stored in every_operation(device, group_id):
            found.operations += 1
            try:
                operation = _replay(acceptance, operations, stored)
            except (RemoteError, LocalError) as error:
                if len(found.complaints) < _COMPLAINTS:
                    found.complaints.append(f"operation {stored.id.hex()[:8]}: {error}")
            else:
                found.authors.add(operation.author)
                if operations.numbered(group_id, operation.log, operation.number) == FORKS_OF_ONE:
                    found.forks += 1
                    found.forked.add(operation.author)
    return HistoryReport(
        found.operations,
        len(found.authors),
        len(manifests),
        manifests[0].version,
        found.forks,
        tuple(sorted(each.hex() for each in found.forked)),
        len(device.node.history.standing(group_id).void),
        tuple(found.complaints),
        last_that_counts(device, manifest),
        forgotten,
    )


@dataclass(slots=True)
class _Replayed:
    complaints: list[str]
    operations: int = 0
    forks: int = 0
    forked: set[DeviceKey] = field(default_factory=set)
    authors: set[DeviceKey] = field(default_factory=set)


def _replay(acceptance: Acceptance, operations: OperationTables, stored: StoredOperation) -> Operation:
    """Take an operation as if it came now.

    Raises:
        RemoteError: the rule that it breaks.
        LocalError: the operation depends on others that this device does not have.
    """
    operation = read_operation(stored.raw)
    judged = acceptance.judge(operation, bounded=False)
    if isinstance(judged, Waits):
        raise LocalError("the operation depends on others that this device does not have")
    operations.add(operation, judged.version, 0)
    return operation
