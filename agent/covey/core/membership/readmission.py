"""Ending a ban lets the device in again, as it was (003.45): its record is in the manifests before the ban."""

from __future__ import annotations

from dataclasses import replace

from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.group.messages import Bundle, first_that_fit
from covey.core.ids import DeviceKey, GroupId
from covey.core.membership.records import ManifestRecords


def former_member(records: ManifestRecords, group: GroupManifest, target: DeviceKey) -> Member | None:
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


def missed(records: ManifestRecords, group_id: GroupId, since: int, secret: bytes | None) -> list[bytes]:
    """Return the bodies that bring a device from just before its ban to now; the last one has the epoch's secret."""
    rest = records.manifests_from(group_id, max(1, since - 1), -1)
    bundles = []
    while rest:
        fitting = first_that_fit(rest)
        rest = rest[len(fitting) :]
        bundles.append(Bundle(fitting, (secret,) if secret is not None and not rest else ()).to_wire())
    return bundles
