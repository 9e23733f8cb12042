"""Groups of which no relay of this device carries a manifest: how large a packet has to be, and who takes less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.keys.relay_credential import place
from covey.adapters.mqtt.settings import publish_bytes
from covey.core.group.messages import payload_bytes
from covey.core.ids import DeviceKey
from covey.core.membership.agreement import Agreement
from covey.core.wire.topics import inbox_topic

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.core.group.manifest import GroupManifest


def too_large(device: Device, group: GroupManifest, agreement: Agreement) -> str:
    """Return how large a packet a group needs, and what the relays take, where that is less; empty elsewhere.

    It is what the manifest of the moment needs, and those that members have said they lack. A relay that no agent has
    reached yet takes all.
    """
    relay, conditions = device.config.relay, device.store.conditions.values()
    noted = {place(url): conditions.get(f"payload {place(url)}", ("",))[0] for url in (relay.url, *relay.also) if url}
    if not noted or not all(noted.values()):
        return ""
    lacked = device.store.groups.manifests_from(group.group_id, _lowest_held(device, group, agreement.others))
    needed = max((payload_bytes([raw]) for raw in lacked), default=0)
    most, name = max((int(payload), name) for name, payload in noted.items())
    if needed <= most:
        return ""
    topic_bytes = len(inbox_topic(device.node.identity.signing_public).encode())
    takes = publish_bytes(topic_bytes, most)
    return f"needs packets of {publish_bytes(topic_bytes, needed)} bytes, {name} takes {takes}"


def _lowest_held(device: Device, group: GroupManifest, others: dict[DeviceKey, int]) -> int:
    """Return the lowest version that follows what these have last said they hold; ours if they said nothing."""
    said = device.store.heads.all()
    heads = [head for key in others if key in said for head in said[key].heads if head.group_id == group.group_id]
    return min((head.version + 1 for head in heads if head.version < group.version), default=group.version)
