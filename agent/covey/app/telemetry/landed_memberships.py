"""Group manifests and profiles that a collector stores with readings; readers take the devices' labels from them.

1. The current manifest of each collected group is landed together with telemetry, once; nothing is landed for it alone.
   Its time is that of the landing.
2. At most one manifest of a group is landed in `LANDED_MANIFEST_US`: each lists all members, and a thousand single
   admissions would otherwise land a thousand lists of up to a thousand.
3. In a conflict there is no signed manifest of the current state: readers keep the one before.
4. No acknowledgement waits for these. What a lost state forgets is landed again; a reader recognises it by its hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.group.manifest import COLLECTOR, GroupManifest
from covey.core.history.operation import read_operation
from covey.core.ids import DeviceKey, GroupId
from covey.core.node import Node
from covey.core.now import Now
from covey.core.vault.landed_records import landed_manifest
from covey.limits.vault import LANDED_MANIFEST_US

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


class LandedMemberships:
    """Puts what holds into the landing."""

    def __init__(self, own: DeviceKey, store: SqliteStore) -> None:
        self._own = own
        self._store = store
        self._landed: dict[GroupId, tuple[bytes, int]] = {}
        """Of each group the manifest's hash that was looked at last, and when, in monotonic microseconds."""
        self._profiled: tuple[int, int] | None = None
        """Of which generation of groups and history all profiles have been kept."""

    def stage(self, node: Node, now: Now) -> None:
        """Put manifests and profiles that are new into the landing; what finds no room, the next time."""
        for group in self._due(node, now):
            with self._store.transaction():
                kept = self._store.landing.land_manifest(group, landed_manifest(group), now.wall_us)
            if kept:
                self._landed[group.group_id] = group.hash, now.monotonic_us
        self._stage_profiles(node, now)

    def _stage_profiles(self, node: Node, now: Now) -> None:
        generation = node.groups.generation, node.history.generation
        if generation == self._profiled:
            return
        for group in node.groups.joined():
            profile = node.history.profile_operation(group.group_id) if self._collects_for(group) else None
            if profile is not None:
                author = read_operation(profile, verify=False).author
                with self._store.transaction():
                    if not self._store.landing.land_profile(group.group_id, profile, author, now.wall_us):
                        return
        self._profiled = generation

    def _due(self, node: Node, now: Now) -> Iterator[GroupManifest]:
        for group in node.groups.joined():
            seen, at_us = self._landed.get(group.group_id, (b"", now.monotonic_us - LANDED_MANIFEST_US))
            is_new = group.raw and group.hash != seen
            if is_new and now.monotonic_us - at_us >= LANDED_MANIFEST_US and self._collects_for(group):
                yield group

    def _collects_for(self, group: GroupManifest) -> bool:
        member = group.member(self._own)
        return member is not None and COLLECTOR in member.capabilities
