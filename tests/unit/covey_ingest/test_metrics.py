"""What the ingest tells Prometheus, and when it tells of its lag."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from covey.errors import ConfigurationError
from covey_ingest.__main__ import main
from covey_ingest.metrics import IngestMetrics
from covey_ingest.progress import Lag, Progress, ProgressReporter, Watcher, segments_behind
from tests.waiting import GUARD_S


def _progress(batch_id: int = 0, newest_us: int | None = None) -> Progress:
    return Progress(batch_id, 0.5, 3, 60, 1, 2, 4, unverified=1, bytes=1000, newest_us=newest_us)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _read(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {each.name: each.value for family in families for each in family.samples if "created" not in each.name}


def test_counters_grow_and_gauges_follow_in_file_and_on_the_address(tmp_path: Path) -> None:
    file, port = tmp_path / "covey.prom", _free_port()
    metrics = IngestMetrics(file, ("127.0.0.1", port))
    assert _read(file.read_text())["covey_ingest_readings_total"] == 0
    metrics.note(_progress(newest_us=7_000_000))
    metrics.note(_progress(1, newest_us=9_000_000))
    metrics.note_lag(Lag(12, 3.5))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        served = _read(answer.read().decode())
    assert served == _read(file.read_text())
    expected = {"batches_total": 2, "readings_total": 120, "bytes_total": 2000, "unverified_total": 2, "seconds": 0.5}
    expected |= {"newest_arrival_seconds": 9, "lag_segments": 12, "lag_seconds": 3.5}
    assert {name: served[f"covey_ingest_{name}"] for name in expected} == expected


def test_forty_slow_connections_keep_no_scraper_out() -> None:
    """As at every listener of the agent (tests/unit/adapters/http/test_listener.py)."""
    port = _free_port()
    IngestMetrics(address=("127.0.0.1", port))
    with ExitStack() as slow:
        for _ in range(40):
            slow.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(b"GET /metrics HT")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=GUARD_S) as answer:
            assert "covey_ingest_readings_total" in answer.read().decode()


def test_an_unwritable_metrics_file_is_refused_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="cannot go"):
        IngestMetrics(tmp_path / "nowhere" / "covey.prom")
    words = [str(tmp_path), str(tmp_path / "tables"), "--key-file", str(tmp_path / "no.key")]
    assert main([*words, "--metrics-file", str(tmp_path / "covey.txt")]) == 2
    assert ".prom" in capsys.readouterr().err


def test_the_lag_is_the_age_of_the_newest_arrival_while_segments_wait() -> None:
    lags: list[Lag] = []
    reported: list[Progress] = []

    class Recorder(Watcher):
        def written(self, progress: Progress) -> None:
            reported.append(progress)

        def lags(self, lag: Lag) -> None:
            lags.append(lag)

    reporter = ProgressReporter(Recorder())
    reporter.written(_progress(newest_us=time.time_ns() // 1000 - 60_000_000))
    reporter.lags(0, 5)
    reporter.lags(0, 0)
    reporter.lags(0, None)
    reporter.finish()
    assert [lag.segments for lag in lags] == [5, 0]
    assert 59 <= lags[0].seconds <= 120
    assert lags[1].seconds == 0
    assert len(reported) == 1


def test_segments_between_two_offsets() -> None:
    end, latest = {"aa": [4, 10, "", ""]}, {"aa": [5, 12, "", ""], "bb": [1, 3, "", ""]}
    assert segments_behind(json.dumps(end), json.dumps(latest)) == 5
    assert segments_behind(json.dumps(latest), json.dumps(end)) == 0
    assert segments_behind(json.dumps(end), None) is None
