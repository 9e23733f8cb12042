"""`covey.app.history.roles`: the agent forgets as its owner has set, and only by a clock that is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.clock import SystemClock
from covey.app.device.device import find_state, open_device
from covey.app.history.roles import forgetting_role
from covey.core.now import Now
from tests.command import Here


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keep_days", "synchronised", "forgotten"), [("0", True, 0), ("0.0000001", False, 0), ("0.0000001", True, 3)]
)
def test_an_agent_forgets_what_its_owner_lets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_days: str, synchronised: bool, forgotten: int
) -> None:
    monkeypatch.setattr(SystemClock, "synchronised", lambda _: synchronised)
    kim = Here(tmp_path, "kim")
    kim.ok("group", "create", "--mode", "admin-invites")
    for text in ("one", "two", "three"):
        kim.ok("history", "post", text)
    kim.ok("history", "checkpoint")
    kim.ok("config", "set", "history.keep_days", keep_days)
    with open_device(find_state(str(kim.state))) as device:
        role, now = forgetting_role(device), device.now()
        for turn in range(4):
            role.turn(device.node, Now(now.monotonic_us + turn * 1_000_000, now.wall_us))
        [group] = device.node.groups.joined()
        assert device.store.operations.forgotten.count(group.group_id) == forgotten
