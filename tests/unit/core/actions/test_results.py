"""`covey.core.actions.results`: what a device reports of a command is read back, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from covey.core.actions.results import FINAL, LATE, TIME, CommandState, OrderResult
from covey.core.ids import OperationId
from covey.errors import RemoteError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES, MAXIMUM_RESULT_WHY_BYTES
from tests.vectors import vectors

_DONE = OrderResult(
    OperationId(bytes(32)), CommandState.DONE, 4, 7, 5, synchronised=True, exit=-9, output=b"\xff\0", cut=True
)
_STOPPED = OrderResult(OperationId(bytes(32)), CommandState.STOPPED, 4, 7, 5, output=b"here", code=TIME, why="60 s")
_REFUSED = OrderResult(OperationId(bytes(32)), CommandState.REFUSED, 4, 4, code=LATE, why="too late")


@pytest.mark.parametrize("vector", vectors("orders", "results"))
def test_bodies(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        assert OrderResult.from_wire(body).to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        OrderResult.from_wire(body)
    assert caught.value.code == vector["code"]


def test_a_result_is_read_back() -> None:
    longest = replace(_DONE, output=bytes(MAXIMUM_ACTION_OUTPUT_BYTES))
    for result in (_DONE, _STOPPED, _REFUSED, longest):
        assert OrderResult.from_wire(result.to_wire()) == result


@pytest.mark.parametrize(
    "wrong",
    [
        *(replace(_REFUSED, state=state) for state in CommandState if state not in FINAL),
        replace(_DONE, output=bytes(MAXIMUM_ACTION_OUTPUT_BYTES + 1)),
        replace(_REFUSED, why="a" * (MAXIMUM_RESULT_WHY_BYTES + 1)),
        replace(_REFUSED, exit=0),
        replace(_REFUSED, code=""),
        replace(_REFUSED, started_us=5),
        replace(_REFUSED, output=b"something"),
        replace(_STOPPED, started_us=None),
        replace(_STOPPED, exit=1),
        replace(_DONE, exit=None),
        replace(_DONE, exit=2**62),
        replace(_DONE, code=LATE),
        replace(_DONE, started_us=-1),
        replace(_DONE, order=OperationId(bytes(31))),
    ],
    ids=repr,
)
def test_contradictory_and_long_results_are_refused(wrong: OrderResult) -> None:
    with pytest.raises(RemoteError):
        OrderResult.from_wire(wrong.to_wire())
