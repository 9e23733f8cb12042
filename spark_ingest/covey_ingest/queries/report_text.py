"""A report as lines and tables for people: what the terminal and the HTML file both show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from covey.core.ids import labelled_name, printable
from covey_ingest.queries.report import FleetReport

_SHOWN = 20
"""Rows of a section on a terminal."""


@dataclass(frozen=True, slots=True)
class Table:
    """One section; `empty` is said where it has no rows, `more` below them. Rows of `bad` want looking at."""

    title: str
    head: Sequence[str]
    rows: list[list[str]]
    empty: str
    more: str = ""
    bad: frozenset[int] = field(default_factory=frozenset)


def text(report: FleetReport) -> str:
    """Return the report for a terminal."""
    lines = [*facts(report)]
    for table in tables(report):
        shown = table.rows[:_SHOWN]
        lines += ["", table.title, *(table_lines(table.head, shown) if shown else [f"  {table.empty}"])]
        if len(table.rows) > len(shown):
            lines.append(f"  and {len(table.rows) - len(shown)} more: --html shows them")
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
        yield f"{devices} devices: {devices - silent} seen, {silent} silent, {unsure} with an unsynchronised clock"
    else:
        yield "the next micro-batch counts the devices"
    if fleet["with_open_gaps"]:
        yield f"{fleet['with_open_gaps']} devices with unexplained gaps"
    yield f"{traffic['readings']} readings in {traffic['messages']} messages of {traffic['devices']} devices"


def tables(report: FleetReport) -> Iterator[Table]:
    """Yield the sections."""
    yield _devices(report)
    points = ("p50", "p95", "p99", "max")
    spans = {"landed": "reading to collector", "ingested": "collector to table"}
    yield Table(
        "Latency",
        ["path", *points],
        [[spans[way], *(_seconds(each[p]) for p in points)] for way, each in report.latency_s.items() if each],
        "no reading with a synchronised clock",
    )
    section = _Sections(report)
    yield section.table("time_quality", "Time quality", ["time_quality", "readings", "devices"], "no readings")
    columns = ["state", "reason", "gaps", "batches", "devices", "since_us"]
    yield section.table("gaps", "Gaps", columns, "none: every batch of telemetry arrived")
    yield section.table("losses", "Losses reported by devices", ["reason", "records", "messages", "devices"], "none")
    yield section.table("quarantine", "Quarantine", ["reason", "entries", "devices", "example"], "empty")
    columns = ["author", "kind", "what", "selector", "ordered_us", "reported_us", "done_us", "result"]
    yield section.table("orders", "Orders and their results", columns, "none")
    columns = ["author", "what", "state", "code", "why", "reported_us", "done_us"]
    yield section.table("undone_orders", "Orders that failed or are open", columns, "none")
    yield section.table("series", "Busiest series", ["name", "unit", "readings", "devices"], "none")
    columns = ["author", "last_seen_us", "time_quality", "boots", "open_gaps"]
    yield section.table("silent_devices", "Silent for longest", columns, "none")


def _devices(report: FleetReport) -> Table:
    rows = report.sections["devices"]
    columns = ["author", "last_seen_us", "lag_seconds", "time_quality", "boots", "open_gaps", "readings", "firmware"]
    columns += ["gateway"] if any(row["gateway"] for row in rows) else []
    left = report.fleet["devices"] - len(rows)
    more = f"and {left} more, without problems, or like these" if left > 0 else ""
    bad = frozenset(place for place, row in enumerate(rows) if row["silent"] or row["open_gaps"])
    table = _Sections(report).table("devices", "Devices", columns, "none counted yet")
    return replace(table, more=more, bad=bad)


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


class _Sections:
    """Makes tables of a report's rows; a device is its key's beginning, then its label."""

    def __init__(self, report: FleetReport) -> None:
        self._report = report

    def table(self, section: str, title: str, columns: list[str], empty: str) -> Table:
        """Return the rows of a section: columns by their names, in words."""
        head = [_HEADS.get(column, column.removesuffix("_us").replace("_", " ")) for column in columns]
        rows = self._report.sections[section]
        return Table(title, head, [[self._cell(column, row[column]) for column in columns] for row in rows], empty)

    def _cell(self, column: str, value: Any) -> str:
        if value is None:
            return "-"
        if column.endswith("_us"):
            return moment(value)
        if column == "lag_seconds":
            return _seconds(value)
        if column == "firmware":
            return printable(value.partition(";")[0], 40)
        if column in {"author", "gateway", "selector"}:
            return ", ".join(map(self._named, value.split(",")))[:80]
        return printable(value)[:80] if isinstance(value, str) else str(value)

    def _named(self, chosen: str) -> str:
        if len(chosen) != _KEY_DIGITS:
            return printable(chosen)
        return labelled_name(printable(chosen[:8]), self._report.labels.get(chosen, ""))


_KEY_DIGITS = 64
_HEADS = {"author": "device", "lag_seconds": "lag", "firmware": "version", "selector": "for"}


def _seconds(value: float) -> str:
    if value < 600:
        return f"{value:.3g} s"
    return f"{value / 3600:.3g} h" if value < 172_800 else f"{value / 86_400:.3g} d"
