"""Whoever has forgotten what a checkpoint covers judges as whoever keeps all, and makes the same next checkpoint.

Hypothesis writes a history by anybody, following anything; one device forgets somewhere in between, as much as it may.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.sqlite.history.forgotten import ForgottenOperations
from covey.adapters.sqlite.history.operations import OperationTables
from covey.adapters.sqlite.store import empty_history
from covey.core.checkpoints.checkpoints import Checkpoint
from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.forgetting import count_uncovered, forgettable
from covey.core.checkpoints.state import state_of
from covey.core.crypto import Identity
from covey.core.history.bodies import GroupProfile, Merge, Note
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import Approval, CommandOrder, SettingOrder
from covey.core.history.standing import heads_of, weigh
from covey.core.ids import DeviceKey, Incarnation, ManifestHash, OperationId
from covey.core.orders.authority import Pins, weigh_orders
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.settings.desired import GroupSettings, desired
from covey.core.settings.obedience import Desired
from tests.examples import examples
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.orders import adds, removes

_PEOPLE = (ALICE, BOB, CAROL, MALLORY)
_SEALED = b"sealed for some"
_SHED = Selector(SelectorKind.LABEL, "shed")
_ORDERS = None, OperationKind.SETTING, OperationKind.COMMAND
_MEMBERS = frozenset(each.signing_public for each in _PEOPLE)


class _History:
    """A history as it is written: whoever cannot go on with a log begins another one."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.written: list[Operation] = []
        self._last: dict[DeviceKey, Operation] = {}

    def write(self, count: int) -> None:
        """Write so many operations, which follow some of the last five."""
        for _ in range(count):
            parents = self.chance.sample(self.written[-5:], min(len(self.written), self.chance.randint(0, 3)))
            self.say(self.chance.choice(_PEOPLE), self._body(), parents)

    def say(self, author: Identity, body: OperationBody, parents: Iterable[Operation]) -> Operation:
        """Write one operation."""
        parents = list(parents)
        height = 1 + max((each.height for each in parents), default=0)
        before = self._last.get(author.signing_public)
        if before is None or before.height >= height:
            before = None
            incarnation = Incarnation(len(self.written).to_bytes(8, "big"))
        else:
            incarnation = before.log.incarnation
        operation = sign_operation(
            Operation(
                GROUP_ID,
                Log(author.signing_public, incarnation),
                1 if before is None else before.number + 1,
                None if before is None else before.id,
                tuple(sorted(each.id for each in parents)),
                height,
                WITH_CAROL.hash,
                len(self.written),
                int(body.kind),
                body.to_wire(),
            ),
            author,
        )
        self._last[author.signing_public] = operation
        self.written.append(operation)
        return operation

    def _body(self) -> OperationBody:
        chance = self.chance
        bodies: list[OperationBody] = [
            adds(chance.choice(_PEOPLE)),
            removes(chance.choice(_PEOPLE)),
            SettingOrder(EVERYBODY, f"app.{chance.randrange(3)}", chance.randrange(100)),
            SettingOrder(_SHED, f"app.{chance.randrange(2)}", chance.randrange(100)),
            CommandOrder(EVERYBODY, "flush", {}, chance.randbytes(16)),
            SettingOrder(EVERYBODY, f"app.{chance.randrange(3)}", sealed=_SEALED + chance.randbytes(2)),
            GroupProfile(str(chance.randrange(100))),
            Approval(chance.choice(self.written).id) if self.written else Merge(),
            *(Note("text/plain", chance.randbytes(2)) for _ in range(3)),
        ]
        return chance.choice(bodies)


def _checkpoint(tables: OperationTables, covers: OperationId, pins: Pins) -> Checkpoint:
    covered = covered_by(tables.nodes(GROUP_ID), tables.frontier(GROUP_ID, covers))
    state = state_of(tables, GROUP_ID, covered, covers, pins, _MEMBERS)
    return Checkpoint(covers, ALICE.signing_public, _MEMBERS, _MEMBERS, "", state)


