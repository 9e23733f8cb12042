"""Worlds of two groups: a gateway is moved there and back, while processes end, members are away and one is hostile.

Core, tables and roles are the product's. The judge knows every reading that was queued.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from covey.app.orders.group_moves import has_yet_to_leave
from covey.core.actions.results import CommandState
from covey.core.history.orders import CommandOrder
from covey.core.ids import GroupId, OperationId
from covey.core.orders.selector import EVERYBODY
from covey.errors import LocalError
from tests.examples import parameters
from tests.fleet import Device, admit, carry, found
from tests.unit.app.orders.test_ordered_actions_moves import Site

_WORLDS = 12
_ROUNDS = 3
_STEPS = 40
_SETTLES = 30


class World(Site):
    """Ann moves ben between two groups; eve is a member of the first one, and wants ben in a third."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self.chance = random.Random(seed)
        self.eve = Device("eve", folder)
        self.everybody = [*self.all, self.eve]
        self.all = self.everybody
        admit(self.ann, self.eve, self.group_id, *self.all)
        self.lure = found(self.eve)
        self.home, self.away = self.group_id, self.target
        self.queued: list[bytes] = []
        self.landed: Counter[bytes] = Counter()
        self.open_order: OperationId | None = None
        self.moves = 0

    def reading(self) -> None:
        """Queue a batch where readings go, as a program beside the agent does."""
        body = f"reading {len(self.queued)}".encode()
        try:
            self.ben.batch(self.readings_go_to(), body)
        except LocalError:
            return  # no group has a collector here at this moment: the program keeps it
        self.queued.append(body)

    def some_meet(self) -> None:
        """Let some members exchange messages; the others are away."""
        carry(*self.chance.sample(self.everybody, self.chance.randrange(2, len(self.everybody) + 1)))

    def vaults(self) -> None:
        """Let one of the collectors land what it has."""
        before, self.all = self.all, self.chance.sample(self.everybody, 3)
        self.landed.update(self.land(self.chance.choice((self.cleo, self.dora))))
        self.all = before

    def hostile(self) -> None:
        """Let eve invite ben to her group, and order it to go there."""
        with self.eve.store.transaction():
            body = CommandOrder(EVERYBODY, "move-group", {"group": self.lure.hex()}, self.eve.rng(16))
            self.eve.node.history.write(self.group_id, body, self.eve.now)
            try:
                self.eve.node.actions.invite_member(self.lure, self.ben.key, (), self.eve.now)
            except LocalError:
                self.eve.node.discard()

    def order_if_settled(self) -> None:
        """Order the next move once the last one is over and ann has removed ben."""
        if self.open_order is not None:
            self.remove_if_done()
            return
        group = self.ann.node.groups.group(self.away)
        if has_yet_to_leave(self.ann.store, group, self.ben.key):
            return
        if group.member(self.ben.key) is None:
            self.list_ben(group=self.away)
        body = CommandOrder(EVERYBODY, "move-group", {"group": self.away.hex()}, self.ann.rng(16))
        with self.ann.store.transaction():
            self.open_order = self.ann.node.history.write(self.home, body, self.ann.now).id

    def remove_if_done(self) -> None:
        """Remove ben from the old group once it has reported, as the operator's role does."""
        assert self.open_order is not None, "a move is under way"
        kept = self.ann.store.order_results.of_order(self.home, self.open_order)
        if not any(each.device == self.ben.key and each.result.state is CommandState.DONE for each in kept):
            return
        with self.ann.store.transaction():
            gone = self.ben.key
            self.ann.node.actions.change(self.home, lambda draft, new: draft.removing(gone, new), self.ann.now)
        self.home, self.away, self.open_order = self.away, self.home, None
        self.moves += 1

    def step(self) -> None:
        """Do one thing."""
        often = (self.reading, self.some_meet, self.machine.turn)
        self.chance.choice((*often, *often, self.vaults, self.machine.restart, self.hostile, self.order_if_settled))()

    def settle(self) -> None:
        """Let everybody meet until nothing is under way."""
        for _ in range(_SETTLES):
            for each in self.everybody:
                each.wait(61)
            self.machine.turn()
            carry(*self.everybody)
            for collector in (self.cleo, self.dora):
                self.landed.update(self.land(collector))
            if self.open_order is not None:
                self.remove_if_done()
            carry(*self.everybody)

    def judge(self) -> None:
        """Check that each reading has landed once, and that ben is in the one group where it was ordered to be."""
        assert [each for each in self.queued if not any(each in body for body in self.landed)] == []
        assert (len(self.landed), set(self.landed.values()) <= {1}) == (len(self.queued), True)
        assert (self.open_order, self.holds()) == (None, [self.home])

    def holds(self) -> list[GroupId]:
        """Return the groups that ben is in."""
        return [each.group_id for each in self.ben.node.groups.joined()]


@pytest.mark.parametrize("seed", parameters(range(_WORLDS), quick=0, plain=4))
def test_each_reading_lands_once_and_the_device_is_where_it_was_ordered(seed: int, tmp_path: Path) -> None:
    world = World(tmp_path, seed)
    for _ in range(_ROUNDS):
        for _ in range(_STEPS):
            world.step()
        world.settle()
        world.judge()
    assert world.moves, "something was moved"
