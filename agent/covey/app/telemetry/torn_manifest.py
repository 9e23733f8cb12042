"""A node's vault manifest that is torn in the vault: make it again from its segments, where nothing can be lost.

A disk or store may confirm a manifest and then have half of it, as after a power cut. The process that put it writes it
again (`node_vault.py`); if that process has ended, this does:

    1. The database keeps a manifest that was whole in the vault: after each that replaces objects, before the replaced
       ones are deleted, and after every `MANIFEST_KEPT_EACH` that only list one more segment.
    2. All later segments are in the vault, since each was put before the manifest that lists it. They are listed again,
       from their own content. A segment that is not whole ends the list, if a plan still has its messages.
    3. If that lists fewer than were published, nothing is written: the vault lacks more than its manifest.
    4. The new manifest is numbered beyond any that a reader can know, as after a restore (`restored_vault.py`).
    5. A kept manifest of another vault, or of an earlier incarnation, is no use: that state was restored.
    6. Where none is kept, the torn one can only be the first, if this state has published none, still has its plan, and
       the vault has no other segment of this node. Then all its messages are here, and an empty list is what was kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.ids import node_id
from covey.core.vault import documents
from covey.core.vault.documents import SegmentEntry, VaultManifest
from covey.core.vault.keys import KeyRing
from covey.core.vault.segments import entry_of
from covey.errors import RemoteError
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES
from covey.ports import ObjectStore

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


def relisted(ring: KeyRing, identity: Identity, store: SqliteStore, objects: ObjectStore) -> VaultManifest | None:
    """Return the manifest that takes the place of a torn one, or None where something could be lost.

    Raises:
        StorageError: the vault cannot be read now.
    """
    kept = _kept(ring, identity, store) or _nothing(ring, identity, store, objects)
    if kept is None:
        return None
    found = tuple(_later_segments(ring, identity, store, objects, kept))
    published = kept.manifest_seq + len(found)
    if published < store.landing.manifest_floor():
        return None
    raised = replace(kept, manifest_seq=published + 1)
    newest_us = max([kept.created_at_us, *(entry.created_at_us for entry in found)])
    own = identity.signing_public
    return documents.next_manifest(raised, ring.newest, own, kept.incarnation, newest_us, found)


def _kept(ring: KeyRing, identity: Identity, store: SqliteStore) -> VaultManifest | None:
    sealed = store.landing.kept_manifest()
    if sealed is None:
        return None
    try:
        kept = documents.open_vault_manifest(ring.for_object(sealed), node_id(identity.signing_public), sealed)
    except RemoteError:
        return None
    return kept if kept.incarnation == store.incarnations.present() else None


def _nothing(ring: KeyRing, identity: Identity, store: SqliteStore, objects: ObjectStore) -> VaultManifest | None:
    """Return the empty list that stands before the first manifest (rule 6), or None where the torn one was a later."""
    plan, present = store.landing.plan(), store.incarnations.present()
    if store.landing.manifest_floor() or plan is None or (plan.number, plan.incarnation) != (1, present):
        return None
    node = node_id(identity.signing_public)
    planned = documents.segment_key(ring.vault_id, node, plan.number, present)
    if any(key != planned for key in objects.keys(documents.segment_prefix(ring.vault_id, node))):
        return None
    own = identity.signing_public
    return VaultManifest(ring.vault_id, own, present, 0, bytes(32), plan.created_at_us, (), ())


def _later_segments(
    ring: KeyRing, identity: Identity, store: SqliteStore, objects: ObjectStore, kept: VaultManifest
) -> Iterator[SegmentEntry]:
    own, plan = identity.signing_public, store.landing.plan()
    for number in count(kept.last_number + 1):
        name = documents.segment_key(ring.vault_id, node_id(own), number, kept.incarnation)
        content = objects.get(name, MAXIMUM_SEGMENT_BYTES)
        if content is None:
            return
        try:
            yield entry_of(ring.for_object(content), own, number, kept.incarnation, content)
        except RemoteError:
            if plan is None or plan.number != number:
                raise
            return
