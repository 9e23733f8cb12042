"""The way of a reading as far as a small machine goes: the vault, and a table for DuckDB. No Spark, no Java.

All by public commands: what has landed is what `covey vault readings` prints on the collector.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covey.errors import TransientError
from demo.chaos import Chaos, plan
from demo.fleet import Fleet
from demo.sampling import Watch
from demo.screen import Screen

if TYPE_CHECKING:
    import argparse

    from duckdb import DuckDBPyConnection

_TALLY = """
    SELECT author, count(*), count(DISTINCT (incarnation, seq, index)),
           quantile_cont(late, 0.5), quantile_cont(late, 0.99)
    FROM (SELECT *, epoch(received_at) - epoch("time") AS late FROM readings) GROUP BY author
"""
_NEWEST = """
    SELECT label, name, count(*) AS readings, max_by(value, "time") AS newest, any_value(unit) AS unit
    FROM readings WHERE label = 'agent-1' AND value IS NOT NULL GROUP BY label, name ORDER BY name
"""


def run(options: argparse.Namespace, folder: Path) -> int:
    """Run it in an empty folder; return the exit code, 1 where a reading is missing or doubled.

    Raises:
        CoveyError: a part did not do what it is for.
    """
    screen = Screen(options.chaos)
    screen.say(f"starting a broker, a collector and {options.agents} agents, pairing them …")
    fleet = Fleet(folder, options.agents)
    watch = Watch(fleet, screen)
    try:
        fleet.set_up(batch_seconds=min(10.0, options.seconds / 5), interval_seconds=1.0)
        screen.say("sampling this machine's sensors …")
        for device in fleet.agents:
            device.start("run")
        watch.sample(Chaos(plan(fleet, options.seconds, options.seed) if options.chaos else []), options.seconds)
        screen.say("sampling is over; delivering what is on the way …")
        fleet.drain()
        watch.deliver()
        screen.say("everything has landed; the collector's own view of the fleet (covey fleet):")
        print(fleet.collector.ok("fleet"))
        readings = folder / "readings.ndjson"
        readings.write_text(fleet.collector.ok("vault", "readings", "--json"), encoding="utf-8")
    finally:
        screen.close()
        fleet.close()
    return _conclude(fleet, readings, screen)


def _conclude(fleet: Fleet, readings: Path, screen: Screen) -> int:
    table = _open(readings)
    audits = {author: found for author, *found in table.sql(_TALLY).fetchall()}
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
    print(f"\n{readings} is a table for DuckDB, pandas, jq; of agent-1 it says:")
    print(table.sql(_NEWEST))
    query = f"SELECT label, name, count(*), max(value) FROM '{readings}' GROUP BY ALL"  # noqa: S608 - for a person
    print(f'  .venv/bin/python -c "import duckdb; print(duckdb.sql(\\"{query}\\"))"')
    print(f"It was printed by: .venv/bin/covey vault readings --state {fleet.collector.state} --json")
    if wrong or not sum(row[1] for row in rows):
        print(f"error: {wrong} readings missing or doubled\nhint: the logs are in {fleet.folder}", file=sys.stderr)
        return 1
    print("\nEvery reading has landed exactly once. The same into Spark's tables, and orders besides: ./dev demo")
    return 0


def _open(readings: Path) -> DuckDBPyConnection:
    """Open the readings as a table of this name.

    Raises:
        TransientError: there are none.
    """
    import duckdb

    if not readings.stat().st_size:
        raise TransientError("no reading has landed", hint=f"the logs are in {readings.parent}")
    connection = duckdb.connect()
    columns = (
        "author: 'VARCHAR', label: 'VARCHAR', name: 'VARCHAR', unit: 'VARCHAR', time: 'TIMESTAMPTZ', value: 'DOUBLE', "
    )
    columns += "incarnation: 'VARCHAR', seq: 'BIGINT', index: 'BIGINT', received_at: 'TIMESTAMPTZ'"
    connection.execute(
        f"CREATE TABLE readings AS FROM read_json($file, format = 'newline_delimited', columns = {{{columns}}})",
        {"file": str(readings)},
    )
    return connection
