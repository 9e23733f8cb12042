"""The message sizes that this device's relays accept, and groups whose manifests are larger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from covey.adapters.keys.relay_credential import place
from covey.adapters.mqtt.settings import publish_bytes
from covey.core.group.messages import payload_bytes
from covey.core.ids import DeviceKey
from covey.core.membership.agreement import Agreement, SaidHeads
from covey.core.wire.topics import inbox_topic

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.config.schema import RelayConfig
    from covey.core.group.manifest import GroupManifest


def announced_payloads(relay: RelayConfig, store: SqliteStore) -> dict[str, int]:
    """Return the largest envelope, in bytes, that each relay takes, by its place; nothing where one is yet unknown."""
    conditions = store.conditions.values()
    noted = {place(url): conditions.get(f"payload {place(url)}", ("",))[0] for url in (relay.url, *relay.also) if url}
    return {name: int(payload) for name, payload in noted.items()} if all(noted.values()) else {}


def fits(store: SqliteStore, group: GroupManifest, most: int) -> bool:
    """Say whether each manifest of a group that is kept here goes through a relay that takes so much at once."""
    return payload_bytes([store.groups.largest_manifest(group.group_id)]) <= most


def too_large(
    payloads: Mapping[str, int],
    store: SqliteStore,
    group: GroupManifest,
    agreement: Agreement,
    last_said: Mapping[DeviceKey, SaidHeads],
) -> str:
    """Return how large a packet a group needs, and what the relays take, where that is less; empty elsewhere.

    It is what the manifest of the moment needs, and those that members have said they lack. `payloads`: what each relay
    has announced that it takes, of which there are some.
    """
    lowest = _lowest_held(group, agreement.others, last_said)
    needed = max((payload_bytes([len(raw)]) for raw in store.groups.manifests_from(group.group_id, lowest)), default=0)
    most, name = max((payload, name) for name, payload in payloads.items())
    if needed <= most:
        return ""
    topic_bytes = len(inbox_topic(group.issuer).encode())
    takes = publish_bytes(topic_bytes, most)
    return f"needs packets of {publish_bytes(topic_bytes, needed)} bytes, {name} takes {takes}"


def _lowest_held(
    group: GroupManifest, others: Mapping[DeviceKey, int], last_said: Mapping[DeviceKey, SaidHeads]
) -> int:
    said = (last_said[key] for key in others if key in last_said)
    heads = [head for each in said for head in each.heads if head.group_id == group.group_id]
    return min((head.version + 1 for head in heads if head.version < group.version), default=group.version)
