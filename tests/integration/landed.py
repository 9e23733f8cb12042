"""What has landed in a collector's vault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from covey.adapters.keys.vault_key_file import read_vault_keys
from covey.adapters.objects.folder import DirectoryStore
from covey.core.telemetry.batch import Batch
from covey.core.telemetry.decoding import read_telemetry
from covey.core.vault import documents
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.wire.message import read_message
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES, MAXIMUM_VAULT_MANIFEST_BYTES


class Collector(Protocol):
    """Whatever has a vault and its key in a folder."""

    state: Path


def landed(collector: Collector) -> Counter[tuple[str, str, int, Any]]:
    """Open the whole vault and count its readings."""
    readings: Counter[tuple[str, str, int, Any]] = Counter()
    for _, batch in landed_in_order(collector):
        readings.update(batch.readings())
    return readings


def landed_in_order(collector: Collector) -> Iterator[tuple[int, Batch]]:
    """Open the whole vault and yield its batches with their numbers, in the order in which they came to each node."""
    key = read_vault_keys(collector.state / "vault.key").newest
    store = DirectoryStore(collector.state / "vault")
    for name in store.keys(documents.manifest_prefix(key.vault_id)):
        node = documents.node_of_manifest_key(name)
        content = store.get(name, MAXIMUM_VAULT_MANIFEST_BYTES)
        assert content is not None
        manifest = documents.open_vault_manifest(key, node, content)
        for entry in manifest.segments:
            place = documents.segment_key(key.vault_id, node, entry.number, entry.incarnation)
            segment = store.get(place, MAXIMUM_SEGMENT_BYTES)
            assert segment is not None
            for record in documents.open_segment(key, node, entry, segment):
                if record_kind(record.message) is RecordKind.MESSAGE:
                    yield read_telemetry(read_message(record.message).body)
