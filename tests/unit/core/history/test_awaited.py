"""`covey.core.history.awaited`: which logs beyond their authors' shares a device fetches."""

from __future__ import annotations

import pytest

from covey.core.crypto import Identity
from covey.core.history.awaited import AwaitedLogs
from covey.core.history.bodies import Merge
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.ids import Incarnation, OperationId
from covey.core.now import Now
from covey.limits.history import AWAITED, AWAITED_US
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, seeded
from tests.vectors.makers.groups import WITH_CAROL

_NOW = Now(0, 0)


def _operation(author: Identity, number: int = 1, *parents: OperationId) -> Operation:
    log = Log(author.signing_public, Incarnation(bytes(8)))
    previous = None if number == 1 else OperationId(seeded(f"before {number}"))
    height = 2 if parents else 1
    fields = GROUP_ID, log, number, previous, tuple(sorted(parents)), height, WITH_CAROL.hash, 0, 0, Merge().to_wire()
    return sign_operation(Operation(*fields), author)


def test_a_log_is_awaited_up_to_the_operation_that_another_authors_names() -> None:
    awaited = AwaitedLogs()
    first, second, third = (_operation(BOB, number) for number in (1, 2, 3))
    awaited.await_for(_operation(ALICE, 1, second.id), [second.id], _NOW)
    assert not awaited.covers(second, _NOW), "nobody knows yet which log it is of"
    awaited.see(second, _NOW)
    assert [awaited.covers(each, _NOW) for each in (first, second, third)] == [True, True, False]
    assert not awaited.covers(first, Now(AWAITED_US, 0)), "it is not awaited for ever"


def test_an_author_makes_nobody_await_its_own_logs() -> None:
    awaited = AwaitedLogs()
    named = _operation(BOB)
    awaited.await_for(_operation(BOB, 1, named.id), [named.id], _NOW)
    awaited.see(named, _NOW)
    assert not awaited.covers(named, _NOW)


def test_what_one_author_waits_for_takes_no_room_from_another() -> None:
    awaited = AwaitedLogs()
    named = _operation(BOB)
    awaited.await_for(_operation(ALICE, 1, named.id), [named.id], _NOW)
    flood = [OperationId(seeded(f"never {number}")) for number in range(AWAITED + 1)]
    awaited.await_for(_operation(CAROL, 1, flood[0]), flood, _NOW)
    awaited.see(named, _NOW)
    assert awaited.covers(named, _NOW)


def test_so_many_bytes_are_taken_for_one_author(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _operation(BOB), _operation(BOB, 2)
    monkeypatch.setattr("covey.core.history.awaited.AWAITED_BYTES", len(first.raw) - 1)
    awaited = AwaitedLogs()
    awaited.await_for(_operation(ALICE, 1, second.id), [second.id], _NOW)
    awaited.see(second, _NOW)
    assert awaited.covers(first, _NOW)
    awaited.take(first, _NOW)
    assert not awaited.covers(second, _NOW)
