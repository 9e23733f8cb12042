"""Ending a ban lets the device in again, as it was (003.45): its record is in the manifests before the ban."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.ids import DeviceKey

if TYPE_CHECKING:
    from covey.core.records.groups import GroupRecords


def former_member(records: GroupRecords, group: GroupManifest, target: DeviceKey) -> Member | None:
    """Return the record that a banned device had last, where this device knows it.

    The newest key of a device that rotated after its ban is not known to the group: then an invite has to help.
    """
    ban = group.ban(target)
    if ban is None:
        return None
    found = None
    for raw in records.manifests_from(group.group_id, 1, -1):
        manifest = read_manifest(raw, verify=False)
        if manifest.version < ban.since:
            found = manifest.member(target) or found
    return found


def readmitting(draft: GroupManifest, former: Member | None) -> GroupManifest:
    """Return the draft with a former member in it, if there is one.

    Raises:
        LocalError: the group is full, or another member has its noise key.
    """
    return draft if former is None else draft.adding(replace(former, since=draft.version))
