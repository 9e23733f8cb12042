"""A bad release over two brokers and a stick comes to one wave, and all of that are back by themselves; a good one to
all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from covey.app.orders.fleet import Scope
from covey.app.orders.release_reports import Release, release
from covey.app.orders.releases import PlannedPart, begin, go_on, plan_release, read_waves
from covey.core.history.kinds import OperationKind
from tests.examples import parameters
from tests.sealed import sealed
from tests.sim.released import Pump, ReleaseWorld

_STEPS = 240
_VISITS = 12
"""Steps between two visits with a stick: a minute."""
_PATIENCE_US = 600_000_000


def _released(world: ReleaseWorld, version: str) -> Release:
    """Release a version, and give its waves until it is over, or has stopped."""
    world.offer(version)
    opened = world.opened(world.operator)
    scope = Scope((world.group,))
    [(group, plan)] = plan_release(opened, scope.groups, "all", read_waves("1%,10%,100%"), 2, _PATIENCE_US, 0, 0)
    found = begin(opened, scope, "pump", [PlannedPart(group, plan, sealed(opened, group))], "all")
    for step in range(_STEPS):
        if found.state in {"finished", "stopped"}:
            break
        world.step()
        if step % _VISITS == 0:
            world.carry_stick()
        found = go_on(opened, scope.groups, found.id)
    return found


def _bad(world: ReleaseWorld, devices: int) -> set[Pump]:
    """Release what fails, or cuts its device off; return the devices that were on it, and check that they are back."""
    for each in world.devices:
        each.cuts_off = "bad 2" if world.chance.random() < 0.3 else ""
    bad = _released(world, "bad 2")
    assert (bad.state, bad.waves_given) == ("stopped", 1)
    for _ in range(2):
        for _ in range(_VISITS):
            world.step()
        world.carry_stick()
    tried = world.was_on("bad 2")
    assert 1 <= len(tried) <= devices // 100
    assert {each.version for each in world.devices} == {"good 1"}
    found = release(world.opened(world.operator), [world.group], bad.id)
    assert (len(found.failed), found.silent, found.state) == (len(tried), (), "stopped"), "all say that they are back"
    assert all(world.has(each, OperationKind.RELEASE) for each in world.devices), "all know, by stick as well"
    return tried


@pytest.mark.parametrize("devices", parameters([100, 300], quick=0, plain=1))
def test_a_bad_release_comes_to_one_in_a_hundred_and_then_a_good_one_to_all(tmp_path: Path, devices: int) -> None:
    with closing(ReleaseWorld(tmp_path, 2, devices, by_stick=6)) as world:
        tried = _bad(world, devices)
        good = _released(world, "good 3")
        assert (good.state, len(good.devices), good.failed, good.silent) == ("finished", devices, (), ())
        assert {each.version for each in world.devices} == {"good 3"}
        assert world.was_on("bad 2") == tried
