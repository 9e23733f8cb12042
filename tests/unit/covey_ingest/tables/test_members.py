"""`covey_ingest.tables.members`: what devices were called when, by landed manifests and profiles in whatever order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from covey.core.vault.documents import SegmentRecord
from covey.core.vault.landed_records import landed_manifest
from covey_ingest.committer.state_file import read_state
from covey_ingest.tables.members import MEMBERS, ROWS, path_in, spans, update
from covey_ingest.task.memberships import TABLE
from tests.group_manifests import ANN, BEN, NOON_US, first, profile, relabelled, with_ben, without_ben
from tests.unit.covey_ingest.recorded import recorded

NOON = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=NOON_US)


def _said(*said: tuple[float, bytes]) -> list[dict[str, Any]]:
    """Return rows of the table: what was landed how many seconds after noon."""
    found = []
    for seconds, raw in said:
        record = SegmentRecord(NOON_US + int(seconds * 1e6), raw, 1, 0)
        rows = recorded([record])
        for row in [row for batch in rows for row in batch.to_pylist()]:
            assert row["kind"] == "membership", row
            found.append({**row["membership"], **{name: row[name] for name in ("group", "author", "received_at")}})
    return found


def _spans(*said: tuple[float, bytes]) -> list[tuple[Any, ...]]:
    """Return who was called what, in which group, from when until when, in seconds after noon."""
    rows = spans(pa.Table.from_pylist(_said(*said), schema=ROWS)).to_pylist()

    def seconds(moment: datetime | None) -> float | None:
        return None if moment is None else (moment - NOON).total_seconds()

    names = {ANN.signing_public.hex(): "ann", BEN.signing_public.hex(): "ben"}
    return [
        (names[row["author"]], row["label"], row["group_name"], seconds(row["valid_from"]), seconds(row["valid_until"]))
        for row in rows
    ]


def test_a_label_holds_from_its_landing_until_the_next_and_the_first_one_from_ever() -> None:
    orchard = first()
    second = relabelled(orchard, "meadow")
    third = with_ben(second)
    assert _spans((0, landed_manifest(orchard)), (60, landed_manifest(second)), (90, landed_manifest(third))) == [
        ("ann", "orchard", None, None, 60.0),
        ("ann", "meadow", None, 60.0, None),
        ("ben", "barn", None, None, None),
    ]


def test_a_departed_device_has_no_name_meanwhile() -> None:
    both = with_ben(first())
    alone = without_ben(both)
    back = with_ben(alone)
    moments = (0, landed_manifest(both)), (10, landed_manifest(alone)), (20, landed_manifest(back))
    assert [span for span in _spans(*moments) if span[0] == "ben"] == [
        ("ben", "barn", None, None, 10.0),
        ("ben", "barn", None, 20.0, None),
    ]


def test_an_older_manifest_that_another_collector_lands_later_changes_nothing() -> None:
    orchard = first()
    second = relabelled(orchard, "meadow")
    third = relabelled(second, "forest")
    in_order = _spans((0, landed_manifest(orchard)), (60, landed_manifest(third)))
    late = [(0, orchard), (60, third), (70, second), (80, orchard), (5, orchard)]
    assert _spans(*((seconds, landed_manifest(each)) for seconds, each in late)) == in_order


def test_a_group_is_called_as_its_highest_profile_says() -> None:
    orchard = landed_manifest(first())
    assert _spans((0, orchard), (5, profile("Pumpen")), (60, profile("Brunnen", 2)), (70, profile("Pumpen"))) == [
        ("ann", "orchard", "Pumpen", None, 60.0),
        ("ann", "orchard", "Brunnen", 60.0, None),
    ]


def test_the_table_is_rebuilt_only_where_rows_arrived(tmp_path: Path) -> None:
    def commit(number: int, *said: tuple[float, bytes]) -> None:
        (tmp_path / "readings" / f"batch={number}").mkdir(parents=True)
        if said:
            folder = tmp_path / TABLE / f"batch={number}"
            folder.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(_said(*said), schema=ROWS), folder / "part-0.parquet")
        update(tmp_path, number)

    orchard = first()
    commit(0)
    assert not path_in(tmp_path).exists()
    commit(1, (0, landed_manifest(orchard)))
    commit(2)
    table, last = read_state(path_in(tmp_path), MEMBERS)
    assert (len(table), last) == (1, 1)
    commit(3, (60, landed_manifest(relabelled(orchard, "meadow"))))
    assert read_state(path_in(tmp_path), MEMBERS)[0]["label"].to_pylist() == ["orchard", "meadow"]
    path_in(tmp_path).unlink()
    update(tmp_path)
    assert read_state(path_in(tmp_path), MEMBERS)[0]["label"].to_pylist() == ["orchard", "meadow"]
