"""What a command writes to a history: beside another one that does, within bounds, and known to the agent at once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from threading import Event

from covey.adapters.wake_pipe import WakePipe
from covey.app.device.device import find_state, open_device
from covey.app.history.writing import write, write_note
from covey.core.history.bodies import Note
from tests.command import Here
from tests.waiting import GUARD_S


def test_a_command_follows_what_another_one_has_written_since_it_looked(tmp_path: Path) -> None:
    ann = Here(tmp_path, "ann")
    ann.ok("group", "create")
    with open_device(find_state(str(ann.state))) as first, open_device(find_state(str(ann.state))) as second:
        group = second.pick_group(None)
        second.node.history.standing(group.group_id)
        for text in (b"one", b"two"):
            write_note(first, group, text, "text/plain", None, None)
        last = write(second, group, Note("text/plain", b"three"))
        assert (last.height, last.number) == (3, 3)


def test_the_error_for_a_long_note_suggests_a_file(tmp_path: Path) -> None:
    ann = Here(tmp_path, "ann")
    ann.ok("group", "create")
    assert "covey file put FILE" in ann.fails("history", "post", "a" * 70_000, code=1)


def test_the_agent_is_woken_by_what_a_command_writes(tmp_path: Path) -> None:
    ann = Here(tmp_path, "ann")
    ann.ok("group", "create")
    woken = Event()
    with closing(WakePipe(find_state(str(ann.state)).wake_pipe, woken.set)):
        ann.ok("history", "post", "hello")
        assert woken.wait(GUARD_S)
