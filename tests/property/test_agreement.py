"""Devices that hold the same manifests and operations agree, whenever and in whatever order these came.

`tests/rival_manifests.py` writes graphs of manifests by honest and hostile members. Here several devices receive them
in orders of their own, settle, forget operations and restart at moments of their own, and must then agree on members,
heads and epoch, on which operations they hold, which of these are void, and who is an operator.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covey.core.checkpoints.checkpoints import Checkpoint
from covey.core.checkpoints.covered import covered_by
from covey.core.checkpoints.forgetting import forgettable
from covey.core.checkpoints.state import state_of
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Mode
from covey.core.group.trust import GroupTrust
from covey.core.history.bodies import GroupProfile, Merge, Note
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.orders import Approval, OperatorChange, SettingOrder
from covey.core.history.standing import heads_of
from covey.core.ids import Incarnation, OperationId
from covey.core.orders.authority import Pins, weigh_orders
from covey.core.orders.selector import EVERYBODY
from covey.errors import LocalError
from covey.limits.group import FOUNDER_ALLOWANCE
from covey.limits.history import AWAITED_US
from tests.examples import examples, parameters
from tests.fleet import Device
from tests.rival_manifests import CAST, GROUP, ManifestWriter, awaited, in_some_order

_MODES = (Mode.INVITES_ONLY, Mode.INVITES_ONLY, Mode.ADMIN_INVITES)
_PINS = Pins(frozenset({CAST[0].signing_public, CAST[1].signing_public}))


def _written(chance: random.Random) -> list[GroupManifest]:
    writer = ManifestWriter(chance, chance.choice(_MODES))
    for _ in range(2):
        writer.write(calm=chance.randint(1, 4), stormy=chance.randint(4, 9))
    return writer.written


# -- groups alone: cheap, so tried often -------------------------------------------------------------------------------


def _believed_in(trust: GroupTrust) -> tuple[object, ...]:
    held = trust.current
    assert held is not None
    heads = tuple(head.hash for head in trust.heads())
    left = [member.allowance for member in trust.draft(held.epoch_id, held.issuer).members]
    assert held.mode is Mode.ADMIN_INVITES or sum(left) <= FOUNDER_ALLOWANCE, "nobody multiplies an allowance"
    return held.members, tuple(left), held.banned, held.version, held.epoch, held.raw, trust.conflict, heads


def _taken(manifests: Sequence[GroupManifest], chance: random.Random, settles: float) -> GroupTrust:
    """Take manifests in some order; settle with a probability wherever nothing that is still to come follows less."""
    ordered = in_some_order(manifests, chance)
    trust = GroupTrust(GROUP, ordered[0])
    for place, manifest in enumerate(ordered[1:], 2):
        trust.offer(manifest, wanted=True)
        if chance.random() >= settles:
            continue
        whole = GroupTrust(GROUP, trust.root)
        for each in trust.held()[1:]:
            whole.offer(each, wanted=True)
        whole.settle()
        dropped = {each.hash for each in trust.held() if not whole.holds(each.hash)}
        if dropped.isdisjoint(awaited(ordered[place:])):
            trust.settle()
    return trust


@examples(200)
@given(st.integers(0, 2**32))
@example(1123)  # a circle of removals, of which wishes from before the last meeting decided: few graphs have one
@example(1438)
@example(1548)
@example(55)  # judged from where a device happens to begin, these two come out differently
@example(59)
def test_members_with_the_same_manifests_agree_whenever_they_settled(seed: int) -> None:  # accepts: 000.16, 000.17
    chance = random.Random(seed)
    written = _written(chance)
    at_once, sometimes, always = (_taken(written, chance, settles) for settles in (0, 0.5, 1))
    assert _believed_in(sometimes) == _believed_in(at_once)
    assert _believed_in(always) == _believed_in(at_once)


# -- whole devices: groups, history and operators, over real stores ----------------------------------------------------


class _OperationWriter:
    """Writes operations by members that some manifest lists, following anything that they may follow."""

    def __init__(self, chance: random.Random, manifests: Sequence[GroupManifest]) -> None:
        self.chance = chance
        self.written: list[Operation] = []
        self._manifests = manifests
        self._versions = {each.hash: each.version for each in manifests}
        self._last: dict[bytes, list[Operation]] = {}

    def write(self) -> None:
        """Write one operation."""
        chance = self.chance
        manifest = chance.choice(self._manifests)
        author = chance.choice([each for each in CAST if manifest.member(each.signing_public) is not None])
        may_follow = [each for each in self.written[-8:] if self._versions[each.manifest] <= manifest.version]
        parents = chance.sample(may_follow, min(len(may_follow), chance.choice((0, 1, 2, 2, 3))))
        height = 1 + max((each.height for each in parents), default=0)
        self.written.append(self._say(author, manifest, self._body(), parents, height))

    def _say(
        self, author: Identity, manifest: GroupManifest, body: OperationBody, parents: Sequence[Operation], height: int
    ) -> Operation:
        own = self._last.setdefault(author.signing_public, [])
        lower = [each for each in own[-3:] if each.height < height]
        before = self.chance.choice(lower) if lower else None
        if before is not None and any(each.previous == before.id for each in own) and self._forked(own, before):
            before = None  # two under one number prove a fork; the third is another rule's matter
        incarnation = Incarnation(len(self.written).to_bytes(8, "big")) if before is None else before.log.incarnation
        made = Operation(
            GROUP,
            Log(author.signing_public, incarnation),
            1 if before is None else before.number + 1,
            None if before is None else before.id,
            tuple(sorted(each.id for each in parents)),
            height,
            manifest.hash,
            len(self.written),
            int(body.kind),
            body.to_wire(),
        )
        operation = sign_operation(made, author)
        own.append(operation)
        return operation

    def _forked(self, own: Sequence[Operation], before: Operation) -> bool:
        return sum((each.log, each.number) == (before.log, before.number + 1) for each in own) > 1

    def _body(self) -> OperationBody:
        chance = self.chance
        key = chance.choice(CAST).signing_public
        bodies: list[OperationBody] = [
            OperatorChange(key, "", added=True),
            OperatorChange(key, "", added=False),
            SettingOrder(EVERYBODY, f"app.{chance.randrange(2)}", chance.randrange(9)),
            Approval(chance.choice(self.written).id) if self.written else Merge(),
            GroupProfile(f"{chance.randrange(9)}"),
            *(Note("text/plain", chance.randbytes(2)) for _ in range(4)),
        ]
        return chance.choice(bodies)


class _Replica:
    """One device, which receives what it is given in an order of its own."""

    def __init__(self, number: int, folder: Path, chance: random.Random, first: GroupManifest) -> None:
        self.chance = chance
        self.device = Device(("ann", "cat", "fay")[number], folder)
        with self.device.store.transaction():
            self.device.store.groups.save_manifest(GROUP, first.hash, first.version, first.raw, 0)
        self.device.node.refresh()

    def live(
        self, manifests: Sequence[GroupManifest], operations: Sequence[Operation], *, forgets: bool = True
    ) -> None:
        """Receive everything in some order, then once more, with forgetting and restarts in between."""
        things = [*manifests, *operations]
        self.chance.shuffle(things)
        while things:
            size = self.chance.choice((1, 2, 3, 5, 8, len(things)))
            some = things[:size]
            self._receive(
                [each for each in some if isinstance(each, GroupManifest)],
                [each for each in some if isinstance(each, Operation)],
            )
            del things[:size]
            if forgets and self.chance.random() < 0.4:
                self._forget()
            if self.chance.random() < 0.1:
                self.device.restart()
        self._receive(manifests, sorted(operations, key=lambda each: (each.height, each.id)))
        if self.chance.random() < 0.5:
            self.device.restart()

    def _receive(self, manifests: Sequence[GroupManifest], operations: Sequence[Operation]) -> None:
        taking, now = self.device.node.history_import, self.device.now
        with self.device.store.transaction():
            if manifests:
                taking.take_manifests(GROUP, tuple(each.raw for each in manifests), now)
            taking.take_operations(GROUP, tuple(each.raw for each in operations), now)

    def _forget(self) -> None:
        """Forget what a checkpoint may cover that everybody has signed."""
        tables, node = self.device.store.operations, self.device.node
        here = tables.in_order(GROUP)
        if not here:
            return
        covers = self.chance.choice(here[-4:]).id
        covered = covered_by(tables.nodes(GROUP), tables.frontier(GROUP, covers))
        try:
            state = state_of(tables, GROUP, covered, covers, _PINS, ())
        except LocalError:  # a profile that it would hold is forgotten already
            return
        everybody = frozenset(each.signing_public for each in CAST)
        base = Checkpoint(covers, CAST[0].signing_public, everybody, everybody, "", state)
        with self.device.store.transaction():
            gone = forgettable(tables, GROUP, base, node.history.standing(GROUP).void, 2**62, lambda _: True)
            tables.forgotten.take(gone)
        node.history.refresh()

    def believes(self) -> dict[str, object]:
        """Return all that is judged of the group."""
        trust, history = self.device.node.groups.trust(GROUP), self.device.node.history
        tables = self.device.store.operations
        assert trust.current is not None
        members = frozenset(each.keys.signing_public for each in trust.current.members)
        void = history.standing(GROUP).void
        kinds = None, OperationKind.SETTING
        return {
            "group": _believed_in(trust),
            "void": void,
            "heads": heads_of(tables, GROUP, members),
            "digest": history.digest(GROUP),
            "orders": [weigh_orders(tables, GROUP, _PINS, members, void, kind) for kind in kinds],
            "logs": (
                tables.logs(GROUP),
                [tables.log_lengths(GROUP, log.author) for log, _ in tables.logs(GROUP)],
                tables.forks(GROUP),
            ),
        }

    def holds(self, operation_id: OperationId) -> bool:
        """Say whether an operation was taken."""
        return self.device.store.operations.held(GROUP, operation_id) is not None

    def refuses(self, operation: Operation) -> str:
        """Offer an operation and return why it is refused; empty where it is taken, or waits."""
        with self.device.store.transaction():
            taken = self.device.node.history_import.take_operations(GROUP, (operation.raw,), self.device.now)
        return taken.refused[0].code if taken.refused else ""

    def says(self) -> list[Operation]:
        """Return the operations that this device has written itself, of what it knew when it removed somebody."""
        stored = self.device.store.operations.in_order(GROUP)
        operations = [read_operation(each.raw) for each in stored]
        own = self.device.store.incarnations.present()
        return [each for each in operations if each.log == Log(self.device.key, own)]

    def end_conflict(self) -> GroupManifest | None:
        """Issue a manifest that follows all heads, if this device may, and can pay for it."""
        node = self.device.node
        trust = node.groups.trust(GROUP)
        if not trust.conflict or not node.groups.is_in(GROUP):
            return None
        try:
            with self.device.store.transaction():
                node.membership.change(GROUP, lambda draft, _: draft, self.device.now.wall_us)
        except LocalError:
            return None
        return trust.heads()[0]


def _thirds(operations: Sequence[Operation]) -> list[Operation]:
    """Return, for each fork, one more operation under its number."""
    by_number: dict[tuple[Log, int], list[Operation]] = {}
    for each in operations:
        by_number.setdefault((each.log, each.number), []).append(each)
    authors = {each.signing_public: each for each in CAST}
    return [
        sign_operation(replace(forks[0], made_at_us=2**40), authors[forks[0].author])
        for forks in by_number.values()
        if len(forks) > 1
    ]


@pytest.mark.parametrize("part", parameters(range(4), plain=1))
@examples(10)
@given(drawn=st.integers(0, 2**32))
def test_devices_with_the_same_manifests_and_operations_agree(part: int, drawn: int) -> None:
    # accepts: 000.16, 000.17
    seed = 4 * drawn + part
    chance = random.Random(seed)
    manifests = _written(chance)
    writer = _OperationWriter(chance, manifests)
    for _ in range(chance.randint(10, 40)):
        writer.write()
    with tempfile.TemporaryDirectory() as folder:
        replicas = [_Replica(each, Path(folder), random.Random(seed + each), manifests[0]) for each in range(3)]
        for each in replicas:
            each.live(manifests, writer.written)
        for each in replicas:
            assert all(each.device.store.groups.has_manifest(GROUP, manifest.hash) for manifest in manifests)
        _compare(replicas, writer.written)
        for each in replicas:
            each.device.wait(AWAITED_US / 1_000_000)  # what waited for a refused operation keeps nothing open
        for third in _thirds(writer.written):
            assert len({each.refuses(third) for each in replicas}) == 1
        endings = [ending for each in replicas if (ending := each.end_conflict()) is not None]
        for each in replicas:
            each.live(endings, [], forgets=False)
        merges = [operation for each in replicas for operation in each.says()]
        for each in replicas:
            each.live(endings, merges)
        _compare(replicas, [*writer.written, *merges])
        assert not endings or not replicas[0].device.node.groups.trust(GROUP).conflict
        for each in replicas:
            each.device.stop()


def _compare(replicas: Sequence[_Replica], operations: Sequence[Operation]) -> None:
    first, *others = ({**each.believes(), "held": [each.holds(it.id) for it in operations]} for each in replicas)
    for other in others:
        for what, believed in first.items():
            assert other[what] == believed, what
