"""A report as lines and tables for people: what the terminal and the HTML file both show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from covey.core.ids import printable
from covey_ingest.report import FleetReport, Row


@dataclass(frozen=True, slots=True)
class Table:
    """One section; `empty` is said where it has no rows."""

    title: str
    head: Sequence[str]
    rows: list[list[str]]
    empty: str


def text(report: FleetReport) -> str:
    """Return the report for a terminal."""
    lines = [*facts(report)]
    for table in tables(report):
        lines += ["", table.title, *(table_lines(table.head, table.rows) if table.rows else [f"  {table.empty}"])]
    return "\n".join(lines) + "\n"


def facts(report: FleetReport) -> Iterator[str]:
    """Yield the sentences at the top."""
    fleet, traffic = report.fleet, report.traffic
    of = f" of devices {report.author}…" if report.author else ""
    yield f"{report.tables}{of}, {moment(report.since_us)} to {moment(report.now_us)} UTC"
    devices, silent = fleet["devices"], fleet["silent"]
    if not devices and not traffic["readings"]:
        yield "no readings yet"
        return
    if devices:
        unsure = fleet["clock_unsure"]
        yield f"{devices} devices: {devices - silent} heard, {silent} silent, {unsure} with an unsure clock"
    else:
        yield "the devices are counted when the ingest goes on"
    if fleet["with_open_gaps"]:
        yield f"{fleet['with_open_gaps']} devices with gaps that they do not explain"
    yield f"{traffic['readings']} readings in {traffic['messages']} messages of {traffic['devices']} devices"


def tables(report: FleetReport) -> Iterator[Table]:
    """Yield the sections."""
    found = report.sections
    points = ("p50", "p95", "p99", "max")
    spans = {"landed": "reading to collector", "ingested": "collector to table"}
    yield Table(
        "Latency",
        ["way", *points],
        [[spans[way], *(_seconds(each[p]) for p in points)] for way, each in report.latency_s.items() if each],
        "no reading with a synchronised clock",
    )
    yield _section("Quality of time", found["time_quality"], ["time_quality", "readings", "devices"], "no readings")
    columns = ["state", "reason", "gaps", "batches", "devices", "since_us"]
    yield _section("Gaps", found["gaps"], columns, "none: every batch of telemetry came")
    yield _section("Losses that devices admit", found["losses"], ["reason", "records", "messages", "devices"], "none")
    yield _section("Quarantine", found["quarantine"], ["reason", "entries", "devices", "example"], "empty")
    columns = ["author", "kind", "what", "for_whom", "ordered_us", "heard_us", "done_us", "result"]
    yield _section("Orders, and what became of them", found["orders"], columns, "none")
    columns = ["author", "what", "state", "code", "why", "heard_us", "done_us"]
    yield _section("Not done, or not well", found["undone_orders"], columns, "none")
    yield _section("Busiest series", found["series"], ["name", "unit", "readings", "devices"], "none")
    columns = ["author", "last_seen_us", "time_quality", "boots", "open_gaps"]
    yield _section("Silent for longest", found["silent_devices"], columns, "none")


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield columns, each as wide as its widest cell."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def moment(time_us: int) -> str:
    """Return a time to the minute, in UTC; what no calendar has, as it is."""
    try:
        return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return str(time_us)


def _section(title: str, rows: list[Row], columns: list[str], empty: str) -> Table:
    head = [column.removesuffix("_us").replace("_", " ") for column in columns]
    return Table(title, head, [[_cell(column, row[column]) for column in columns] for row in rows], empty)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column.endswith("_us"):
        return moment(value)
    if column == "author":
        return printable(value[:8])
    return printable(value)[:80] if isinstance(value, str) else str(value)


def _seconds(value: float) -> str:
    if value < 600:
        return f"{value:.3g} s"
    return f"{value / 3600:.3g} h" if value < 172_800 else f"{value / 86_400:.3g} d"
