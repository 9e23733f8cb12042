"""When segments that were passed over are looked at again, and how an offset names those that are whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.core.vault.documents import SegmentEntry
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey
from covey.core.vault.reading import VaultReader
from covey.errors import StorageError
from covey_ingest.committer.state_file import replace_state
from covey_ingest.options import SourceOptions
from covey_ingest.spark.source import VaultStreamReader
from covey_ingest.task.reading import work_rows
from covey_ingest.task.rows import Verify
from covey_ingest.vault import repairs
from covey_ingest.vault.key_file import read_key_file
from covey_ingest.vault.offsets import REREAD, Offset, Span, latest_offset, ranges
from covey_ingest.vault.repairs import Prober
from tests.spark.fleet import Author, Collector


class _Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(repairs, "time", clock)
    return clock


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    collector = Collector(tmp_path / "vault")
    for _ in range(4):
        collector.land(Author(collector, 1).measure(1))
    return collector


def _reader(collector: Collector) -> VaultReader:
    return VaultReader(DirectoryStore(collector.vault), read_key_file(collector.key_file))


def _note(tables: Path, spans: list[Span], batch_id: int) -> Path:
    rows = [dict(zip(repairs.SCHEMA.names, (span.node, span.first, span.last, ""), strict=True)) for span in spans]
    replace_state(repairs.path_in(tables), pa.Table.from_pylist(rows, repairs.SCHEMA), batch_id)
    return repairs.path_in(tables)


def _entry(collector: Collector, number: int) -> SegmentEntry:
    assert collector.manifest is not None
    return collector.manifest.segments[number - 1]


def test_damaged_segments_are_retried_ever_more_rarely(collector: Collector, tmp_path: Path, clock: _Clock) -> None:
    spans = [Span(collector.node.hex(), number, number) for number in (2, 3)]
    (collector.vault / "tables").mkdir()
    path = _note(collector.vault / "tables", spans, 1)
    hidden = collector.segment_path(_entry(collector, 2))
    content = hidden.read_bytes()
    hidden.unlink()
    reader, prober = _reader(collector), Prober(path)
    assert prober.whole(reader) == [spans[1]], "at once"
    hidden.write_bytes(content)
    _note(collector.vault / "tables", spans[:1], 2)
    waits = []
    for _ in range(9):
        started = clock.seconds
        hidden.unlink(missing_ok=True)
        while spans[0] not in prober._waits or prober._waits[spans[0]].due > clock.seconds:
            assert prober.whole(reader) == []
            clock.seconds += 1
        waits.append(clock.seconds - started)
        assert prober.whole(reader) == []
    assert waits[:4] == [10, 20, 40, 80]
    assert waits[-1] == 900
    hidden.write_bytes(content)
    clock.seconds += 900
    assert prober.whole(reader) == spans[:1]
    assert Prober(None).whole(reader) == []
    assert Prober(tmp_path / "no such file").whole(reader) == []


def test_an_offset_names_each_turn_once_and_a_replay_the_same(collector: Collector) -> None:
    reader, span = _reader(collector), Span(collector.node.hex(), 2, 3)
    start = latest_offset(reader, {}, None)
    assert REREAD not in start
    once = latest_offset(reader, start, None, reread=[span])
    assert once == start | {REREAD: [1, [collector.node.hex(), 2, 3]]}
    for planner in (reader, _reader(collector)):
        (work,) = ranges(planner, start, once)
        assert ([entry.number for entry in work.entries], work.first, work.last, work.reread) == ([2, 3], 2, 3, True)
    assert latest_offset(reader, once, None) == once, "an idle vault does not move"
    collector.land(Author(collector, 1).measure(1))
    assert [work.reread for work in ranges(reader, once, latest_offset(reader, once, None))] == [False]
    twice = latest_offset(reader, once, None, reread=[span])
    assert sorted(work.reread for work in ranges(reader, once, twice)) == [False, True]


def test_a_missing_manifest_is_an_error(collector: Collector) -> None:
    start = latest_offset(_reader(collector), {}, None)
    end = latest_offset(_reader(collector), start, None, reread=[Span(collector.node.hex(), 2, 2)])
    collector.manifest_path.unlink()
    with pytest.raises(StorageError):
        list(ranges(_reader(collector), start, end))


def test_a_turn_says_repaired_only_when_all_of_it_was_read(collector: Collector) -> None:
    reader = _reader(collector)
    start: Offset = latest_offset(reader, {}, None)
    (work,) = ranges(reader, start, latest_offset(reader, start, None, reread=[Span(collector.node.hex(), 2, 3)]))

    def kinds() -> list[tuple[str, int | None, int | None]]:
        rows = [row for batch in work_rows(reader, work, Verify.ALL) for row in batch.to_pylist()]
        return [(row["kind"], row["first"], row["last"]) for row in rows]

    assert kinds() == [("telemetry", None, None), ("telemetry", None, None), ("repaired", 2, 3)]
    collector.segment_path(_entry(collector, 3)).write_bytes(b"HXSEG\x01")
    assert kinds() == [("telemetry", None, None), ("quarantine", 3, 3)]


def test_a_segment_that_cannot_be_read_holds_up_nobody_and_a_vault_that_is_away_does(collector: Collector) -> None:
    reader = _reader(collector)
    (work,) = ranges(reader, {}, latest_offset(reader, {}, None))
    path = collector.segment_path(_entry(collector, 2))
    path.unlink()
    path.mkdir()  # reading it is an error of the disk, even for root
    rows = [row for batch in work_rows(reader, work, Verify.ALL) for row in batch.to_pylist()]
    assert [(row["kind"], row["reason"]) for row in rows] == [
        ("telemetry", None),
        ("quarantine", "storage"),
        ("telemetry", None),
        ("telemetry", None),
    ]
    collector.manifest_path.unlink()
    with pytest.raises(StorageError, match="the vault became empty"):
        list(work_rows(reader, work, Verify.ALL))


def test_a_rotated_key_is_taken_up_without_a_restart(collector: Collector) -> None:
    stream = VaultStreamReader(SourceOptions.parse({"path": str(collector.vault), "keyFile": str(collector.key_file)}))
    limit = stream.getDefaultReadLimit()
    before = stream.latestOffset({}, limit)
    old, collector.key = collector.key, VaultKey(collector.key.vault_id, bytes(range(32)))
    collector.land(Author(collector, 2).measure(1))
    troubled = stream.latestOffset(before, limit)
    assert troubled[collector.node.hex()][3].startswith("vault_key")
    collector.key_file.write_text("half of a")
    assert stream.latestOffset(troubled, limit) == troubled
    collector.key_file.write_text(KeyFile((collector.key, old)).to_text())
    collector.key_file.chmod(0o644)
    assert stream.latestOffset(troubled, limit) == troubled
    collector.key_file.chmod(0o600)
    assert stream.latestOffset(troubled, limit)[collector.node.hex()][1] == 5
