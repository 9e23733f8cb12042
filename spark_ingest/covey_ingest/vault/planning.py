"""Plan a run: its position in the vaults, and the tasks up to its next offset. Both engines use it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from covey_ingest.options import SourceOptions
from covey_ingest.vault.offsets import Offset, Position, Work, latest_offset, nodes_of, ranges
from covey_ingest.vault.pruning import EVERYTHING, Selection
from covey_ingest.vault.repairs import Prober
from covey_ingest.vault.vaults import FollowedVault, VaultPlace, Vaults, together, unqualified

Task = tuple[VaultPlace, Work]
"""Work in one vault."""


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
