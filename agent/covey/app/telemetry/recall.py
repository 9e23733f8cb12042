"""What a collector that has lost its database learns from its vault: which messages have landed, with which imprints.

Its senders continue their numbers. A sender that was restored at the same time, without noticing, reuses numbers of its
lost incarnation; only the vault knows their first messages, and a table would take the second message for a repetition
of the first (docs/protocol/groups.md, section 20). So before such a collector accepts anything, it reads its node's
newest segments:

    1. Of the segments listed one by one, the newest `RECALLED_BYTES` are read: imprints are kept only of the newest
       numbers.
    2. A damaged or missing segment is skipped. One that cannot be read now ends the start, because it is not empty.
    3. Each segment is committed separately, so that nothing waits for a long reading; the last commit records the
       manifest's number, and with it completion. An interrupted start repeats this, with the same result.
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
