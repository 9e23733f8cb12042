"""What a collector that has lost its database takes from its vault: which messages have landed, and by which imprints.

Its senders number on. One that was restored at the same time, and does not know it, gives numbers once more that its
lost life has given; nobody but the vault remembers what stood there, and a table takes the second message for a repeat
of the first (docs/protocol/groups.md, section 20). So before such a collector takes anything, it reads its node's
newest
segments:

    1. What is listed one by one is read, the newest `RECALLED_BYTES` of it: imprints are kept of the newest numbers
       only.
    2. A segment that is damaged or not there teaches nothing. One that cannot be asked for now ends the start: it is
       no empty one.
    3. Each segment is committed by itself, so that nobody waits for a long reading; last of all the manifest's number,
       which says that it was done. A start that ends before does it again, and learns the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.app.telemetry.node_vault import NodeVault
from covey.core.ids import DeviceKey, Incarnation
from covey.core.link.queued import Imprint
from covey.core.vault import documents
from covey.core.vault.documents import SegmentEntry, VaultManifest
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import Message, read_message
from covey.core.wire.sequences import Range, SequenceSet
from covey.errors import RemoteError
from covey.limits.link import MAXIMUM_RECEIVED_RANGES
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES, RECALLED_BYTES

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


def recall(vault: NodeVault, store: SqliteStore) -> None:
    """Where a vault has a manifest of this device, and its database knows of none, take up what has landed.

    Raises:
        StorageError: the vault cannot be read now.
    """
    manifest = vault.manifest
    if manifest is None or store.landing.manifest_floor():
        return
    for entry in _newest(manifest):
        messages = list(_messages(vault, entry))
        with store.transaction():
            _take_up(messages, store)
    with store.transaction():
        store.landing.note_manifest(manifest.manifest_seq)


def _take_up(messages: list[Message], store: SqliteStore) -> None:
    landed: defaultdict[tuple[DeviceKey, Incarnation], list[Range]] = defaultdict(list)
    for message in messages:
        landed[message.author, message.incarnation].append((message.link_seq, message.link_seq))
    for link, places in landed.items():
        received = store.received.of(*link).including(places)
        store.received.set(*link, SequenceSet(received.upto, received.ranges[-MAXIMUM_RECEIVED_RANGES:]))
    for message in messages:
        link = message.author, message.incarnation
        imprint = Imprint(message.link_seq, message.seq, imprint_of(message.raw))
        store.imprints.note(*link, imprint, store.received.of(*link))


def _newest(manifest: VaultManifest) -> list[SegmentEntry]:
    chosen, size = list[SegmentEntry](), 0
    for entry in reversed(manifest.segments):
        size += entry.size
        if size > RECALLED_BYTES:
            break
        chosen.append(entry)
    return chosen[::-1]


def _messages(vault: NodeVault, entry: SegmentEntry) -> Iterator[Message]:
    ring = vault.keys.ring()
    content = vault.objects.get(documents.entry_key(ring.vault_id, vault.node, entry), MAXIMUM_SEGMENT_BYTES)
    try:
        records = documents.open_segment(ring.for_object(content or b""), vault.node, entry, content or b"")
    except RemoteError:
        return
    for record in records:
        try:
            message = read_message(record.message, verify=False)
        except RemoteError:
            continue
        if message.recipient == vault.identity.signing_public:
            yield message
