"""What only one process of a device may do at a time, it does alone."""

from __future__ import annotations

import os
from pathlib import Path

from covey.adapters.state_folder import ProcessLocks


def test_a_lock_has_one_holder_until_it_is_released(tmp_path: Path) -> None:
    locks = ProcessLocks(tmp_path)
    assert not locks.agent_runs()
    held = locks.agent()
    assert held is not None
    assert locks.agent() is None
    assert locks.agent_runs()
    os.close(held)
    assert not locks.agent_runs()


def test_each_is_for_one_thing_alone(tmp_path: Path) -> None:
    locks = ProcessLocks(tmp_path)
    takes = (locks.agent, locks.relay, locks.served_relay, locks.alerts, locks.doors, locks.vault)
    held = [take() for take in takes]
    assert None not in held
    for descriptor in held:
        os.close(descriptor or 0)


def test_looking_for_who_sends_alerts_writes_nothing(tmp_path: Path) -> None:
    locks = ProcessLocks(tmp_path)
    assert not locks.alerts_are_watched()
    assert not list(tmp_path.iterdir())
    held = locks.alerts()
    assert held is not None
    assert locks.alerts_are_watched()
    os.close(held)
    assert not locks.alerts_are_watched()
