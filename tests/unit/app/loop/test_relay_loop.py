"""`covey.app.loop.relay_loop`: a command that waits for its agent looks as soon as that has committed something."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.history.writing import write_note
from covey.app.loop import relay_loop
from covey.app.loop.relay_loop import wait_until
from tests.command import Here
from tests.waiting import GUARD_S


def test_a_commit_of_the_agents_ends_the_wait_before_its_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_loop, "_POLL_S", 4 * GUARD_S)
    ann = Here(tmp_path, "ann")
    ann.ok("group", "create")
    folder = find_state(str(ann.state))
    agent = folder.locks.agent()
    assert agent is not None
    looks = 0

    with open_device(folder) as waiting:
        group = waiting.pick_group(None).group_id

        def written() -> bool:
            nonlocal looks
            looks += 1
            if looks == 1:
                other.start()
            return bool(waiting.store.operations.logs(group))

        def write() -> None:
            with open_device(find_state(str(ann.state))) as writing:
                write_note(writing, writing.pick_group(None), b"one", "text/plain", None, None)

        other = Thread(target=write)
        assert wait_until(waiting, written, 2 * GUARD_S)
        other.join()
    os.close(agent)
