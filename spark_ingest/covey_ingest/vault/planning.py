"""Plan a run: its position in the vaults, and the tasks up to its next offset. Both engines use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from covey_ingest.options import SourceOptions
from covey_ingest.vault.offsets import Offset, Position, Work, latest_offset, nodes_of, ranges, runs
from covey_ingest.vault.pruning import EVERYTHING, Selection
from covey_ingest.vault.repairs import Prober
from covey_ingest.vault.vaults import FollowedVault, VaultPlace, Vaults, together, unqualified

Task = tuple[VaultPlace, Work]
"""Work in one vault."""

BYTES_PER_WORKER = 256 * 1024
"""Of fewer bytes for each worker a micro-batch goes to fewer of them, and becomes fewer files."""


class Planner:
    """Follows the vaults for one run."""

    def __init__(self, options: SourceOptions) -> None:
        """Look at nothing yet."""
        self._options = options
        self._followed = [FollowedVault(place, options.open) for place in options.places]
        self._prober = Prober(options.failed)
        self._until: Offset | None = None
        self._nodes: list[str] = []

    def next_offset(self, start: Offset, segments: int | None, size: int | None) -> Offset:
        """Return the offset after at most so many segments and bytes more (rule 1 of `offsets`).

        Raises:
            StorageError: no vault answers.
        """
        vaults = self._vaults()
        own, others = vaults.divided(start)
        end = latest_offset(vaults, own, segments, self._until, size, self._prober.whole(vaults))
        self._nodes = nodes_of(end)
        return together(end, others)

    def end_here(self) -> None:
        """Plan nothing beyond what the vaults list now."""
        self._until = latest_offset(self._vaults(), {}, None)

    def listed(self) -> Offset:
        """Return how far the manifests that were looked at reach: what is between is the lag. Reads nothing."""
        vaults = self._vaults()
        held = {node: vaults.held(node) for node in self._nodes}
        return {
            node: Position(manifest.manifest_seq, manifest.last_number).to_json()
            for node, manifest in held.items()
            if manifest is not None
        }

    def tasks(self, start: Offset, end: Offset, wanted: Selection = EVERYTHING) -> list[Task]:
        """Return the tasks between two offsets.

        Raises:
            StorageError: what was planned cannot be looked up any more (rule 3 of `offsets`).
        """
        vaults = self._vaults()
        return tasks(vaults, wanted.works(ranges(vaults, start, end)))

    def _vaults(self) -> Vaults:
        return Vaults([(each.place, each.reader()) for each in self._followed], self._options.home)


def tasks(vaults: Vaults, works: Iterable[Work]) -> list[Task]:
    """Return what was planned over some vaults as work in one of them each."""
    return [(vaults.place(work.node), replace(work, node=unqualified(work.node))) for work in works]


def shared_out(planned: Sequence[Task], most: int) -> list[tuple[Task, ...]]:
    """Divide tasks between at most so many workers: each next one to the least loaded.

    What is more than a worker's share is cut between two segments, so that all workers end at about the same time.
    """
    total = sum(map(_size, planned))
    count = min(most, max(1, total // BYTES_PER_WORKER))
    pieces = [piece for task in planned for piece in _pieces(task, -(-total // count))]
    parts: list[list[Task]] = [[] for _ in range(count)]
    loads = [0] * count
    for piece in sorted(pieces, key=lambda piece: -_size(piece)):
        least = loads.index(min(loads))
        parts[least].append(piece)
        loads[least] += _size(piece)
    return [tuple(part) for part in parts if part]


def _pieces(task: Task, most_bytes: int) -> Iterator[Task]:
    place, work = task
    if work.reread or not work.entries:  # one row tells of the whole
        yield task
        return
    for run in runs(work.entries, most_bytes):
        yield place, replace(work, entries=run)


def _size(task: Task) -> int:
    return sum(entry.size for entry in task[1].entries)
