"""A pipe beside a state: who listens is woken, and who wakes it waits for nobody."""

from __future__ import annotations

from pathlib import Path
from threading import Event

from covey.adapters.wake_pipe import WakePipe, wake_agent
from tests.waiting import GUARD_S


def test_a_listener_is_woken_until_it_is_closed(tmp_path: Path) -> None:
    path, woken = tmp_path / "wake.pipe", Event()
    pipe = WakePipe(path, woken.set)
    for _ in range(2):
        woken.clear()
        wake_agent(path)
        assert woken.wait(GUARD_S)
    assert path.stat().st_mode & 0o777 == 0o600
    woken.clear()
    pipe.close()
    wake_agent(path)
    assert not woken.is_set()
    pipe.close()


def test_waking_does_not_block_or_write_files(tmp_path: Path) -> None:
    wake_agent(tmp_path / "wake.pipe")
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"as it was")
    link.symlink_to(file)
    for each in (file, link):
        wake_agent(each)
    assert file.read_bytes() == b"as it was"


def test_a_dead_agents_pipe_is_replaced(tmp_path: Path) -> None:
    path, woken = tmp_path / "wake.pipe", Event()
    path.write_bytes(b"")
    pipe = WakePipe(path, woken.set)
    wake_agent(path)
    assert woken.wait(GUARD_S)
    pipe.close()


def test_an_agent_that_can_make_none_works_without(tmp_path: Path) -> None:
    WakePipe(tmp_path / "no folder" / "wake.pipe", lambda: None).close()
