"""`covey.app.device.storage_writes`: what the kernel counts is added up by running time, and rarely noted."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.process_writes import ProcessWrites, written_by_thread
from covey.app.device.storage_writes import (
    DATABASE_COUNTER,
    WRITTEN_COUNTER,
    StorageWrites,
    WrittenBytes,
    lately_written,
)
from covey.core.now import Now
from covey.limits.storage import WRITES_NOTED_BYTES
from tests.fleet import Device

_HOUR_S = 3_600


class _Machine:
    """An agent's machine, whose kernel counts what a test says."""

    def __init__(self, folder: Path) -> None:
        self.counts = folder / "io"
        self.wrote(0)
        self.device = Device("ann", folder)
        self.store = self.device.store
        self.written_by_loop = 0
        self.store.database.count_written = lambda: self.written_by_loop
        self.hours = 0
        self.writes = ProcessWrites(self.counts)
        self.role = StorageWrites(self.store, self.writes, self.now)

    @property
    def now(self) -> Now:
        """The time; the wall clock goes wrong."""
        return Now(self.hours * _HOUR_S * 1_000_000, 5)

    def wrote(self, total: int, cancelled: int = 0) -> None:
        """Let the kernel have counted this since the start of the process."""
        self.counts.write_text(f"rchar: 1\nwrite_bytes: {total}\ncancelled_write_bytes: {cancelled}\n")

    def hour(self, total: int) -> None:
        """Let an hour pass."""
        self.hours += 1
        self.wrote(total)
        self.role.turn(self.device.node, self.now)

    @property
    def commits(self) -> int:
        """How often the agent has written."""
        return self.store.database.one("SELECT commits FROM device")


@pytest.fixture
def machine(tmp_path: Path) -> _Machine:
    return _Machine(tmp_path)


def test_nothing_is_shown_before_anything_is_counted(machine: _Machine) -> None:
    assert lately_written(machine.store) is None


def test_a_day_is_averaged_over_the_running_time(machine: _Machine) -> None:
    for hour in range(1, 49):
        machine.hour(hour * WRITES_NOTED_BYTES)
        expected = None if hour < 24 else 24 * WRITES_NOTED_BYTES
        found = lately_written(machine.store)
        assert found == WrittenBytes(hour * WRITES_NOTED_BYTES, hour * _HOUR_S)
        assert found.per_day == expected
    assert machine.store.counters.values()[WRITTEN_COUNTER] == 48 * WRITES_NOTED_BYTES


def test_the_last_week_counts(machine: _Machine) -> None:
    total = 0
    for day in range(20):
        for _ in range(24):
            total += WRITES_NOTED_BYTES * (10 if day < 10 else 1)
            machine.hour(total)
    found = lately_written(machine.store)
    assert found == WrittenBytes(7 * 24 * WRITES_NOTED_BYTES, 7 * 24 * _HOUR_S)


def test_an_agent_that_writes_little_notes_it_once_a_day(machine: _Machine) -> None:
    before = machine.commits
    for hour in range(1, 24):
        machine.hour(hour * 100)
    assert machine.commits == before
    machine.hour(2_400)
    assert machine.commits == before + 1
    assert lately_written(machine.store) == WrittenBytes(2_400, 24 * _HOUR_S)


def test_pending_write_counts_are_stored_at_the_end(machine: _Machine) -> None:
    machine.hour(100)
    machine.role.stop(machine.device.node, machine.now)
    assert lately_written(machine.store) == WrittenBytes(100, _HOUR_S)
    restarted = StorageWrites(machine.store, machine.writes, machine.now)  # the agent restarts in the same process
    machine.hours += 1
    machine.wrote(150)
    restarted.stop(machine.device.node, machine.now)
    assert lately_written(machine.store) == WrittenBytes(150, 2 * _HOUR_S)


def test_the_share_of_the_database_is_counted_once(machine: _Machine) -> None:
    def commit(size: int) -> None:
        with machine.store.transaction():
            machine.store.counters.count("something")
            machine.written_by_loop += size

    commit(300)
    machine.written_by_loop += 5_000  # outside of a transaction: another file
    commit(100)
    machine.hour(10_000)
    machine.role.stop(machine.device.node, machine.now)
    assert lately_written(machine.store) == WrittenBytes(10_000, _HOUR_S, 400)
    commit(50)
    machine.hour(10_100)
    machine.role.stop(machine.device.node, machine.now)
    assert lately_written(machine.store) == WrittenBytes(10_100, 2 * _HOUR_S, 450)
    assert machine.store.counters.values()[DATABASE_COUNTER] == 450


def test_this_kernel_counts_what_a_thread_writes(tmp_path: Path) -> None:
    before = written_by_thread()
    (tmp_path / "file").write_bytes(bytes(100_000))
    in_memory = written_by_thread() == before  # tmpfs
    assert in_memory or written_by_thread() - before >= 100_000


def test_writes_that_a_truncation_spared_the_disk_do_not_count(machine: _Machine) -> None:
    machine.wrote(10_000, cancelled=4_000)
    assert machine.writes.unnoted() == 6_000


@pytest.mark.parametrize("counts", ["", "write_bytes: many\ncancelled_write_bytes: 0\n", None])
def test_a_kernel_that_does_not_count_is_no_reason_to_stop(machine: _Machine, counts: str | None) -> None:
    machine.hours = 30
    if counts is None:
        machine.counts.unlink()
    else:
        machine.counts.write_text(counts)
    machine.role.turn(machine.device.node, machine.now)
    machine.role.stop(machine.device.node, machine.now)
    assert lately_written(machine.store) is None


def test_a_damaged_note_is_begun_again(machine: _Machine) -> None:
    with machine.store.transaction():
        machine.store.conditions.set("written", "[[1", 5)
    assert lately_written(machine.store) is None
    machine.wrote(100)
    machine.role.stop(machine.device.node, machine.now)
    assert lately_written(machine.store) == WrittenBytes(100, 0)


def test_this_kernel_counts() -> None:
    assert ProcessWrites().unnoted() is not None
