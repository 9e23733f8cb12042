"""The report on tables that pyarrow wrote: what it tells, and what it says where there is nothing to tell."""

from __future__ import annotations

import json
import math
import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from covey.config.tables_options import VERIFY, read_labels
from covey.errors import ConfigurationError, StorageError
from covey_ingest.__main__ import main
from covey_ingest.queries.report import FleetReport, make_report
from covey_ingest.queries.report_html import html
from covey_ingest.queries.report_text import text
from covey_ingest.task.rows import Verify
from tests.report_tables import AWAKE, HOUR_US, NOW_US, SILENT, TRAP, moment, reading, write_table, write_tables


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return write_tables(tmp_path / "tables")


def _report(tables: Path, window_us: int | None = 24 * HOUR_US, author: str = "") -> FleetReport:
    return make_report(str(tables), NOW_US, window_us, author)


@pytest.mark.slow
def test_a_report_tells_of_the_window_and_of_all_devices(tables: Path) -> None:
    report = _report(tables)
    assert report.traffic == {"readings": 101, "messages": 2, "devices": 1}
    assert (report.fleet["devices"], report.fleet["silent"], report.fleet["clock_unsure"]) == (2, 1, 1)
    landed = report.latency_s["landed"]
    assert [landed["p50"], landed["max"]] == [pytest.approx(50, abs=2), 100]
    assert report.latency_s["ingested"]["max"] == pytest.approx(
        (tables / "readings" / "batch=0" / "part-0.parquet").stat().st_mtime - (NOW_US - HOUR_US) / 1e6, abs=1
    )
    sections = {name: [tuple(row.values())[:3] for row in rows] for name, rows in report.sections.items()}
    assert sections["time_quality"] == [("synchronised", 100, 1), ("arrival", 1, 1)]
    assert sections["gaps"] == [("lost", "outbox_full", 1), ("open", "", 1)]
    assert sections["losses"] == [("outbox_full", 1, 5)]
    assert sections["quarantine"][0][:2] == ("decryption", 1)
    assert sections["series"] == [("temperature", "Cel", 100), (TRAP, "Cel", 1)]
    assert [row["author"] for row in report.sections["silent_devices"]] == [SILENT]
    assert sum(row["readings"] for row in report.sections["intervals"]) == 101


@pytest.mark.slow
def test_a_report_of_all_time_and_of_one_author(tables: Path) -> None:
    assert _report(tables, None).traffic["readings"] == 102
    only = _report(tables, None, "bb")
    assert (only.traffic["readings"], only.fleet["devices"], only.sections["gaps"]) == (1, 1, [])


@pytest.mark.slow
def test_orders_are_reported_with_their_results(tables: Path) -> None:
    """By arrival of either; a secret is named and not shown; a report of no known order shows its id."""
    printed = {row["what"]: (row["kind"], row["result"]) for row in _report(tables).sections["orders"]}
    assert printed == {
        "reboot": ("command", "1 done, 1 failed"),
        'app.mode "eco"': ("setting", "1 reverted"),
        "ffffffff": ("not here yet", "1 refused"),
    }
    assert "app.key (secret)" in {row["what"] for row in _report(tables, None).sections["orders"]}
    undone = {(row["author"], row["state"], row["code"]) for row in _report(tables).sections["undone_orders"]}
    assert undone == {(AWAKE, "failed", "exit 3"), (AWAKE, "reverted", ""), (SILENT, "refused", "late")}
    of_one = {row["what"]: row["result"] for row in _report(tables, None, "bb").sections["orders"]}
    assert of_one == {"reboot": "1 done", "ffffffff": "1 refused"}
    by_one = {row["what"]: row["result"] for row in _report(tables, None, "00").sections["orders"]}
    assert by_one == {"reboot": None, 'app.mode "eco"': None, "app.key (secret)": None}


@pytest.mark.slow
def test_device_texts_stay_text_in_the_report(tables: Path) -> None:
    page, shown = html(_report(tables)), text(_report(tables))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 4
    assert "\x1b" not in page + shown
    links = set(re.findall(r"""(?:href|src)=["']?(https?:[^"'> ]+)|url\((https?:[^)]+)\)""", page))
    assert not links, "the file needs no network"


