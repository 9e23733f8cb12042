"""Plans for several groups: which order belongs to which, what a body of kind PLAN may say, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.history.bodies import Opaque, read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation
from covey.core.history.personal import FleetPlan
from covey.core.ids import DeviceKey
from covey.core.orders.plans import plan_of
from covey.errors import RemoteError
from tests.vectors import vectors
from tests.vectors.makers.cast import ALICE, GROUP_ID, INCARNATION
from tests.vectors.makers.groups import WITH_CAROL


def _operation(kind: int, body: bytes, author: DeviceKey = ALICE.signing_public) -> Operation:
    return Operation(GROUP_ID, Log(author, INCARNATION), 1, None, (), 1, WITH_CAROL.hash, 0, kind, body)


@pytest.mark.parametrize("vector", vectors("orders", "plans"))
def test_the_plan_of_an_order(vector: dict[str, Any]) -> None:
    author = DeviceKey(bytes.fromhex(vector["author"]))
    plan = plan_of(_operation(vector["kind"], bytes.fromhex(vector["bytes"]), author))
    assert (None if plan is None else plan.hex()) == vector["plan"]


@pytest.mark.parametrize("vector", vectors("personal", "bodies"))
def test_the_body_of_a_plan(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        FleetPlan.from_wire(body)
        return
    with pytest.raises(RemoteError) as caught:
        FleetPlan.from_wire(body)
    assert caught.value.code == vector["code"]
    assert isinstance(read_body(_operation(int(OperationKind.PLAN), body)), Opaque)
