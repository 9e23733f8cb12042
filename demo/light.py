"""The light demo: the local engine writes the tables. No Spark, no Java.

All by public commands: `covey tables run` fills the tables while devices measure, and `covey tables query` asks them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from demo.chaos import Chaos, plan
from demo.fleet import Fleet
from demo.ingest import Ingest
from demo.sampling import Watch
from demo.screen import Screen

if TYPE_CHECKING:
    import argparse

_TALLY = """
    SELECT author, count(*), count(DISTINCT (incarnation, seq, index)),
           quantile_cont(late, 0.5), quantile_cont(late, 0.99)
    FROM (SELECT *, epoch(received_at) - epoch(time) AS late FROM readings) GROUP BY author
"""
_NEWEST = """
    SELECT coalesce(label, device) AS device, name, count(*) AS readings,
           round(max_by(value, time), 2) AS newest, any_value(unit) AS unit
    FROM readings WHERE value IS NOT NULL GROUP BY ALL ORDER BY device, name LIMIT 12
"""


def run(options: argparse.Namespace, folder: Path) -> int:
    """Run it in an empty folder; return the exit code, 1 if a reading is missing or duplicated.

    Raises:
        CoveyError: a part did not do what it is for.
    """
    screen = Screen(options.chaos)
    screen.say(f"starting a broker, a collector and {options.agents} agents, pairing them …")
    fleet = Fleet(folder, options.agents)
    ingest = Ingest(folder, fleet.vault, fleet.collector.state / "vault.key", "local")
    watch = Watch(fleet, screen, lambda: ingest.rows)
    try:
        fleet.set_up(batch_seconds=min(10.0, options.seconds / 5), interval_seconds=1.0)
        ingest.start()
        screen.say("sampling this machine's sensors …")
        for device in fleet.agents:
            device.start("run")
        watch.sample(Chaos(plan(fleet, options.seconds, options.seed) if options.chaos else []), options.seconds)
        screen.say("sampling has ended; delivering the remaining messages …")
        fleet.drain()
        watch.deliver()
        screen.say("everything has landed; the collector's own view of the fleet (covey fleet):")
        print(fleet.collector.ok("fleet"))
        ingest.stop()
        ingest.finish()
    finally:
        ingest.kill()
        screen.close()
        fleet.close()
    return _conclude(fleet, ingest.tables, screen)


def _conclude(fleet: Fleet, tables: Path, screen: Screen) -> int:
    from covey_ingest.committer.table_locations import location_at
    from covey_ingest.queries.querying import query
    from covey_ingest.queries.views import create, opened, refresh

    location = location_at(str(tables))
    with opened(location) as database:
        refresh(database, location)
        create(database, wide=False)
        audits = {author: found for author, *found in database.execute(_TALLY).fetchall()}
    rows = []
    wrong = 0
    for device in fleet.agents:
        published = device.ledger().published
        in_table, distinct, p50, p99 = audits.get(device.author, (0, 0, 0.0, 0.0))
        missing, doubled = published - distinct, in_table - distinct
        wrong += abs(missing) + doubled
        wire = device.wire_bytes() / published if published else 0.0
        rows.append((device.name, published, in_table, missing, doubled, wire, p50, p99))
    screen.table(rows)
    print(f'\n.venv/bin/covey tables query {tables} "{" ".join(_NEWEST.split())}"\n')
    query(str(tables), _NEWEST, "table")
    print(f"\nTry next: .venv/bin/covey tables shell {tables}; DuckDB, Polars, pandas: docs/how-to/readers.md")
    if wrong or not sum(row[1] for row in rows):
        print(f"error: {wrong} readings missing or duplicated\nhint: the logs are in {fleet.folder}", file=sys.stderr)
        return 1
    print("\nEvery reading is in the table exactly once. With Spark and orders: ./dev demo")
    return 0
