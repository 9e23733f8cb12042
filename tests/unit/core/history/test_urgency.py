"""`covey.core.history.urgency`: which messages of a history may use the reserve of a budget."""

from __future__ import annotations

from pathlib import Path

from covey.core.history.bodies import Note
from covey.core.history.body import OperationBody
from covey.core.history.messages import OperationBundle
from covey.core.history.orders import SettingOrder
from covey.core.history.urgency import is_urgent
from covey.core.ids import GroupId, Place
from covey.core.link.queued import Lane
from covey.core.orders.selector import EVERYBODY
from covey.core.wire.message import MessageType
from covey.limits.history import URGENT_HISTORY_BYTES
from tests.fleet import Device, found

_ORDER = SettingOrder(EVERYBODY, "app.mode", "eco")


def test_what_comes_with_an_order_is_urgent_up_to_a_size_unless_it_is_by_the_device_itself(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    long = Note("text/plain", bytes(URGENT_HISTORY_BYTES))
    assert not _is_urgent(ann, ann, ben, group_id, long)
    assert _is_urgent(ann, ann, ben, group_id, _ORDER)
    assert _is_urgent(ann, ann, ben, group_id, long, _ORDER)
    assert _is_urgent(ann, ben, ann, group_id, _ORDER)
    assert not _is_urgent(ann, ben, ann, group_id, long, _ORDER), "a catch-up leaves the reserve alone"


def _is_urgent(author: Device, sender: Device, recipient: Device, group_id: GroupId, *bodies: OperationBody) -> bool:
    with author.store.transaction():
        written = [author.node.history.write(group_id, body, author.now).raw for body in bodies]
    with sender.store.transaction():
        body = OperationBundle(tuple(written)).to_wire()
        place = sender.node._queue.queue(recipient.key, MessageType.OPERATIONS, group_id, body, sender.now)
    [(_, message)] = sender.store.outbox.queued(recipient.key, Place(place - 1), 1, 10**6, lane=Lane.HISTORY)
    return is_urgent(message)
