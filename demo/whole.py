"""The full demo: from a sensor to Spark's tables, and the proof that each reading is there once."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from covey.errors import TransientError
from demo.board import Board
from demo.chaos import Chaos, plan
from demo.fleet import Fleet
from demo.ingest import Ingest
from demo.orders import OrdersByStick, carry_orders
from demo.release import let_install, release_and_go_back
from demo.sampling import Watch
from demo.screen import Screen

if TYPE_CHECKING:
    import argparse

    from tests.outside.audit import Audit

_SPARK_SECONDS = 120
_SHOWN_FINDINGS = 20
_LATENCIES = """
    SELECT author, quantile_cont(late, 0.5), quantile_cont(late, 0.99)
    FROM (SELECT author, epoch(received_at) - epoch("time") AS late FROM read_parquet(?)) GROUP BY author
"""
_CATCH_UP_SECONDS = 40


def run(options: argparse.Namespace, folder: Path) -> int:
    """Run it in an empty folder; return the exit code.

    Raises:
        CoveyError: a part did not do what it is for.
    """
    screen = Screen(options.chaos)
    screen.say(f"starting a broker, a collector and {options.agents} agents, pairing them …")
    fleet = Fleet(folder, options.agents)
    ingest = Ingest(folder, fleet.vault, fleet.collector.state / "vault.key", "spark")
    watch = Watch(fleet, screen, lambda: ingest.rows)
    board = None
    batch_seconds = min(10.0, options.seconds / 5)
    try:
        fleet.set_up(batch_seconds=batch_seconds, interval_seconds=1.0)
        for device in fleet.agents:
            let_install(device)
        if options.board:
            board = Board(folder / "board", fleet.agents[0], options.seconds - 1, batch_seconds)
            fleet.others.append(board)
        screen.say("starting Spark …")
        ingest.start()
        _await_spark(ingest, fleet, watch)
        screen.say("sampling this machine's sensors …")
        for device in fleet.agents:
            device.start("run")
        if board is not None:
            board.enrol()
            screen.say(f"a board has joined behind {fleet.agents[0].name}, on a serial line at 115,200 baud")
        watch.sample(
            Chaos(plan(fleet, options.seconds, options.seed, ingest, board) if options.chaos else []), options.seconds
        )
        orders = carry_orders(fleet, screen.say)
        release_and_go_back(fleet, screen.say)
        screen.say("sampling has ended; delivering the remaining messages …")
        fleet.drain()
        watch.deliver()
        screen.say("everything is in the vault; waiting for Spark to write the rest …")
        if not _taken_in(ingest, orders, watch):
            ingest.stop()
            ingest.finish()
        screen.say("checking vault and tables with an independent implementation of the protocol …")
        found = _audited_from_outside(fleet, ingest)
    finally:
        screen.close()
        if board is not None:
            board.close()
        fleet.close()
        ingest.kill()
    return _conclude(fleet, found, ingest.tables, orders, screen)


def _await_spark(ingest: Ingest, fleet: Fleet, watch: Watch) -> None:
    deadline = time.monotonic() + _SPARK_SECONDS
    while not ingest.streams:
        if time.monotonic() > deadline or not ingest.alive:
            raise TransientError("Spark did not start", hint=f"see {fleet.folder}/tables.log")
        watch.show("waiting for Spark")


def _taken_in(ingest: Ingest, orders: OrdersByStick, watch: Watch) -> bool:
    """Wait for the stream to reach the end of the vault."""
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    while time.monotonic() < deadline and ingest.alive:
        progress = watch.show("catching up")
        if (progress.in_table or 0) >= progress.published and orders.are_obeyed(ingest.tables):
            return True
    return False


def _audited_from_outside(fleet: Fleet, ingest: Ingest) -> Audit:
    """Compare vault and tables by code that shares nothing with what wrote them: `tests/outside`."""
    from tests.outside.audit import audit, read_members
    from tests.outside.holdings import Holdings
    from tests.outside.vault import Vault

    keys = fleet.folder / "audit.key"
    fleet.collector.ok("vault", "export-key", str(keys))
    history = fleet.folder / "history"
    fleet.collector.ok("history", "export", str(history))
    holdings = Holdings(read_members(history, fleet.collector.state))
    holdings.take(Vault(fleet.vault, keys))
    return audit(holdings, [ingest.tables])


def _latencies(tables: Path) -> dict[str, tuple[float, float]]:
    """Return each device's median and 99th percentile from reading to collector, in seconds."""
    import duckdb
    from deltalake import DeltaTable

    files = DeltaTable(f"{tables}/readings").file_uris()
    return {author: (p50, p99) for author, p50, p99 in duckdb.execute(_LATENCIES, [files]).fetchall()}


def _conclude(fleet: Fleet, found: Audit, tables: Path, orders: OrdersByStick, screen: Screen) -> int:
    latencies = _latencies(tables)
    rows = []
    wrong = len(found.findings)
    (in_tables,) = found.rows.values()
    for member in fleet.members:
        published, landed, in_table = member.ledger().published, found.readings[member.author], in_tables[member.author]
        missing, doubled = published - landed, in_table - landed
        wrong += abs(missing) + abs(doubled)
        wire = member.wire_bytes() / published if published else 0.0
        rows.append(
            (member.name, published, in_table, missing, doubled, wire, *latencies.get(member.author, (0.0, 0.0)))
        )
    screen.table(rows)
    for finding in found.findings[:_SHOWN_FINDINGS]:
        screen.say(f"  {finding}")
    screen.say("orders carried on a USB stick while the broker was down, and their results in the tables:")
    for line in orders.obeyed(tables):
        screen.say(f"  {line}")
    print(f"\nThe tables are in {tables}. Query them, with or without Covey (docs/how-to/readers.md):")
    asked = "SELECT * FROM latest"
    print(f'  .venv/bin/covey tables query {tables} "{asked}"')
    print("A report on the fleet; it takes the device names from the collector's state:")
    print(f"  COVEY_STATE={fleet.collector.state} .venv/bin/covey tables report {tables} --html report.html")
    if wrong or not sum(row[1] for row in rows):
        print(
            f"error: {wrong} readings missing, duplicated or changed\nhint: the logs are in {fleet.folder}",
            file=sys.stderr,
        )
        return 1
    if not orders.are_obeyed(tables):
        print(f"error: the tables lack an order or its result\nhint: the logs are in {fleet.folder}", file=sys.stderr)
        return 1
    print("\nEvery reading is in the table exactly once, and so is every order with its result.")
    return 0
