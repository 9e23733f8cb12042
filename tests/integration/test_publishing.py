"""Delta tables in an object store that follow the working tables: what readers there see, whatever fails when."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from obstore.store import from_url

from covey.errors import ConfigurationError, CoveyError, StorageError
from covey_ingest import delta_log, merging
from covey_ingest.__main__ import main
from covey_ingest.delta_log import DeltaLog
from covey_ingest.progress import Published
from covey_ingest.publisher import PublishTarget, TablePublisher, open_log
from covey_ingest.report import make_report
from covey_ingest.schema import TIMESTAMP
from covey_ingest.state_file import replace_state
from tests.integration.s3_server import CREDENTIALS, S3Server, s3_server, s3_vault
from tests.waiting import wait_until

__all__ = ["s3_server", "s3_vault"]

VAULT = "5a" * 16


class Line:
    """A line to a port of this machine, that can be cut and mended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._is_cut = self._is_ended = False
        self._ends: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._listen)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ended = True
        self.cut()
        socket.create_connection(("127.0.0.1", self.port)).close()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def cut(self) -> None:
        """End what is open; what is opened later ends at once."""
        self._is_cut = True
        for end in self._ends.copy():
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Carry again."""
        self._is_cut = False

    def _listen(self) -> None:
        while not self._is_ended:
            client, _ = self._listener.accept()
            if self._is_cut:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._port))
            self._ends |= {client, server}
            self._threads.append(threading.Thread(target=self._carry, args=(client, server)))
            self._threads[-1].start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            answers = threading.Thread(target=_copy, args=(server, client))
            answers.start()
            _copy(client, server)
            answers.join()
        self._ends -= {client, server}


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Ingest:
    """Working tables without Spark, and what their publisher told."""

    def __init__(self, root: Path, url: str, name: str = "ingest") -> None:
        self.root = root
        self.url = url
        self.stop = threading.Event()
        self.reported: list[Published] = []
        self._name = name
        root.mkdir(exist_ok=True)

    def commit(self, number: int, *tables: str) -> None:
        """Commit a micro-batch of two rows to each of the tables, by renames."""
        for table in tables or ("readings",):
            staged = self.root / ".staging"
            staged.mkdir()
            received = pa.array([(number + 1) * 1_000_000] * 2, TIMESTAMP)
            rows = {"author": ["a", "b"], "index": [0, 0], "seq": [number] * 2, "time": received}
            pq.write_table(pa.table(rows | {"received_at": received}), staged / "part-0.parquet")
            (self.root / table).mkdir(exist_ok=True)
            staged.rename(self.root / table / f"batch={number}")

    def start(self) -> TablePublisher:
        """Begin to publish."""
        log = open_log(self.root, self._name, VAULT, PublishTarget(self.url, self.reported.append, self.stop))
        assert isinstance(log, TablePublisher)
        return log

    def publish(self) -> None:
        """Publish all that there is."""
        self.start().close(whole=True)

    def numbers(self, table: str = "readings") -> list[int]:
        """Return the micro-batches that a reader sees, one for each row."""
        found = DeltaTable(f"{self.url}/{table}").to_pyarrow_table()
        return sorted(found["seq"].to_pylist())

    def objects(self) -> list[str]:
        """Return the keys below the place, without those of logs."""
        found = [each["path"] for page in obstore.list(from_url(self.url)) for each in page]
        return sorted(key for key in found if "_delta_log" not in key)


@pytest.fixture
def ingest(tmp_path: Path, s3_vault: str) -> Ingest:
    """Working tables, and an empty place for their publication."""
    return Ingest(tmp_path / "tables", s3_vault)


def test_a_micro_batch_is_published_once_whatever_was_killed(ingest: Ingest) -> None:
    ingest.commit(0)
    ingest.commit(1, "losses", "readings")
    ingest.commit(2, "quarantine")  # killed before its readings: it may be written anew
    ingest.publish()
    assert ingest.objects() == ["covey.json", *(f"{part}/part-0.parquet" for part in _BEFORE)]
    assert (ingest.numbers(), ingest.numbers("losses")) == ([0, 0, 1, 1], [1, 1])
    ingest.commit(2)
    ingest.publish()
    assert (ingest.numbers(), ingest.numbers("quarantine")) == ([0, 0, 1, 1, 2, 2], [2, 2])

    # Killed between the upload and the log's commit: the object is there, and the log does not name it.
    before = ingest.objects()
    log = f"readings/_delta_log/{DeltaTable(ingest.url + '/readings').version():020}.json"
    obstore.delete(from_url(ingest.url), log)
    assert ingest.numbers() == [0, 0, 1, 1]
    for _ in range(2):
        ingest.publish()
        assert ingest.numbers() == [0, 0, 1, 1, 2, 2]
        assert ingest.objects() == before
    assert ingest.reported[-1] == Published(0, 0.0)


_BEFORE = ("losses/batch=1", "readings/batch=0", "readings/batch=1")


def test_files_are_merged_there_and_stay_as_they_are_here(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    publisher = ingest.start()
    for number in range(9):
        ingest.commit(number)
        replace_state(ingest.root / "devices" / "devices.parquet", pa.table({"messages": [number]}), number)
        publisher.publish()
    publisher.close(whole=True)
    assert len(DeltaTable(ingest.url + "/readings").file_uris()) == 2
    assert ingest.numbers() == sorted([*range(9)] * 2)
    assert len([*ingest.root.glob("readings/batch=*/*.parquet")]) == 9
    assert not [*ingest.root.glob("*/_delta_log")]
    assert DeltaTable(ingest.url + "/devices").to_pyarrow_table().to_pylist() == [{"messages": 8}]


def test_what_is_published_is_merged_here_and_never_published_again(ingest: Ingest) -> None:
    publisher = ingest.start()
    for number in range(40):
        if number == 21:
            publisher.close(whole=True)
            assert publisher.mergeable_upto == 20
        ingest.commit(number, *(("losses",) if number % 7 == 1 else ()), "readings")
    staging = ingest.root / ".staging"
    assert merging.merge(ingest.root, staging, publisher.mergeable_upto) == 20
    assert sorted(path.name for path in (ingest.root / "losses").iterdir()) == ["batch=20", *_LATER]
    shutil.rmtree(staging)
    publisher = ingest.start()
    publisher.close(whole=True)
    assert ingest.numbers() == sorted([*range(40)] * 2)
    assert ingest.numbers("losses") == sorted([1, 8, 15, 22, 29, 36] * 2)
    merging.merge(ingest.root, staging, publisher.mergeable_upto)
    shutil.rmtree(staging)
    ingest.publish()
    assert len(ingest.numbers()) == 80

    # To another place goes all that there is, as it is now; and the former place is not to be taken for it.
    ingest.commit(40)
    merging.merge(ingest.root, staging, 40)
    shutil.rmtree(staging, ignore_errors=True)
    ingest.url += "-moved"
    ingest.publish()
    assert ingest.numbers() == sorted([*range(41)] * 2)


_LATER = ("batch=22", "batch=29", "batch=36")


def test_merging_and_publishing_go_on_at_once(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "FOLDERS_PER_MERGE", 2)
    publisher, merged, staging = ingest.start(), 0, ingest.root / ".staging"
    for number in range(60):
        ingest.commit(number)
        publisher.publish()
        if number % 4 == 3:
            wait_until(lambda number=number: publisher.mergeable_upto > number - 4, "some are published")
            merged += merging.merge(ingest.root, staging, publisher.mergeable_upto)
            shutil.rmtree(staging, ignore_errors=True)
    publisher.close(whole=True)
    assert merged > 20
    assert ingest.numbers() == sorted([*range(60)] * 2)


def test_a_store_that_is_away_is_caught_up_with(
    ingest: Ingest, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Line(urlsplit(s3_server.endpoint).port or 0) as line:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
        ingest.commit(0)
        publisher = ingest.start()
        wait_until(lambda: bool(ingest.reported) and ingest.reported[-1] == Published(0, 0.0), "the first is published")
        line.cut()
        for number in range(1, 4):
            ingest.commit(number)
            publisher.publish()
        wait_until(lambda: ingest.reported[-1].batches == 3 and ingest.reported[-1].error != "", "the outage is told")
        line.mend()
        wait_until(lambda: ingest.reported[-1] == Published(0, 0.0), "all is published")
        assert ingest.numbers() == [0, 0, 1, 1, 2, 2, 3, 3]
        assert _order(ingest.url) == [0, 1, 2, 3]

        # In the end somebody waits for the store; who asks to stop does not, and finds the rest published later.
        line.cut()
        ingest.commit(4)
        with pytest.raises(StorageError, match="not all is published") as refused:
            publisher.close(whole=True)
        ingest.stop.set()
        ingest.publish()
        assert ingest.reported[-1].batches == 1
        assert all(CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in text for text in (str(refused.value), *_errors(ingest)))
        with pytest.raises(StorageError):
            Ingest(ingest.root.with_name("never-published"), ingest.url).start()
        line.mend()
        ingest.publish()
        assert ingest.numbers()[-2:] == [4, 4]


def _order(url: str) -> list[int]:
    """Return the micro-batches in the order of the log's commits."""
    versions = range(DeltaTable(f"{url}/readings").version() + 1)
    entries = [obstore.get(from_url(url), f"readings/_delta_log/{version:020}.json") for version in versions]
    actions = [json.loads(line) for entry in entries for line in bytes(entry.bytes()).splitlines()]
    return [action["txn"]["version"] for action in actions if "txn" in action]


