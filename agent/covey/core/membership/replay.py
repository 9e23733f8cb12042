"""Place manifests that arrive late, early or out of order after the ones that they follow.

1. A manifest that follows something unknown waits. So does one that is older than everything in memory.
2. For an older one, the settled past is loaded again as far as needed, up to `MAXIMUM_OPEN_MANIFESTS`: from the store,
   or from waiting manifests as far as hashes lead to them. So a device that joined late learns its group's past. A
   manifest that follows something still older is refused, unless it is wanted (rule 3): then up to four times as much
   is loaded (as `trust.py`, rule 10). Its follower's issuer accepted it in time, and a device that refused it now would
   never again hold what the others hold.
3. A manifest that another member's manifest follows is wanted: no issuer has too many of these (`trust.py`, rule 10).
4. The work of one turn is bounded: if manifests that follow several exceed it, the rest waits for the next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.trust import GroupTrust, Verdict
from covey.core.ids import GroupId, ManifestHash
from covey.errors import RemoteError, RollbackError, VersionGapError
from covey.limits.group import MAXIMUM_OPEN_MANIFESTS, STEPS_AT_ONCE

if TYPE_CHECKING:
    from covey.core.records.groups import GroupRecords

_LOOK_BACK = (1, 8, 64, MAXIMUM_OPEN_MANIFESTS, 4 * MAXIMUM_OPEN_MANIFESTS)
"""How many versions a device goes back to find what a late rival follows."""


@dataclass(slots=True)
class Offered:
    """The results for manifests: accepted ones, those that they replaced (`trust.py`, rule 10), why one was refused,
    and whether work was left over (rule 4)."""

    news: list[GroupManifest] = field(default_factory=list)
    replaced: list[ManifestHash] = field(default_factory=list)
    refused: RemoteError | None = None
    unfinished: bool = False


def offer_all(
    trust: GroupTrust, waiting: dict[ManifestHash, GroupManifest], admits: Callable[[GroupManifest], bool]
) -> Offered:
    """Offer manifests until none of the rest can be placed; leave in `waiting` what may be placed later.

    `admits` is asked of each that could be placed, whether it may be now.
    """
    outcome = Offered()
    held = [each.hash for each in trust.held()]
    wanted = _wanted(trust, waiting)
    steps = 0
    for manifest in sorted(waiting.values(), key=lambda each: (each.version, each.hash)):
        if manifest.hash in trust.root.prev:
            continue  # the past of what is held
        if len(manifest.prev) > 1:
            steps += len(trust)
            if steps > STEPS_AT_ONCE + len(trust):
                outcome.unfinished = True
                break
        if all(trust.holds(each) for each in manifest.prev) and not admits(manifest):
            continue
        try:
            verdict = trust.offer(manifest, wanted=manifest.hash in wanted)
        except (VersionGapError, RollbackError) as error:
            if all(trust.holds(each) for each in manifest.prev):
                outcome.refused = error
                del waiting[manifest.hash]
        except RemoteError as error:
            outcome.refused = error
            del waiting[manifest.hash]
        else:
            outcome.news += [manifest] if verdict is Verdict.ACCEPTED else []
            del waiting[manifest.hash]
    outcome.news = [each for each in outcome.news if trust.holds(each.hash)]
    outcome.replaced = [each for each in held if not trust.holds(each)]
    return outcome


def _wanted(trust: GroupTrust, waiting: dict[ManifestHash, GroupManifest]) -> set[ManifestHash]:
    """Return the manifests that other members' manifests follow, directly or not (rule 3)."""
    wanted: set[ManifestHash] = set()
    for manifest in sorted(waiting.values(), key=lambda each: -each.version):
        by_member = trust.current is not None and trust.current.member(manifest.issuer) is not None
        for parent in (waiting[each] for each in manifest.prev if each in waiting):
            if manifest.hash in wanted or (by_member and parent.issuer != manifest.issuer):
                wanted.add(parent.hash)
    return wanted


def replayed(group_id: GroupId, manifests: Iterable[GroupManifest]) -> GroupTrust | None:
    """Return a trust that holds all of these manifests, if one of them is followed by all others.

    All of them were accepted before, perhaps by a version with other bounds.
    """
    root, *rest = sorted(manifests, key=lambda each: (each.version, each.hash))
    trust = GroupTrust(group_id, root)
    try:
        for manifest in rest:
            trust.offer(manifest, wanted=True)
    except RemoteError:
        return None
    return trust


def reopened(trust: GroupTrust, waiting: dict[ManifestHash, GroupManifest], records: GroupRecords) -> GroupTrust | None:
    """Return a trust that remembers enough of the past for what waits, if all of that past is here (rule 2).

    `trust` is what remembers too little. What follows something that is here, but too old, is taken out of `waiting`.
    """
    group_id = trust.group_id
    known = [
        each for each in waiting.values() if all(_is_here(group_id, parent, waiting, records) for parent in each.prev)
    ]
    if not known:
        return None
    wanted = _wanted(trust, waiting)
    most = MAXIMUM_OPEN_MANIFESTS * (4 if any(each.hash in wanted for each in known) else 1)
    lowest = min(each.version for each in known)
    for depth in (each for each in _LOOK_BACK if each <= most):
        floor = max(1, lowest - depth)
        stored = records.manifests_from(group_id, floor, most + 1)
        if len(stored) > most:
            for each in known:
                del waiting[each.hash]
            return None
        found = _reopened_from(group_id, floor, stored, waiting, records)
        if found is not None:
            return found
        if floor == 1:
            break
    return None


def _is_here(
    group_id: GroupId, parent: ManifestHash, waiting: dict[ManifestHash, GroupManifest], records: GroupRecords
) -> bool:
    return parent in waiting or records.has_manifest(group_id, parent)


def _reopened_from(
    group_id: GroupId,
    floor: int,
    stored: list[bytes],
    waiting: dict[ManifestHash, GroupManifest],
    records: GroupRecords,
) -> GroupTrust | None:
    past = {each.hash: each for raw in stored if (each := read_manifest(raw, verify=False))}
    pinned = [each for manifest in past.values() for each in manifest.prev]
    while pinned:
        found = waiting.get(pinned.pop())
        if found is not None and found.hash not in past and found.version >= floor:
            past[found.hash] = found
            pinned += found.prev
    trust = replayed(group_id, past.values()) if past else None
    if trust is None or not any(all(map(trust.holds, each.prev)) for each in waiting.values()):
        return None
    for linked in past.keys() & waiting.keys():
        manifest = waiting.pop(linked)
        records.save_manifest(group_id, manifest.hash, manifest.version, manifest.raw, 0)
    records.reopen_manifests(group_id, trust.root.version)
    return trust
