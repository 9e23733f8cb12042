"""A report as one HTML file, with the look of the fleet's page: it needs no network, no script and no other file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib import resources
from itertools import groupby

from covey.core.ids import printable
from covey_ingest.queries.report import FleetReport
from covey_ingest.queries.report_plots import STYLE, TimeAxis, lines_over_time, over_time, shares, values_over_time
from covey_ingest.queries.report_text import Table, facts, tables

_WORD = 24
"""Characters of the longest word that keeps a column as wide."""
_STYLE = """
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; } .fact { margin: .25rem 0; overflow-wrap: anywhere; }
th, td { overflow-wrap: break-word; } .long { overflow-wrap: anywhere; }
@media (max-width: 44rem) { th, td { overflow-wrap: anywhere; } }
tbody th { color: inherit; } tr.bad th { color: var(--bad); font-weight: 600; }
"""


def html(report: FleetReport) -> str:
    """Return the whole file."""
    where, summary, *more = facts(report)
    look = (resources.files("covey") / "web" / "page.css").read_text(encoding="utf-8")
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="color-scheme" content="light dark"><title>Covey: {escape(summary)}</title>',
        f"<style>{look}{STYLE}{_STYLE}</style></head>",
        "<body><header><h1>Covey: the fleet and its telemetry</h1></header>",
        f'<main><p id="summary">{escape(summary)}</p>',
        *(f'<p class="fact">{escape(line)}</p>' for line in (*more, where)),
        *_plots(report),
        *map(_table, tables(report)),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _table(table: Table) -> str:
    if not table.rows:
        return f"<h2>{escape(table.title)}</h2><p>{escape(table.empty)}</p>"
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "".join(
        f'<tr{_mark(table, place)}><th scope="row">{escape(first)}</th>'
        + "".join(
            f'<td data-head="{escape(name)}"{_breaks(cell)}>{escape(cell)}</td>'
            for name, cell in zip(table.head[1:], rest, strict=True)
        )
        + "</tr>"
        for place, (first, *rest) in enumerate(table.rows)
    )
    more = f"<p>{escape(table.more)}</p>" if table.more else ""
    return f"<h2>{escape(table.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _breaks(cell: str) -> str:
    """Let long words break anywhere; a short word stays whole, and sets its column's width."""
    return ' class="long"' if max(map(len, cell.split()), default=0) > _WORD else ""


def _mark(table: Table, place: int) -> str:
    return ' class="bad"' if place in table.bad else ""


def _plots(report: FleetReport) -> list[str]:
    found = {row["interval"]: row for row in report.sections["intervals"]}
    if not found:
        return []
    first, last = min(found), max(found)
    axis = TimeAxis(report.first_us + first * report.interval_us, report.interval_us, last - first + 1)
    rows = [found.get(interval, {}) for interval in range(first, last + 1)]
    plots = [over_time("Arrived readings", axis, [row.get("readings") or 0 for row in rows])]
    latency = {name: [row.get(f"{name}_s") for row in rows] for name in ("p50", "p99")}
    if any(value is not None for value in latency["p50"]):
        plots.append(lines_over_time("Seconds from reading to collector", axis, latency))
    quality = [(printable(row["time_quality"] or "-"), row["readings"]) for row in report.sections["time_quality"]]
    plots += [shares("Readings by time quality", quality)] if quality else []
    gaps = [(printable(f"{row['state']} {row['reason']}".strip()), row["gaps"]) for row in report.sections["gaps"]]
    plots += [shares("Gaps", gaps)] if gaps else []
    plots += _curves(report)
    return ['<div class="plots">', *plots, "</div>"]


def _curves(report: FleetReport) -> Iterator[str]:
    for (name, unit), rows in groupby(report.sections["curves"], lambda row: (row["name"], row["unit"])):
        found = {row["interval"]: (row["lowest"], row["mean"], row["highest"]) for row in rows}
        first, last = min(found), max(found)
        axis = TimeAxis(report.first_us + first * report.interval_us, report.interval_us, last - first + 1)
        title = f"{printable(name)} {printable(unit)}".strip()
        yield values_over_time(title, axis, [found.get(interval) for interval in range(first, last + 1)])
