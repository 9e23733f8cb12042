"""Plans for several groups: which order belongs to which, what a body of kind PLAN may say, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from covey.core.history.bodies import Opaque, read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation
from covey.core.history.personal import FleetPlan
from covey.core.ids import DeviceKey
from covey.core.orders.plans import kept_order, order_in_group, plan_id
from covey.core.orders.selector import Selector, SelectorKind
from covey.errors import RemoteError
from tests.vectors import vectors
from tests.vectors.makers.cast import ALICE, BOB, GROUP_ID, INCARNATION
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.plans import REBOOT, WITH_ORDER


def _operation(kind: int, body: bytes, author: DeviceKey = ALICE.signing_public) -> Operation:
    return Operation(GROUP_ID, Log(author, INCARNATION), 1, None, (), 1, WITH_CAROL.hash, 0, kind, body)


@pytest.mark.parametrize("vector", vectors("orders", "plans"))
def test_the_plan_of_an_order(vector: dict[str, Any]) -> None:
    author = DeviceKey(bytes.fromhex(vector["author"]))
    plan = plan_id(author, read_body(_operation(vector["kind"], bytes.fromhex(vector["bytes"]), author)))
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


def test_a_plan_keeps_only_an_order_of_its_own() -> None:
    own, other = ALICE.signing_public, BOB.signing_public
    id_of_order = plan_id(own, REBOOT)
    assert id_of_order is not None
    plan = replace(WITH_ORDER, id=id_of_order)
    assert kept_order(own, plan) == REBOOT
    assert kept_order(other, plan) is None, "of another author it is another plan"
    assert kept_order(own, replace(plan, order=replace(REBOOT, action="halt").to_wire())) is None
    assert kept_order(own, replace(plan, order=b"nothing that reads")) is None
    assert kept_order(own, replace(plan, order=None)) is None


def test_an_order_is_given_in_a_group_for_the_devices_of_that_group() -> None:
    one, other = sorted((ALICE.signing_public, BOB.signing_public))
    both = replace(REBOOT, selector=Selector(SelectorKind.DEVICES, devices=(one, other)))
    given = order_in_group(both, {one})
    assert given is not None
    assert given.selector.devices == (one,)
    assert plan_id(one, given) == plan_id(one, both)
    assert order_in_group(both, {DeviceKey(bytes(32))}) is None
    assert order_in_group(REBOOT, set()) == REBOOT
