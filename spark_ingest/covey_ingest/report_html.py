"""A report as one HTML file: it needs no network, no script and no other file. Plots are inline SVG, by pygal."""

from __future__ import annotations

from html import escape
from typing import Any

import pygal
from pygal.style import CleanStyle

from covey.core.ids import printable
from covey_ingest.report import PLOTTED, FleetReport
from covey_ingest.report_text import Table, facts, moment, tables

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .5em 0 1.5em } th, td { text-align: left; padding: .15em 1.2em .15em 0 }
th { border-bottom: 1px solid #999 } .plots { display: flex; flex-wrap: wrap } .plots > div { flex: 1 1 26em }
svg { width: 100%; height: auto }
"""


def html(report: FleetReport) -> str:
    """Return the whole file."""
    title = "Covey: the fleet and its telemetry"
    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
        *(f"<p>{escape(line)}</p>" for line in facts(report)),
        '<div class="plots">',
        *(f"<div>{plot}</div>" for plot in _plots(report)),
        "</div>",
        *map(_table, tables(report)),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    shown = f"<table><tr>{head}</tr>{rows}</table>" if rows else f"<p>{escape(table.empty)}</p>"
    return f"<h2>{escape(table.title)}</h2>{shown}"


def _plots(report: FleetReport) -> list[str]:
    found = {row["interval"]: row for row in report.sections["intervals"]}
    if not found:
        return []
    intervals = range(max(PLOTTED, *found) + 1) if max(found) >= PLOTTED else range(PLOTTED)
    labels = [moment(report.since_us + interval * report.interval_us) for interval in intervals]

    def column(name: str) -> list[float | None]:
        return [found.get(interval, {}).get(name) for interval in intervals]

    rate = _shown(pygal.Bar, "Readings that arrived", labels)
    rate.add("readings", column("readings"))
    plots = [rate]
    if any(value is not None for value in column("p50_s")):
        latency = _shown(pygal.Line, "Seconds from reading to collector", labels)
        latency.add("p50", column("p50_s"))
        latency.add("p99", column("p99_s"))
        plots.append(latency)
    quality = _shown(pygal.HorizontalBar, "Readings by quality of time", [])
    for row in report.sections["time_quality"]:
        quality.add(printable(row["time_quality"]), row["readings"])
    gaps = _shown(pygal.HorizontalBar, "Gaps", [])
    for row in report.sections["gaps"]:
        gaps.add(f"{row['state']} {row['reason']}".strip(), row["gaps"])
    plots += [quality] + ([gaps] if report.sections["gaps"] else [])
    return [plot.render(is_unicode=True) for plot in plots]


def _shown(kind: type[pygal.graph.graph.Graph], title: str, labels: list[str]) -> pygal.graph.graph.Graph:
    plot = kind(
        title=title,
        style=CleanStyle,
        js=[],
        disable_xml_declaration=True,
        no_data_text="nothing",
        height=320,
        width=640,
        x_label_rotation=30,
        show_minor_x_labels=False,
        truncate_label=-1,
        truncate_legend=-1,
        legend_at_bottom=True,
        dots_size=2,
    )
    plot.add_xml_filter(_without_scripts)
    if labels:
        plot.x_labels, plot.x_labels_major_every = labels, PLOTTED // 6
    return plot


def _without_scripts(root: Any) -> Any:
    for parent in [*root.iter()]:
        for script in [each for each in parent if str(each.tag).endswith("script")]:
            parent.remove(script)
    return root
