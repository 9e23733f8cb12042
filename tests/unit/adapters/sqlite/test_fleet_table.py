"""What looks have found, in tables: counted, sorted and asked for in parts."""

from __future__ import annotations

from typing import Any

import pytest

from covey.adapters.sqlite.fleet_table import FleetTable, FoundDevice, GroupCounts, PresenceCount, Wanted
from covey.core.ids import DeviceKey, GroupId
from covey.errors import ConstraintError

_EAST, _WEST = GroupId(b"e" * 32), GroupId(b"w" * 32)


def _key(place: int) -> DeviceKey:
    return DeviceKey(place.to_bytes(2, "big") * 16)


def _row(place: int, label: str = "", presence: str = "online", **more: Any) -> FoundDevice:
    is_well = presence in {"online", "itself"}
    plain = FoundDevice(
        *(_key(place), label, label.casefold(), False, "", is_well, presence, 10 + place, None, None),
        *(0, 0, 0, "synchronised", b"", "", "{}"),
    )
    return plain._replace(**more)


def _table(*rows: FoundDevice) -> FleetTable:
    table = FleetTable()
    table.set_members(_EAST, [(each.device, each.label, each.is_board) for each in rows])
    table.put(rows)
    return table


def test_a_window_is_of_what_is_asked_for_and_begins_with_who_is_not_well() -> None:
    table = _table(_row(1, "Pump"), _row(2, "barn", "silent"), _row(3, "attic"), _row(4, "cellar", lost=2))
    assert [each.label for each in table.window(Wanted(), 0, 9)] == ["barn", "Pump", "attic", "cellar"]
    assert [each.label for each in table.window(Wanted(), 1, 2)] == ["Pump", "attic"]
    assert [each.label for each in table.window(Wanted("lost"), 0, 9)] == ["cellar"]
    assert [each.label for each in table.window(Wanted(folded="pum", beginning="pum"), 0, 9)] == ["Pump"]
    assert [each.label for each in table.window(Wanted(folded="0003", beginning="0003"), 0, 9)] == ["attic"]
    assert table.count(Wanted(folded="0_0%", beginning="0_0%")) == 0
    assert (table.count(Wanted("away")), table.count(Wanted(group_id=_WEST))) == (1, 0)


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
    table = _table(
        _row(1, version="covey 1; a"), _row(2, presence="silent", version="covey 1; b", waiting=3), _row(3, lost=4)
    )
    table.set_members(_WEST, [(_key(3), "", False)])
    assert sorted(table.presences()) == [PresenceCount("online", 2, 11), PresenceCount("silent", 1, 12)]
    assert table.totals() == (3, 4)
    assert table.groups() == {_EAST: GroupCounts(2, 1, 1, 1), _WEST: GroupCounts(1, 0, 1, 0)}
    assert table.versions(8) == [("covey 1", 2)]
    assert [each.device for each in table.behind(_key(1))] == []


def _stale(table: FleetTable) -> list[DeviceKey]:
    return [each.device for members in table.stale() for each in members]


def test_what_is_stale_comes_with_all_its_groups_and_what_was_read_of_it() -> None:
    table = _table(*map(_row, range(1, 1_201)))
    table.set_members(_WEST, [(_key(7), "seven", True)])
    table.keep_said([(_key(7), "summary", "everything")])
    assert _stale(table) == [_key(7)]
    table.note_all_stale()
    parts = list(table.stale())
    assert [len(each) for each in parts] == [500, 500, 200]
    seven = parts[0][6]
    assert (seven.label, seven.is_board, seven.summary) == ("seven", True, "summary")
    assert set(seven.groups.split(",")) == {_EAST.hex(), _WEST.hex()}
    assert (table.said(_key(7)), table.said(_key(8)), table.said_of()) == ("everything", None, [_key(7)])
    assert (table.first_unread(_key(7)), table.first_unread(_key(1_200))) == (_key(8), _key(1_200))


def test_a_row_is_stale_until_it_is_made_anew() -> None:
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
    table.keep_board(_key(1), "board 2")
    assert _stale(table) == [_key(1), _key(2), _key(4)]


def test_a_group_is_counted_again_where_a_row_of_it_was_written() -> None:
    table = _table(_row(1, groups=_EAST.hex()), _row(2, groups=_EAST.hex()))
    assert table.groups() == {_EAST: GroupCounts(2, 0, 0, 0)}
    table.put([_row(2, groups=_EAST.hex(), presence="gone")])
    assert table.groups() == {_EAST: GroupCounts(1, 1, 0, 0)}
    table.set_members(_WEST, [(_key(1), "", False)])
    table.forget_groups({_WEST})
    assert table.groups() == {_WEST: GroupCounts(1, 0, 0, 0)}


def test_who_has_left_is_dropped_with_what_was_read_of_it() -> None:
    table = _table(_row(1), _row(2))
    table.keep_said([(_key(2), "summary", "everything")])
    table.set_members(_WEST, [(_key(1), "", False)])
    table.forget_groups({_WEST})
    table.forget_devices()
    assert table.count(Wanted()) == 1
    assert table.said(_key(2)) is None
    assert table.first_unread(DeviceKey(b"")) == _key(1)


def test_what_is_as_before_is_not_written() -> None:
    table = _table(_row(1), _row(2))
    before = table.changes()
    table.put([_row(1), _row(2, since_us=None)])
    assert table.changes() == before + 1


def test_a_look_that_could_not_be_kept_stops_none_after_it() -> None:
    table = _table(_row(1))
    with pytest.raises(ConstraintError):
        table.put([_row(2), _row(3, version=None)])
    nothing: Any = None
    with pytest.raises(ConstraintError):
        table.keep_said([(_key(1), "summary", nothing)])
    table.put([_row(1, waiting=4)])
    assert table.totals() == (4, 0)
