"""`covey.core.checkpoints.forgetting`: what was forgotten by one checkpoint keeps its proof beside another one."""

from __future__ import annotations

from dataclasses import replace

from covey.adapters.sqlite.store import empty_history
from covey.core.checkpoints.checkpoints import Checkpoint, Checkpoints
from covey.core.checkpoints.forgetting import base_of, count_uncovered, forgettable
from covey.core.crypto import Identity
from covey.core.group.manifest import Role
from covey.core.history.bodies import GroupProfile, Note, read_body
from covey.core.history.body import OperationBody
from covey.core.history.operation import Operation, sign_operation
from covey.core.history.orders import Approval, Obeying
from covey.core.ids import OperationId
from covey.core.orders.authority import Pins
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID
from tests.vectors.makers.checkpoints import proposed
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.orders import as_they_may_come, said

_PINS = Pins(frozenset({ALICE.signing_public}))
_ALICES = replace(
    WITH_CAROL,
    members=tuple(
        replace(each, role=Role.ADMIN if each.keys.signing_public == ALICE.signing_public else Role.MEMBER)
        for each in WITH_CAROL.members
    ),
)


def _goes_on(before: Operation, author: Identity, body: OperationBody) -> Operation:
    """Return an operation that follows another one, in the same log."""
    it = replace(said(author, body, before), log=before.log, number=before.number + 1, previous=before.id)
    return sign_operation(it, author)


def test_a_profile_stays_while_an_earlier_checkpoint_beside_this_one_needs_it() -> None:
    titled = said(CAROL, GroupProfile("Pumps"))
    read = _goes_on(titled, CAROL, Note("text/plain", b"read"))
    one = (titled, read, _goes_on(read, CAROL, Note("text/plain", b"last")))
    earlier = proposed(ALICE, one, _PINS, _ALICES)
    renamed = said(BOB, GroupProfile("Pumps and wells"), titled)
    other = [titled, renamed]
    for text in (b"more", b"and more", b"last of all"):
        other.append(_goes_on(other[-1], BOB, Note("text/plain", text)))
    newer = proposed(BOB, other, _PINS, _ALICES)
    with empty_history() as tables:

        def found() -> list[Checkpoint]:
            return list(Checkpoints(tables, GROUP_ID, _PINS, frozenset(), lambda _: _ALICES).newest_first())

        def forget() -> int:
            base = base_of(found())
            assert base is not None
            return tables.forgotten.take(forgettable(tables, GROUP_ID, base, frozenset(), 2**62))

        for operation in as_they_may_come((*one, *earlier)):
            tables.add(operation, 1, 0)
        assert forget() == 1, "the note"
        for operation in as_they_may_come((*other[1:], *newer, said(ALICE, Approval(newer[-1].id), newer[-1]))):
            tables.add(operation, 1, 0)
        assert [each.code for each in found()] == ["", ""], "both count"
        assert forget() == 2, "the notes beside it, and no profile"
        assert count_uncovered(tables, GROUP_ID, found()) == 0, "what was forgotten first is covered as before"


def test_an_earlier_checkpoint_is_the_base_again_where_the_newer_one_covers_what_is_void() -> None:
    """Its author has lost its records since, so its last part is the last operation of a log, and stays."""
    titled = said(CAROL, GroupProfile("Pumps"))
    merge, part = proposed(ALICE, [titled], _PINS, _ALICES)
    earlier = [merge, _goes_on(merge, ALICE, read_body(part))]
    late = said(BOB, Obeying(), titled)
    newer = proposed(ALICE, [titled, *earlier, late], _PINS, _ALICES)
    with empty_history() as tables:

        def found(*void: OperationId) -> Checkpoint:
            checkpoints = Checkpoints(tables, GROUP_ID, _PINS, frozenset(void), lambda _: _ALICES)
            base = base_of(checkpoints.newest_first())
            assert base is not None
            return base

        for operation in as_they_may_come((titled, *earlier, late, *newer)):
            tables.add(operation, 1, 0)
        assert found().id == newer[-1].id
        assert tables.forgotten.take(forgettable(tables, GROUP_ID, found(), frozenset(), 2**62)) == 1
        base = found(late.id)
        assert base.id == earlier[-1].id
        assert base.state is not None
        assert tables.raw(GROUP_ID, base.state.covers) is None, "it was forgotten by the newer one"
        assert len(forgettable(tables, GROUP_ID, base, frozenset([late.id]), 2**62)) == 0
