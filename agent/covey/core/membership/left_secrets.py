"""What waits in the outbox of the secrets of a group that this device has left: it is withdrawn where these are erased.

1. A GROUP_MANIFEST that waits with the secret of an epoch that this device was in goes without it: whoever needs that
   is given it by a member. The manifests go, as they show what the notice of the leaving follows.
2. The secret of an epoch that this device is not in goes with the notice: whoever leaves draws it for those that stay.
3. What waits behind one that is sent anew so is sent anew as well: all come in the order in which they were issued.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.group.manifest import read_manifest, secret_id
from covey.core.group.messages import Bundle
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.send_queue import SendQueue
from covey.core.now import Now
from covey.core.wire.message import MessageType, read_message

if TYPE_CHECKING:
    from covey.core.records.link import OutboxRecords


def withdraw_secrets(own: DeviceKey, group_id: GroupId, outbox: OutboxRecords, queue: SendQueue, now: Now) -> None:
    """Have a group's manifests that wait go without the secrets of epochs that `own` was in. Writes."""
    for recipient in outbox.recipients():
        is_rewritten = False
        for place, raw in outbox.control_messages(recipient):
            message = read_message(raw, verify=False)
            if message.type is not MessageType.GROUP_MANIFEST or message.group_id != group_id:
                continue
            bundle = Bundle.from_wire(message.body)
            bare = replace(bundle, secrets=_secrets_without(own, bundle))
            if bare != bundle:
                queue.remove(recipient, place)
                queue.queue(recipient, message.type, group_id, bare.to_wire(), now, beyond=True)
                is_rewritten = True
            elif is_rewritten:
                queue.requeue(recipient, place, now)


def _secrets_without(own: DeviceKey, bundle: Bundle) -> tuple[bytes, ...]:
    """Return the secrets of a bundle of epochs that a device is not in, as its manifests say."""
    if not bundle.secrets:
        return ()
    manifests = [read_manifest(raw, verify=False) for raw in bundle.manifests]
    without = {each.epoch_id for each in manifests if each.member(own) is None}
    return tuple(each for each in bundle.secrets if secret_id(each) in without)