@pytest.mark.slow
def test_the_command_prints_text_json_and_html(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tables), "--since", "all"]) == 0
    assert "2 devices" in capsys.readouterr().out
    page = tables / "report.html"
    assert main(["report", str(tables), "--since", "all", "--json", "--html", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["traffic"]["readings"] == 102
    assert page.read_text().endswith("</html>\n")
    assert main(["report", str(tables), "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"the report is in {page}\n"
    for words in (["--since", "yesterday"], ["--author", "x' OR 1"]):
        with pytest.raises(SystemExit):
            main(["report", str(tables), *words])


@pytest.mark.slow
def test_missing_tables_are_reported(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for location, match in ((tmp_path / "nowhere", "there are no tables"), (tmp_path, "there are no tables")):
        with pytest.raises(ConfigurationError, match=match):
            _report(location)
    assert main(["report", str(tmp_path)]) == 78
    assert "hint:" in capsys.readouterr().err
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / "covey.json").write_text("{}")
    assert "no readings yet" in text(_report(fresh))
    assert "no readings yet" in html(_report(fresh, None))
    (tables / "devices" / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="cannot be read"):
        _report(tables)


@pytest.mark.slow
def test_readings_are_reported_before_the_devices_are_counted(tables: Path) -> None:
    """The table of devices follows that of readings; whoever looks between them is not told that nothing came."""
    shutil.rmtree(tables / "devices")
    shown = text(_report(tables))
    assert "no readings yet" not in shown
    assert "101 readings in 2 messages of 1 devices" in shown
    assert "the next micro-batch counts the devices" in shown


@pytest.mark.slow
def test_a_plot_without_data_is_left_out(tables: Path) -> None:
    shutil.rmtree(tables / "readings")
    unsure = [reading(AWAKE, 0, HOUR_US, 1, time_quality="arrival")]
    write_table(tables / "readings" / "batch=0", unsure)
    page = html(_report(tables))
    assert "Seconds from reading to collector" not in page
    assert ">nothing<" not in page
    assert page.count("<svg") == 3


@pytest.mark.slow
def test_curves_show_what_sensors_measured(tables: Path) -> None:
    rows = [
        reading(author, place, HOUR_US - place * 1_000_000, 1) | {"value": value}
        for place, (author, value) in enumerate([(AWAKE, -2.5), (SILENT, 4.0), (AWAKE, math.inf), (AWAKE, math.nan)])
    ]
    write_table(tables / "readings" / "batch=9", rows)
    report = _report(tables)
    drawn = [
        (row["name"], row["unit"], row["lowest"], row["mean"], row["highest"]) for row in report.sections["curves"]
    ]
    assert sorted(drawn) == [("temperature", "Cel", -2.5, -2.5, -2.5), ("temperature", "Cel", 4.0, 4.0, 4.0)]
    page = html(report)
    assert "<figcaption>temperature Cel</figcaption>" in page
    assert "temperature Cel: -2.5 to 4, " in page
    assert page.count('class="band"') == 2, "apart in time"


def test_the_options_are_those_that_there_are() -> None:
    assert list(VERIFY) == [each.value for each in Verify]


@pytest.mark.slow
def test_devices_are_listed_with_what_they_are_called(tables: Path, tmp_path: Path) -> None:
    labels = tmp_path / "fleet.json"
    labels.write_text(json.dumps({"devices": [{"key": AWAKE, "label": "pump"}, {"key": SILENT, "label": TRAP}]}))
    report = make_report(str(tables), NOW_US, 24 * HOUR_US, labels=read_labels(labels))
    assert [row["author"] for row in report.sections["devices"]] == [SILENT, AWAKE]
    lines = text(report).splitlines()
    assert any(line.startswith("  aaaaaaaa pump ") for line in lines)
    assert any("reboot " in line and " aaaaaaaa pump, bbbbbbbb " in line for line in lines), "whom an order is for"
    assert "<script" not in html(report)
    assert html(report).count('<tr class="bad"><th scope="row">bbbbbbbb') == 1
    for wrong in ("[]", "{", '{"devices": [1]}'):
        labels.write_text(wrong)
        with pytest.raises(ConfigurationError, match="does not list the devices' labels"):
            read_labels(labels)


@pytest.mark.slow
def test_devices_are_called_as_the_newest_manifest_that_landed_does(tables: Path) -> None:
    def called(author: str, label: str, since: datetime | None) -> dict[str, Any]:
        return {"author": author, "label": label, "valid_from": since}

    spans = [called(AWAKE, "well", moment(NOW_US)), called(AWAKE, "pump", None), called(SILENT, "barn", None)]
    write_table(tables / "members", spans)
    assert _report(tables).labels == {AWAKE: "well", SILENT: "barn"}
    assert make_report(str(tables), NOW_US, None, labels={SILENT: "shed"}).labels == {AWAKE: "well", SILENT: "shed"}


@pytest.mark.slow
def test_plots_span_what_arrived_and_not_the_window(tables: Path) -> None:
    report = _report(tables, 30 * 24 * HOUR_US)
    assert (report.first_us, report.since_us) == (NOW_US - 48 * HOUR_US, NOW_US - 30 * 24 * HOUR_US)
    assert [row["interval"] for row in report.sections["intervals"]] == [0, 47]
    only = _report(tables, 24 * HOUR_US)
    assert [(row["interval"], row["readings"]) for row in only.sections["intervals"]] == [(0, 101)]
