"""What looks have found, in tables: counted, sorted and asked for in parts."""

from __future__ import annotations

from typing import Any

import pytest

from covey.adapters.sqlite.fleet_table import (
    FleetTable,
    FoundDevice,
    GroupCounts,
    PresenceCount,
    SaidSummary,
    Wanted,
)
from covey.core.ids import DeviceKey, GroupId
from covey.errors import ConstraintError

_EAST, _WEST = GroupId(b"e" * 32), GroupId(b"w" * 32)


def _key(place: int) -> DeviceKey:
    return DeviceKey(place.to_bytes(2, "big") * 16)


def _row(place: int, label: str = "", presence: str = "online", **more: Any) -> FoundDevice:
    is_well = presence in {"online", "itself"}
    plain = FoundDevice(
        *(_key(place), label, label.casefold(), False, "", is_well, presence, 10 + place, None, None),
        *(0, None, "", 0, b""),
    )
    return plain._replace(**more)


def _says(table: FleetTable, place: int, **more: Any) -> None:
    table.keep_said([(_key(place), SaidSummary(5, "synchronised", 7)._replace(**more), f"everything of {place}")])


def _table(*rows: FoundDevice) -> FleetTable:
    table = FleetTable()
    table.set_members(_EAST, [(each.device, each.label, each.is_board) for each in rows])
    table.put(rows)
    return table


def test_a_window_is_of_what_is_asked_for_and_begins_with_who_is_not_well() -> None:
    table = _table(_row(1, "Pump"), _row(2, "barn", "silent"), _row(3, "attic"), _row(4, "cellar"))
    _says(table, 4, lost=2)
    assert [each.found.label for each in table.window(Wanted(), 0, 9)] == ["barn", "Pump", "attic", "cellar"]
    assert [each.found.label for each in table.window(Wanted(), 1, 2)] == ["Pump", "attic"]
    assert [each.found.label for each in table.window(Wanted("lost"), 0, 9)] == ["cellar"]
    assert [each.found.label for each in table.window(Wanted(folded="pum", beginning="pum"), 0, 9)] == ["Pump"]
    assert [each.found.label for each in table.window(Wanted(folded="0003", beginning="0003"), 0, 9)] == ["attic"]
    assert table.count(Wanted(folded="0_0%", beginning="0_0%")) == 0
    assert (table.count(Wanted("offline")), table.count(Wanted(group_id=_WEST))) == (1, 0)


def test_devices_with_series_in_alarm_are_found() -> None:
    table = _table(_row(1, "Pump"), _row(2, "barn"))
    _says(table, 1, alarms=2, alarm_names='["a", "b"]')
    [shown] = table.window(Wanted("alarm"), 0, 9)
    assert (shown.found.label, shown.said.alarms, shown.said.alarm_names) == ("Pump", 2, '["a", "b"]')
    _says(table, 1)
    assert table.count(Wanted("alarm")) == 0