def _judged(tables: OperationTables, last: Operation, pins: Pins, present: frozenset[DeviceKey]) -> tuple[object, ...]:
    """Return all that is ever judged of a history."""

    def named(_: ManifestHash) -> tuple[int, frozenset[DeviceKey]]:
        return 2, present

    covered = covered_by(tables.nodes(GROUP_ID), tables.frontier(GROUP_ID, last.id))
    return (
        weigh(tables, GROUP_ID, present, named),
        heads_of(tables, GROUP_ID, present),
        *(weigh_orders(tables, GROUP_ID, pins, present, (), kind) for kind in _ORDERS),
        state_of(tables, GROUP_ID, covered, last.id, pins, present).to_wire(),
        tables.logs(GROUP_ID),
        [tables.log_lengths(GROUP_ID, log.author) for log, _ in tables.logs(GROUP_ID)],
        tables.forks(GROUP_ID),
        tables.heads(GROUP_ID),
        [(each.id, each.author, each.manifest, each.parents, each.kind) for each in tables.shapes(GROUP_ID)],
    )


def _wanted(tables: OperationTables, pins: Pins, present: frozenset[DeviceKey]) -> list[tuple[DeviceKey, Desired]]:
    """Return what a member is to set, with the values that are sealed."""
    orders = GroupSettings(tables, WITH_CAROL, pins, ())
    members = [member for member in WITH_CAROL.members if member.keys.signing_public in present]
    wanted = {key: desired(given.values()) for key, given in orders.of(members).items()}
    return [(key, each) for key, every in wanted.items() for each in every]


def _compare(seed: int, count: int, later: int, threshold: int) -> int:
    """Have one keep a history and another one forget what it may of the first `count`; return how many it forgot."""
    chance = random.Random(seed)
    pins = Pins(frozenset(each.signing_public for each in chance.sample(_PEOPLE[:3], 2)), threshold)
    present = frozenset(each.signing_public for each in chance.sample(_PEOPLE, 3))
    history = _History(chance)
    history.write(count)
    merge = history.say(ALICE, Merge(), history.written[-3:])
    history.write(later)
    last = history.say(ALICE, Merge(), {each.id: each for each in (merge, *chance.sample(history.written, 2))}.values())
    gone = 0
    with empty_history() as keeps, empty_history() as forgets:
        for operation in history.written:
            for tables in (keeps, forgets):
                tables.add(operation, 1, 0, late=operation.author not in present)
            if operation.id == merge.id:
                base = _checkpoint(forgets, merge.id, pins)
                assert base.state is not None
                assert _SEALED not in base.state.to_wire(), "a checkpoint has no secrets"
                may_go = forgettable(forgets, GROUP_ID, base, frozenset(), 1, lambda _: chance.random() < 0.5)
                gone = forgets.forgotten.take(may_go)
                assert gone == forgets.forgotten.count(GROUP_ID)
                assert count_uncovered(forgets, GROUP_ID, [base]) == 0
        assert _judged(keeps, last, pins, present) == _judged(forgets, last, pins, present)
        assert _wanted(keeps, pins, present) == _wanted(forgets, pins, present), "a secret is wanted as before"
        for operation in history.written:
            assert keeps.held(GROUP_ID, operation.id) == forgets.held(GROUP_ID, operation.id)
    return gone


@examples(60)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 12), st.integers(1, 2))
def test_a_member_that_forgot_judges_as_one_that_keeps_everything(
    seed: int, count: int, later: int, threshold: int
) -> None:
    _compare(seed, count, later, threshold)


@pytest.mark.slow
def test_much_of_these_histories_is_forgotten() -> None:
    assert sum(_compare(seed, 40, 4, 1) for seed in range(4)) > 16


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OperationKind.SETTING, OperationKind.COMMAND])
def test_orders_are_among_what_is_forgotten(monkeypatch: pytest.MonkeyPatch, kind: OperationKind) -> None:
    kinds: list[int] = []

    def noted(tables: ForgottenOperations, arrivals: Sequence[int]) -> int:
        taken = take(tables, arrivals)
        kinds.extend(each.kind for each in tables.shapes(GROUP_ID))
        return taken

    take = ForgottenOperations.take
    monkeypatch.setattr(ForgottenOperations, "take", noted)
    for seed in range(8):
        _compare(seed, 40, 4, 1)
    assert kinds.count(kind) >= 2