def _errors(ingest: Ingest) -> Iterator[str]:
    return (reported.error for reported in ingest.reported)


def test_a_place_belongs_to_one_ingest(ingest: Ingest, tmp_path: Path) -> None:
    ingest.commit(0)
    ingest.commit(1)
    ingest.publish()
    with pytest.raises(ConfigurationError, match="another ingest"):
        Ingest(tmp_path / "others", ingest.url, "other").start()
    with pytest.raises(ConfigurationError, match="not empty"):
        Ingest(tmp_path / "others", ingest.url.rpartition("/")[0], "other").start()

    # Somebody else has taken the place over, and an older copy of these tables: the ingest is told, and ends.
    def refused(reason: str, change: Callable[[], object]) -> None:
        change()
        publisher = ingest.start()
        with pytest.raises(ConfigurationError, match=reason):
            publisher.close(whole=True)
        with pytest.raises(CoveyError, match=reason):
            publisher.publish()

    refused("ahead of the tables", lambda: shutil.rmtree(ingest.root / "readings" / "batch=1"))
    refused("ahead of the tables", lambda: ingest.commit(2))
    refused("another ingest", lambda: obstore.put(from_url(ingest.url), "covey.json", b"{}"))


def test_tables_are_published_or_have_logs_themselves(ingest: Ingest, tmp_path: Path) -> None:
    ingest.commit(0)
    ingest.publish()
    with pytest.raises(ConfigurationError, match="are published at s3://"):
        open_log(ingest.root, "ingest", VAULT, None)
    merged = Ingest(tmp_path / "merged", ingest.url)
    merged.commit(0)
    DeltaLog(merged.root, "ingest").publish()
    with pytest.raises(ConfigurationError, match="are Delta tables themselves"):
        merged.start()


def test_the_report_reads_what_is_published(ingest: Ingest, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no tables"):
        make_report(ingest.url, 10**15, None)
    for number in range(3):
        ingest.commit(number, "losses", "readings")
    ingest.publish()
    here, there = (make_report(place, 10**15, None) for place in (str(ingest.root), ingest.url))
    assert there.tables == ingest.url
    assert there.traffic == here.traffic == {"readings": 6, "messages": 6, "devices": 2}
    assert there.latency_s["ingested"]["p50"] >= here.latency_s["ingested"]["p50"]


def test_options_that_publish_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vault", "tables", "--key-file", "key"]
    assert main([*words, "--publish", "s3://bucket/tables"]) == 2
    assert "add --sink delta" in capsys.readouterr().err
    for url in ("bucket", "file:///tables", "s3://", "s3://key:geheim@bucket/tables", "s3://bucket/?sig=geheim"):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--sink", "delta", "--publish", url])
        assert ended.value.code == 2
        assert "geheim" not in capsys.readouterr().err
