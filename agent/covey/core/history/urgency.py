"""Which messages of a history may use what a budget reserves for orders (`link/budget.py`, rule 2).

1. An order travels as an operation. A message with one, or with an operation by which orders are judged, is urgent: the
   approval of an order, a change of operators, a checkpoint.
2. What a device writes itself is urgent at any size. What it gives to others that catch up is urgent up to
   `URGENT_HISTORY_BYTES`, so that a newcomer does not use up the reserve of the member that it asks.
3. Notes, offers of files and preferences are not urgent.
"""

from __future__ import annotations

from covey.core.history.kinds import BEARING_ON_ORDERS
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import read_operation
from covey.core.wire.message import read_message
from covey.errors import RemoteError
from covey.limits.history import URGENT_HISTORY_BYTES


def is_urgent(raw: bytes) -> bool:
    """Say whether an OPERATIONS message of this device is urgent (rules 1 and 2)."""
    message = read_message(raw, verify=False)
    is_short = len(raw) <= URGENT_HISTORY_BYTES
    try:
        operations = (read_operation(each, verify=False) for each in OperationBundle.from_wire(message.body).operations)
        return any(
            each.kind in BEARING_ON_ORDERS and (is_short or each.author == message.author) for each in operations
        )
    except RemoteError:  # its recipient says so
        return False
