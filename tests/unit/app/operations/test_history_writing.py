"""Two commands of one device that write to a history at the same time."""

from __future__ import annotations

from pathlib import Path

from covey.app.device import find_state, open_device
from covey.app.operations.history_writing import write, write_note
from covey.core.history.bodies import Note
from tests.command import Here


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


def test_a_note_that_is_too_long_is_told_to_go_as_a_file(tmp_path: Path) -> None:
    ann = Here(tmp_path, "ann")
    ann.ok("group", "create")
    assert "covey put FILE" in ann.fails("note", "a" * 70_000, code=1)
