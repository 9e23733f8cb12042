"""A disk that is full when an order has ended: how it ended is kept as soon as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.adapters.sqlite.store import SqliteStore
from covey.core.actions import results
from covey.errors import ActionError, DiskFullError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES
from tests.unit.app.orders.test_ordered_actions import Fleet, Machine


@contextmanager
def _full(store: SqliteStore) -> Iterator[None]:
    """Let the database not grow."""
    [[pages]] = store.database.run("PRAGMA page_count")
    store.database.run(f"PRAGMA max_page_count = {pages}")
    yield
    store.database.run("PRAGMA max_page_count = 1000000")


def test_a_result_is_stored_once_the_disk_has_room(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.obey()
    machine, store = fleet.machine, fleet.ben.store
    order = fleet.order()
    machine.turn()
    machine.programs[-1].output = bytes(MAXIMUM_ACTION_OUTPUT_BYTES)
    with _full(store), pytest.raises(DiskFullError):
        machine.become(3)
    assert machine.result(order) == ("BEGUN", "")
    machine.programs[-1].code = None  # who asks once more is told nothing
    machine.turn()
    record = store.commands.record(order)
    assert record is not None
    assert record.result is not None
    assert (record.state.name, record.result.exit) == ("DONE", 3)
    assert machine.effects == ["note"]


def test_so_is_that_it_could_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ActionError("no such program", results.NOT_STARTED)

    fleet = Fleet(tmp_path)
    fleet.obey()
    machine, store = fleet.machine, fleet.ben.store
    monkeypatch.setattr(Machine, "start", refuse)
    order = fleet.order()
    machine.role.turn(fleet.ben.node, fleet.ben.now)
    with _full(store):
        for _ in range(3):
            try:
                machine.turn()
            except DiskFullError:
                break
    machine.turn()
    machine.turn()
    assert machine.result(order) == ("REFUSED", results.NOT_STARTED)
