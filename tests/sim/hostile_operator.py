"""Members that order what is not theirs to order: one whom nobody made an operator, or one that is removed as such.

They sign whatever they like, with their own keys, and tell it to whom they like.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.history.bodies import read_body
from covey.core.history.body import OperationBody
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import ID_BYTES, Log, Operation, operation_id, sign_operation
from covey.core.history.orders import Approval, CommandOrder, OperatorChange, SettingOrder
from covey.core.ids import Incarnation, OperationId
from covey.core.wire import cbor
from covey.core.wire.heads import DIGEST_BYTES
from covey.core.wire.message import MessageType
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES, MAXIMUM_PARENTS
from tests.fleet import Device

if TYPE_CHECKING:
    from tests.sim.obedient import Obedient
    from tests.sim.test_orders import OrderWorld

_DEEP, _WIDE = 12, 12


class HostileOperator:
    """One of them: `lies` are operations that nobody may keep."""

    def __init__(self, world: OrderWorld, device: Device, chance: random.Random) -> None:
        self._world, self._device, self._chance = world, device, chance
        self._log = Log(device.key, Incarnation(chance.randbytes(8)))
        self.key = device.key
        self._written: list[Operation] = []
        self.lies: set[OperationId] = set()

    def act(self, victim: Obedient) -> None:
        """Do one of these to a victim."""
        acts = (
            self.order,
            self._make_itself_operator,
            self._order_beside_everything,
            self._fork,
            self._withhold_a_parent,
            self._bombs,
            self._deep_and_wide,
            self._lie_about_heads,
            self._approve_everything,
        )
        self._chance.choice(acts)(victim)

    def remove_the_others(self, victim: Obedient) -> None:
        """Remove all others, beside what they say."""
        for other in self._world.operators:
            if other is not self._device:
                self._say(victim, self._sign(OperatorChange(other.key, "", added=False), *self._old(victim)))

    def order(self, victim: Obedient) -> None:
        """Order in knowledge of all that the victim has, as an honest operator would."""
        self._say(victim, self._append(self._demand(), *self._heads(victim)))

    def replace_own(self, victim: Obedient) -> None:
        """Set what it has ordered last to something else, beside all that anybody has said since."""
        body = read_body(self._written[-1])
        assert isinstance(body, SettingOrder)
        self._say(victim, self._append(replace(body, value="something else")))

    def signed(self, body: OperationBody, victim: Obedient) -> Operation:
        """Sign something in knowledge of all that a victim has, and tell nobody."""
        return self._append(body, *self._heads(victim))

    def _make_itself_operator(self, victim: Obedient) -> None:
        """Add itself, order, and agree with both."""
        added = self._append(OperatorChange(self._device.key, "me", added=True), *self._heads(victim))
        order = self._append(self._demand(), added)
        self._say(
            victim, added, order, self._append(Approval(added.id), order), self._append(Approval(order.id), order)
        )

    def _order_beside_everything(self, victim: Obedient) -> None:
        """Order as if it had heard of nothing since some operation of long ago."""
        self._say(victim, self._sign(self._demand(), *self._old(victim)))

    def _fork(self, victim: Obedient) -> None:
        """Say different things under one number to everybody."""
        log = self._new_log()
        rivals = [self._sign(self._demand(), *self._old(victim), log=log) for _ in range(4)]
        for each in self._world.obedient:
            self._say(each, *self._chance.sample(rivals, 4))

    def _withhold_a_parent(self, victim: Obedient) -> None:
        """Order by an operation that follows one that nobody has."""
        withheld = self._sign(self._demand(), *self._old(victim))
        order = self._sign(self._demand(), withheld)
        self._say(victim, order)
        if self._chance.random() < 0.5:
            self._world.sticks.append((withheld, order))

    def _bombs(self, victim: Obedient) -> None:
        """Say what breaks a rule each: it is refused, and nothing else with it."""
        heads = tuple(each.id for each in self._heads(victim))
        many = sorted(OperationId(self._chance.randbytes(ID_BYTES)) for _ in range(MAXIMUM_PARENTS + 1))
        demand = self._demand()
        kind, order = int(demand.kind), demand.to_wire()
        bombs = [
            self._raw(many, 2, kind, order),
            self._raw(heads, 2**40, kind, order),
            self._raw((), 2, kind, order),
            self._raw((), 1, kind, bytes(MAXIMUM_OPERATION_BODY_BYTES + 1)),
            self._raw((), 1, kind, b"\x80"),
            self._raw((), 1, kind, order + order),
        ]
        self.lies |= {operation_id(each) for each in bombs}
        for each in bombs:
            self._send(victim, each)

    def _raw(self, parents: Collection[OperationId], height: int, kind: int, body: bytes) -> bytes:
        """Return a signed operation that may break any rule."""
        group, log = self._world.group(self._device), self._new_log()
        document = cbor.encode(
            [
                *(1, group.group_id, log.author, log.incarnation, 1, None),
                *(list(parents), height, group.hash, 0, kind, body),
            ]
        )
        return cbor.encode([crypto.sign(b"covey/1 operation", document, self._device.identity), document])

    def _deep_and_wide(self, victim: Obedient) -> None:
        """A long chain, and many operations that follow one, of changes: more than anybody looks at."""
        chain = [self._append(OperatorChange(self._device.key, "me", added=True), *self._old(victim))]
        for _ in range(_DEEP):
            chain.append(self._append(OperatorChange(self._device.key, "me", added=True), chain[-1]))
        wide = [self._sign(self._demand(), chain[0]) for _ in range(_WIDE)]
        self._say(victim, *chain, *wide)

    def _lie_about_heads(self, _victim: Obedient) -> None:
        """Have everybody believe, from now on, that its history is another one."""
        head = self._chance.randbytes(DIGEST_BYTES)
        setattr(self._device.node.history, "digest", lambda _group_id: head)  # noqa: B010 - of this one alone

    def _approve_everything(self, victim: Obedient) -> None:
        heads = self._heads(victim)
        for each in victim.operations(self._world.group_id)[-3:]:
            self._say(victim, self._sign(Approval(each.id), *heads))

    def _demand(self) -> SettingOrder | CommandOrder:
        return self._world.demand(f"{self._device.name} {len(self._written)}")

    def _heads(self, victim: Obedient) -> list[Operation]:
        """Return what the victim would follow."""
        standing = victim.node.history.standing(self._world.group_id)
        held = {each.id: each for each in victim.operations(self._world.group_id)}
        return [held[each] for each in sorted(standing.heads)[:MAXIMUM_PARENTS] if each in held]

    def _old(self, victim: Obedient) -> list[Operation]:
        """Return one of the first things that were said."""
        first = victim.operations(self._world.group_id)[:3]
        return self._chance.sample(first, min(1, len(first)))

    def _new_log(self) -> Log:
        return Log(self._device.key, Incarnation(self._chance.randbytes(8)))

    def _append(self, body: OperationBody, *parents: Operation) -> Operation:
        """Sign what comes next in its log."""
        before = self._written[-1] if self._written else None
        if before is not None and all(each.id != before.id for each in parents):
            parents = (before, *parents[: MAXIMUM_PARENTS - 1])
        number, previous = (1, None) if before is None else (before.number + 1, before.id)
        operation = self._sign(body, *parents, log=self._log, number=number, previous=previous)
        self._written.append(operation)
        return operation

    def _sign(
        self,
        body: OperationBody,
        *parents: Operation,
        log: Log | None = None,
        number: int = 1,
        previous: OperationId | None = None,
    ) -> Operation:
        group, height = self._world.group(self._device), 1 + max((each.height for each in parents), default=0)
        ids = tuple(sorted({each.id for each in parents}))
        place = (group.group_id, log or self._new_log(), number, previous, ids, height, group.hash)
        return sign_operation(Operation(*place, 0, int(body.kind), body.to_wire()), self._device.identity)

    def _say(self, victim: Device, *operations: Operation) -> None:
        self._send(victim, *(each.raw for each in operations))

    def _send(self, victim: Device, *raws: bytes) -> None:
        with self._device.store.transaction():
            queue, body = self._device.node._queue, OperationBundle(raws).to_wire()
            queue.queue(victim.key, MessageType.OPERATIONS, self._world.group_id, body, self._device.now)
