"""A vault that was restored from a backup, without its collector or with it: continue it, and lose nothing in secret.

Restored without its collector: the collector finds an older manifest of its own than it has published. It knows over
which links the messages of its newest segments arrived (`landed_span`), and so:

    1. The messages of the lost segments count as not received. The next acknowledgement lacks them; their senders send
       again what they still have, and report the rest as lost by its recipient (`acknowledgements.py`).
    2. Orders, manifests and profiles are landed once more.
    3. Readers may have read the lost segments, so no position is reused: a hole covers all positions that may have been
       used. The manifest that lists them is two above the last one published: it follows
       none that a reader knows, and its `prev` names the restored one.

Restored with its collector: the collector's incarnation is new, and the manifest's is older. Nobody knows how many
positions the lost state has used: not the backup, no clock that may be wrong, and no member. The senders learn from
their links what to send again. So only rule 3 applies, with more positions than any collector uses
(`RESTORED_POSITIONS`).

A crash in between repeats this, with the same result. A store that only shows an old manifest keeps the newer one by
its conditional put.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covey.app.telemetry.node_vault import NodeVault
from covey.app.wording import count
from covey.core.now import Now
from covey.core.vault import documents
from covey.core.vault.documents import VaultManifest
from covey.core.vault.landing import RESTORED_CONDITION
from covey.core.vault.segments import seal_hole
from covey.limits.vault import MAXIMUM_SEGMENT_PARTS, RESTORED_POSITIONS
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.ids import DeviceKey, Incarnation


def take_back(vault: NodeVault, store: SqliteStore, report: Report) -> set[tuple[DeviceKey, Incarnation]]:
    """Take what a restored vault lacks as not received (rule 1); return the links whose senders are to hear it.

    Raises:
        StorageError: the vault cannot be read, or has no manifest of this device.
        RemoteError: the manifest there is damaged, or not of this vault.
    """
    vault.load(restored=True)
    manifest = vault.manifest
    assert manifest is not None, "an empty vault is refused"
    with store.transaction():
        lost, is_all = store.landing.spans_after(manifest.last_number)
        for link, spans in lost.items():
            store.received.set(*link, store.received.of(*link).excluding(spans))
            store.imprints.remove(*link, spans)
        messages = sum(last - first + 1 for spans in lost.values() for first, last in spans)
        store.conditions.set(RESTORED_CONDITION, str(messages), manifest.created_at_us)
    more = "" if is_all else " at least"
    report(
        "error",
        f"the vault was restored from an older copy: it lacks{more} {count(messages, 'message')}; their senders send "
        "again what they still have, and report the rest as lost",
    )
    return set(lost)


def is_to_continue(vault: NodeVault, incarnation: Incarnation) -> bool:
    """Say whether an earlier incarnation wrote the vault's manifest: the state was restored, or is a new one."""
    return vault.manifest is not None and vault.manifest.incarnation != incarnation


def stand_for_lost(vault: NodeVault, store: SqliteStore, incarnation: Incarnation, report: Report, now: Now) -> None:
    """Publish the manifest with which a restored vault continues (rule 3).

    Raises:
        ConflictError: there is another one than was read.
        StorageError: the store refused.
    """
    vault.load(restored=True)
    before, floor = vault.manifest, store.landing.manifest_floor()
    assert before is not None, "an empty vault is refused"
    is_alone = floor > before.manifest_seq
    if is_to_continue(vault, incarnation):
        floor = max(floor, before.manifest_seq + RESTORED_POSITIONS)
    if before.manifest_seq >= floor:
        return
    with store.transaction():
        store.landing.replan()
    first = before.last_number + 1
    last = first + max(floor - before.manifest_seq, MAXIMUM_SEGMENT_PARTS)  # each manifest listed one segment more
    hole, content = seal_hole(vault.newest_key, vault.identity.signing_public, (first, last), before.created_at_us)
    vault.objects.put(documents.entry_key(vault.keys.ring().vault_id, vault.node, hole), content)
    vault.publish(_following(before, floor, vault, incarnation, now, (hole,)))
    with store.transaction():
        store.landing.note_manifest(floor + 2)
        store.landing.forget_spans_after(before.last_number)
        if is_alone:
            lacked, _ = store.conditions.values().get(RESTORED_CONDITION, ("0", 0))
            store.conditions.set(RESTORED_CONDITION, lacked, now.wall_us)
    if not is_alone:
        report("notice", f"this state is restored or new: the vault continues after position {last}")


def _following(
    before: VaultManifest,
    floor: int,
    vault: NodeVault,
    incarnation: Incarnation,
    now: Now,
    entries: tuple[documents.SegmentEntry, ...],
) -> VaultManifest:
    raised = replace(before, manifest_seq=floor + 1)
    own = vault.identity.signing_public
    return documents.next_manifest(raised, vault.newest_key, own, incarnation, now.wall_us, entries)
