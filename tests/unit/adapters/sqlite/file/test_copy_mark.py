"""`CopyMark`: a state that was restored shows, by whatever program and into whatever place."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from covey.adapters.sqlite.file.copy_mark import CopyMark
from covey.adapters.sqlite.file.state_file import StateFile
from covey.core.ids import Incarnation
from tests.durable import DurableDevice, folder_for
from tests.fleet import carry, found, identity


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: there new files get inodes that were freed, which a file system in memory does not."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def _incarnation(path: Path) -> Incarnation:
    store, _ = StateFile(path).open(identity("ann"), 10**9)
    try:
        return store.incarnations.present()
    finally:
        store.close()


def _be_the_agent(path: Path) -> None:
    """Start and end as the agent does."""
    store, _ = StateFile(path).open(identity("ann"), 10**9)
    StateFile(path).change_mark(store)
    store.counters.count("life")
    StateFile(path).change_mark(store)
    store.close()


def _tar(state: Path, backup: Path) -> Callable[[], None]:
    archive = backup / "backup.tar"
    subprocess.run(["tar", "--create", "--file", archive, "--directory", state.parent, state.name], check=True)
    return lambda: _run("tar", "--extract", "--file", archive, "--directory", state.parent)


def _tar_into_an_empty_place(state: Path, backup: Path) -> Callable[[], None]:
    unpack = _tar(state, backup)

    def restore() -> None:
        shutil.rmtree(state)
        unpack()

    return restore


def _cp(state: Path, backup: Path) -> Callable[[], None]:
    _run("cp", "--archive", state, backup)
    return lambda: _run("cp", "--archive", "--force", backup / state.name, state.parent)


def _the_database_alone(state: Path, backup: Path) -> Callable[[], None]:
    _run("cp", "--archive", state / "state.sqlite", backup)
    return lambda: _run("cp", backup / "state.sqlite", state)


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


@pytest.mark.processes
@pytest.mark.parametrize("how", [_tar, _tar_into_an_empty_place, _cp, _the_database_alone])
def test_a_restored_folder_shows(disk: Path, how: Callable[[Path, Path], Callable[[], None]]) -> None:
    """On ext4 `tar` gives the database the inode back that it has just freed."""
    state, backup = folder_for(disk, "covey"), folder_for(disk, "backup")
    path = state / "state.sqlite"
    _be_the_agent(path)
    restore = how(state, backup)
    before = _incarnation(path)
    _be_the_agent(path)
    assert _incarnation(path) == before, "nothing was restored yet"
    for _ in range(3):
        restore()
        _be_the_agent(path)
        after = _incarnation(path)
        assert after != before
        before = after


def test_a_folder_that_is_moved_is_no_copy(tmp_path: Path) -> None:
    state = folder_for(tmp_path, "covey")
    _be_the_agent(state / "state.sqlite")
    before = _incarnation(state / "state.sqlite")
    state.rename(tmp_path / "elsewhere")
    assert _incarnation(tmp_path / "elsewhere" / "state.sqlite") == before


def test_marks_do_not_pile_up_whatever_a_crash_leaves(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    _be_the_agent(path)
    before = _incarnation(path)
    store, _ = StateFile(path).open(identity("ann"), 10**9)
    store.connection.execute("BEGIN IMMEDIATE")
    store.device.set_mark(CopyMark(path).make())
    store.close()  # and the power goes before the commit
    assert _incarnation(path) == before, "the database names the mark of before, which is there"
    _be_the_agent(path)
    assert len(list(tmp_path.glob("state.sqlite-mark*"))) == 1


def test_a_link_to_the_mark_makes_a_copy_of_what_is_none(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    _be_the_agent(path)
    before = _incarnation(path)
    [mark] = tmp_path.glob("state.sqlite-mark*")
    os.link(mark, tmp_path / "link")
    assert _incarnation(path) != before, "which costs an incarnation, and nothing else"


@pytest.mark.processes
def test_new_messages_arrive_after_a_restore(disk: Path) -> None:
    """The documented way: five new messages after `tar`, of which one came."""
    folder, backup = folder_for(disk, "ann"), folder_for(disk, "backup")
    ann, ben = DurableDevice("ann", folder), DurableDevice("ben", disk)
    group_id = found(ann, ben)
    carry(ann, ben)
    ann.stop()
    restore = _tar(folder, backup)
    ann.restart()
    for number in range(4):
        ann.blob(group_id, b"lost life %d" % number)
    carry(ann, ben)
    ann.stop()
    restore()
    ann.restart()
    for number in range(5):
        ann.blob(group_id, b"after %d" % number)
    carry(ann, ben)
    assert [body for body in ben.inbox() if body.startswith(b"after")] == [b"after %d" % each for each in range(5)]
    assert ann.store.outbox.totals()[0] == 0
    assert ann.store.counters.values()["restored_states"] == 1
    ann.stop()
    ben.stop()
