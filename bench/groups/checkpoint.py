"""A checkpoint of 1,000 settings by four operators: its bytes, and what it takes to make and to judge.

The peer: the same settings as compact JSON, with who gave each and when; without operators, signatures, or the graph.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.state import CheckpointState, state_of
from covey.core.crypto import Identity
from covey.core.history.bodies import Merge
from covey.core.history.checkpoint import divided
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import SettingOrder
from covey.core.ids import DeviceKey, GroupId, Incarnation
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY
from tests.fleet import Device

_KEYS = 1_000
_OPERATORS = 4


def main() -> None:
    """Measure and print."""
    chance = random.Random(7)
    operators = [Identity.from_seeds(chance.randbytes(32), chance.randbytes(32)) for _ in range(_OPERATORS)]
    with TemporaryDirectory() as folder:
        device = Device("reader", Path(folder))
        with device.store.transaction():
            group_id = device.node.membership.create("reader", (), device.now.wall_us).group_id
            merge = _written(device, group_id, operators)
        started = time.process_time()
        state = _state(device, group_id, merge, operators)
        made_s = time.process_time() - started
    parts = divided(state.to_wire())
    size = sum(len(part.to_wire()) for part in parts)
    rows = [
        [key, order.value, str(order.selector), order.author.hex(), order.made_at_us, order.operation.hex()]
        for key, orders in state.settings.items()
        for order in orders
    ]
    peer = len(json.dumps(rows, separators=(",", ":")))
    print(f"a checkpoint of {len(state.settings):,} settings by {_OPERATORS} operators")
    print(f"  {size:,} bytes in {len(parts)} operations; as JSON {peer:,} bytes; {size / peer:.2f} times that")
    print(f"  made, or judged, in {made_s:.3f} s")


def _written(device: Device, group_id: GroupId, operators: list[Identity]) -> Operation:
    """Keep what sets each key once; return a merge of it all."""
    named = device.node.groups.group(group_id)
    before: Operation | None = None
    ends: dict[DeviceKey, Operation] = {}
    for number in range(_KEYS + 1):
        author = operators[number % len(operators)]
        own = ends.get(author.signing_public)
        body = Merge() if number == _KEYS else SettingOrder(EVERYBODY, f"app.pump_{number}.limit", number)
        parents = () if before is None else (before.id,)
        height = 1 if before is None else before.height + 1
        own_number, previous = (1, None) if own is None else (own.number + 1, own.id)
        log, at_us = Log(author.signing_public, Incarnation(bytes(8))), 1_790_000_000_000_000 + number
        made = Operation(
            group_id, log, own_number, previous, parents, height, named.hash, at_us, int(body.kind), body.to_wire()
        )
        before = ends[author.signing_public] = sign_operation(made, author)
        device.store.operations.add(before, named.version, 0)
    assert before is not None
    return before


def _state(device: Device, group_id: GroupId, merge: Operation, operators: list[Identity]) -> CheckpointState:
    keys = frozenset(each.signing_public for each in operators)
    operations = device.store.operations
    covered = covered_by(operations.nodes(group_id), operations.frontier(group_id, merge.id))
    return state_of(operations, group_id, covered, merge.id, Pins(keys), keys)


if __name__ == "__main__":
    main()
