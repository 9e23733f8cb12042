"""Manifests that come late, early or out of order: placing them where what they follow is found.

1. What follows something unknown waits. So does what is older than everything in memory.
2. For what is older, as much of the settled past is taken up again as it takes: from the store, or from what
   waits as far as the hashes of what is held lead to it. A device that joined late so learns its group's past.
"""

from __future__ import annotations

from collections.abc import Iterable

from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.trust import GroupTrust, Verdict
from covey.core.membership.records import GroupRecords
from covey.errors import RemoteError, RollbackError, VersionGapError
from covey.limits.group import MAXIMUM_OPEN_MANIFESTS

_LOOK_BACK = (1, 8, 64, 512, MAXIMUM_OPEN_MANIFESTS)
"""How many versions a device goes back to find what a late rival follows."""


def offer_all(trust: GroupTrust, waiting: dict[bytes, GroupManifest]) -> tuple[list[GroupManifest], RemoteError | None]:
    """Offer manifests until none of the rest can be placed; leave in `waiting` what may be placed later."""
    news: list[GroupManifest] = []
    refused: RemoteError | None = None
    for manifest in sorted(waiting.values(), key=lambda each: (each.version, each.hash)):
        if manifest.hash in trust.root.prev:
            continue  # the past of what is held
        try:
            verdict = trust.offer(manifest)
        except (VersionGapError, RollbackError) as error:
            if all(trust.holds(each) for each in manifest.prev):
                refused = error
                del waiting[manifest.hash]
        except RemoteError as error:
            refused = error
            del waiting[manifest.hash]
        else:
            news += [manifest] if verdict is Verdict.ACCEPTED else []
            del waiting[manifest.hash]
    return news, refused


def replayed(group_id: bytes, manifests: Iterable[GroupManifest]) -> GroupTrust | None:
    """Return a trust that holds all of these manifests, if one of them is followed by all others."""
    root, *rest = sorted(manifests, key=lambda each: (each.version, each.hash))
    trust = GroupTrust(group_id, root)
    try:
        for manifest in rest:
            trust.offer(manifest)
    except RemoteError:
        return None
    return trust


def reopened(group_id: bytes, waiting: dict[bytes, GroupManifest], records: GroupRecords) -> GroupTrust | None:
    """Return a trust that remembers enough of the past for what waits, if all of that past is here (rule 2)."""
    lowest = min(each.version for each in waiting.values())
    for depth in _LOOK_BACK:
        floor = max(1, lowest - depth)
        past = {each.hash: each for each in map(read_manifest, records.manifests_from(group_id, floor))}
        pinned = [each for manifest in past.values() for each in manifest.prev]
        while pinned:
            known = waiting.get(pinned.pop())
            if known is not None and known.hash not in past and known.version >= floor:
                past[known.hash] = known
                pinned += known.prev
        trust = replayed(group_id, past.values())
        if trust is not None and any(all(map(trust.holds, each.prev)) for each in waiting.values()):
            for each in past.keys() & waiting.keys():
                manifest = waiting.pop(each)
                records.save_manifest(group_id, manifest.hash, manifest.version, manifest.raw, 0)
            records.reopen_manifests(group_id, trust.root.version)
            return trust
        if floor == 1:
            break
    return None
