"""An agent that has nothing to do writes nothing, whatever it holds: a card lasts, and a disk may sleep."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.agent.daemon import run_agent
from covey.app.agent.roles import configured_roles
from covey.app.loop.runtime import Runtime
from covey.ports import RelayUp
from tests.command import Here
from tests.unit.app.loop.test_runtime import SECOND, Clock, Relay

_STEP_S = 10
_SETTLES_S = 1_800
_IDLE_S = 7_500
"""An hour is the longest that a role rests before it looks for something to do."""


class _Watch:
    """Has the loop turn while a clock runs fast, and looks from outside whether anything is written."""

    def __init__(self, state: Path, clock: Clock) -> None:
        self._state, self._clock = state, clock
        self.turns, self.written = 0, list[str]()

    def run(self, runtime: Runtime, _until: Callable[[], bool]) -> None:
        """Take the place of the loop, which waits for a relay in true time."""
        runtime.turn([RelayUp("relay", False, 1_000_000)])
        with closing(sqlite3.connect(self._state / "state.sqlite")) as beside:
            for settled_s, of in ((0, _SETTLES_S), (_SETTLES_S, _IDLE_S)):
                seen = self._seen(beside)
                for _ in range(0, of, _STEP_S):
                    self._clock.now_us += _STEP_S * SECOND
                    runtime.turn([])
                    self.turns += 1
                    seen, before = self._seen(beside), seen
                    if settled_s:
                        self.written += sorted(name for name, how in seen.items() if before.get(name) != how)

    def _seen(self, beside: sqlite3.Connection) -> dict[str, object]:
        [(version,)] = beside.execute("PRAGMA data_version")
        files = {each.name: each.stat() for each in self._state.rglob("*") if each.is_file()}
        by_file = {name: (how.st_size, how.st_mtime_ns) for name, how in files.items() if not name.endswith("-shm")}
        return {"the database": version, **by_file}


@pytest.mark.slow
def test_an_agent_with_a_history_writes_nothing_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = Here(tmp_path, "ann")
    ann.ok("relay", "set", "mqtt://127.0.0.1:1", "--password-file", "-", feed="nobody listens")
    ann.ok("group", "create")
    ann.ok("config", "set", "operations.operators", ann.json("key", "show")["signing_key"])
    ann.ok("config", "set", "operations.commands", "restart-agent")
    ann.ok("config", "set", "history.keep_days", "1")
    for number in range(3):
        ann.ok("history", "post", f"pump {number} rattles")
    ann.ok("setting", "set", "app.mode", "eco")
    ann.ok("history", "checkpoint")
    clock = Clock()
    watch = _Watch(ann.state, clock)
    monkeypatch.setattr("covey.app.device.device.SystemClock", lambda _earliest_us: clock)
    monkeypatch.setattr("covey.app.device.relay_access.make_relays", lambda *_: [Relay()])

    def run(runtime: Runtime, until: Callable[[], bool]) -> None:
        watch.run(runtime, until)

    monkeypatch.setattr(Runtime, "run", run)
    run_agent(StateFolder.at(ann.state), lambda device: configured_roles(device, sensors=False))
    assert watch.turns > _IDLE_S // _STEP_S
    assert watch.written == []