def test_a_search_reads_an_index_and_of_the_table_what_is_shown() -> None:  # the table of 100,000 is 60 MB
    table = _table(_row(1, "Pump"))
    asked: list[str] = []
    table._connection.set_trace_callback(asked.append)
    table.window(Wanted(folded="pum", beginning="pum"), 0, 9)
    table.count(Wanted(folded="pum", beginning="pum"))
    table._connection.set_trace_callback(None)
    for statement in asked:
        plan = [row[3] for row in table._connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert [each for each in plan if each.startswith("SCAN")] == ["SCAN device USING COVERING INDEX device_all"]


def test_it_counts_by_presence_by_group_and_by_version() -> None:
    table = _table(_row(1), _row(2, presence="silent", waiting=3), _row(3))
    _says(table, 1, version="covey 1; a")
    _says(table, 2, version="covey 1; b")
    _says(table, 3, lost=4)
    table.set_members(_WEST, [(_key(3), "", False)])
    assert sorted(table.presences()) == [PresenceCount("online", 2, 11), PresenceCount("silent", 1, 12)]
    assert table.totals() == (3, 4)
    assert table.groups() == {_EAST: GroupCounts(2, 1, 1, 1), _WEST: GroupCounts(1, 0, 1, 0)}
    assert table.versions(8) == [("covey 1", 2)]
    assert [each.found.device for each in table.behind(_key(1))] == []


def _stale(table: FleetTable) -> list[DeviceKey]:
    return [each.device for members in table.stale() for each in members]


def test_a_changed_device_is_read_with_all_its_groups() -> None:
    table = _table(*map(_row, range(1, 1_201)))
    table.set_members(_WEST, [(_key(7), "seven", True)])
    assert _stale(table) == [_key(7)]
    table.note_all_stale()
    parts = list(table.stale())
    assert [len(each) for each in parts] == [500, 500, 200]
    seven = parts[0][6]
    assert (seven.label, seven.is_board) == ("seven", True)
    assert set(seven.groups.split(",")) == {_EAST.hex(), _WEST.hex()}
    _says(table, 7)
    assert table.said([_key(each) for each in range(1, 1_200)]) == {_key(7): "everything of 7"}
    assert table.said_of() == [_key(7)]
    assert (table.first_unread(_key(7)), table.first_unread(_key(1_200))) == (_key(8), _key(1_200))


def test_a_row_is_stale_until_it_is_rebuilt() -> None:
    table = FleetTable()
    table.set_members(_EAST, [(_key(each), "", False) for each in (1, 2, 3, 4)])
    assert _stale(table) == [_key(each) for each in (1, 2, 3, 4)]
    table.put([_row(1), _row(2, seen_us=20, until_us=80), _row(3), _row(4)])
    assert _stale(table) == []
    table.note_overdue(80, 9)
    assert _stale(table) == []
    table.note_overdue(81, 9)
    table.note_presences([(_key(1), "online", 11, None), (_key(3), "online", 13, 40), (_key(9), "gone", 1, 1)])
    table.note_stale([_key(4), _key(9)])
    assert _stale(table) == [_key(2), _key(3), _key(4)]
    table.put([_row(3, presence="silent")])
    assert _stale(table) == [_key(2), _key(4)]


@pytest.mark.parametrize("is_first", [True, False])
def test_readings_are_shown_and_counted_without_rebuilding_the_row(is_first: bool) -> None:
    table = _table(*([] if is_first else [_row(1), _row(2)]))
    table.set_members(_EAST, [(_key(1), "", False), (_key(2), "", True)])
    _says(table, 1, lost=4, lost_why="why", version="covey 1", clock="unsynchronised")
    table.keep_board(_key(2), "board 2")
    _says(table, 2, version="covey 1")
    table.keep_board(_key(3), "of no member")
    table.put([_row(1), _row(2)])
    assert _stale(table) == []
    one, two = table.window(Wanted(), 0, 9)
    assert (one.version, one.said.lost, one.said.lost_why, one.said.newest_at_us) == ("covey 1", 4, "why", 5)
    assert (two.version, two.said.version, two.said.lost) == ("board 2", "covey 1", 0)
    assert [each.found.device for each in table.window(Wanted("clock"), 0, 9)] == [_key(1)]
    assert (table.totals(), table.groups()[_EAST].lost) == ((0, 4), 1)
    _says(table, 1, version="covey 2")
    assert (table.versions(8), table.totals()) == ([("board 2", 1), ("covey 2", 1)], (0, 0))
    assert table.groups() == {_EAST: GroupCounts(2, 0, 0, 0)}


def test_a_groups_counts_go_on_with_each_row_that_is_written() -> None:
    table = _table(_row(1), _row(2))
    table.set_members(_WEST, [(_key(2), "", False)])
    table.put([_row(2)])
    assert table.groups() == {_EAST: GroupCounts(2, 0, 0, 0), _WEST: GroupCounts(1, 0, 0, 0)}
    asked: list[str] = []
    table._connection.set_trace_callback(asked.append)
    table.put([_row(2, presence="gone", waiting=3)])
    _says(table, 1, lost=2)
    _says(table, 2, lost=2)
    assert table.groups() == {_EAST: GroupCounts(1, 1, 2, 1), _WEST: GroupCounts(0, 1, 1, 1)}
    table.put([_row(1, presence="silent"), _row(2, presence="gone", waiting=5)])
    _says(table, 2)
    assert table.groups() == {_EAST: GroupCounts(0, 2, 1, 1), _WEST: GroupCounts(0, 1, 0, 1)}
    table._connection.set_trace_callback(None)
    assert not [each for each in asked if "FROM member JOIN device" in each], "no group was counted anew"
    table.put([_row(1)])
    table.set_members(_WEST, [(_key(1), "", False)])
    table.forget_groups({_WEST})
    assert table.groups() == {_WEST: GroupCounts(1, 0, 1, 0)}


def test_a_device_that_left_is_dropped_with_its_readings() -> None:
    table = _table(_row(1), _row(2))
    _says(table, 2)
    table.set_members(_WEST, [(_key(1), "", False)])
    table.forget_groups({_WEST})
    table.forget_devices()
    assert table.count(Wanted()) == 1
    assert table.said([_key(2)]) == {}
    assert table.first_unread(DeviceKey(b"")) == _key(1)


def test_unchanged_rows_are_not_written() -> None:
    table = _table(_row(1), _row(2))
    before = table.changes()
    table.put([_row(1), _row(2, since_us=None)])
    assert table.changes() == before + 1


def test_a_look_that_could_not_be_kept_stops_none_after_it() -> None:
    table = _table(_row(1))
    with pytest.raises(ConstraintError):
        table.put([_row(2), _row(3, waiting=None)])
    nothing: Any = None
    with pytest.raises(ConstraintError):
        table.keep_said([(_key(1), SaidSummary(), nothing)])
    table.put([_row(1, waiting=4)])
    assert table.totals() == (4, 0)
