"""`./dev demo`: this machine's sensors, the whole way, and the proof that each reading is in the table once."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from covey.errors import CoveyError, TransientError
from demo.board import Board
from demo.chaos import Chaos, plan
from demo.fleet import Fleet
from demo.orders import OrdersByStick, carry_orders
from demo.screen import Progress, Screen

_HERE = Path(__file__).resolve().parent.parent
_DELIVER_SECONDS = 180
_SPARK_SECONDS = 120
_CATCH_UP_SECONDS = 40
_STEP_SECONDS = 0.25


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--agents", type=int, default=3, metavar="N", help="agents, 1 to 20 (default 3)")
    parser.add_argument("--seconds", type=float, default=45, metavar="S", help="how long they sample (default 45)")
    parser.add_argument(
        "--chaos", action="store_true", help="SIGKILL broker, an agent, the collector and Spark on the way"
    )
    parser.add_argument("--board", action="store_true", help="a microcontroller (emulated) joins, behind agent-1")
    parser.add_argument("--seed", type=int, default=1, help="seed of the chaos (default 1)")
    parser.add_argument("--keep", metavar="DIR", help="put everything here (default: .cache/demo, replaced each time)")
    return parser


def main() -> int:
    """Run the demo; exit 1 if a reading is missing or doubled, or an order that was carried is not in the tables."""
    options = _parser().parse_args()
    if not 1 <= options.agents <= 20 or not 5 <= options.seconds <= 86_400:
        print("error: 1 to 20 agents, 5 to 86400 seconds\nhint: ./dev demo --help", file=sys.stderr)
        return 2
    folder = Path(options.keep).absolute() if options.keep else _HERE / ".cache" / "demo"
    if folder.exists() and any(folder.iterdir()):
        if options.keep:
            print(f"error: {folder} is not empty\nhint: name a new folder", file=sys.stderr)
            return 2
        shutil.rmtree(folder)
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    try:
        return _run(options, folder)
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace, folder: Path) -> int:
    screen = Screen(options.chaos)
    screen.say(f"starting a broker, a collector and {options.agents} agents, pairing them …")
    fleet = Fleet(folder, options.agents)
    board = None
    batch_seconds = min(10.0, options.seconds / 5)
    try:
        fleet.set_up(batch_seconds=batch_seconds, interval_seconds=1.0)
        if options.board:
            board = Board(folder / "board", fleet.agents[0], options.seconds - 1, batch_seconds)
            fleet.others.append(board)
        screen.say("starting Spark …")
        fleet.ingest.start()
        _await_spark(fleet, screen)
        screen.say("sampling this machine's sensors …")
        for device in fleet.agents:
            device.start("run")
        if board is not None:
            board.enrol()
            screen.say(f"a board has joined behind {fleet.agents[0].name}, on a serial line at 115,200 baud")
        chaos = Chaos(plan(fleet, options.seconds, options.seed, board) if options.chaos else [])
        _sample(fleet, chaos, screen, options.seconds)
        orders = carry_orders(fleet, screen.say)
        screen.say("sampling is over; delivering what is on the way …")
        fleet.drain()
        _deliver(fleet, screen)
        screen.say("the vault holds everything; Spark takes in the rest …")
        if not _taken_in(fleet, orders, screen):
            fleet.ingest.stop()
            fleet.ingest.finish()
    finally:
        screen.close()
        if board is not None:
            board.close()
        fleet.close()
    return _conclude(fleet, orders, screen)


def _sample(fleet: Fleet, chaos: Chaos, screen: Screen, seconds: float) -> None:
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds or not chaos.done:
        line = chaos.advance(elapsed)
        if line:
            screen.say(line)
        screen.show(_progress(fleet), f"{max(0, seconds - elapsed):.0f} s left")
        time.sleep(_STEP_SECONDS)


def _await_spark(fleet: Fleet, screen: Screen) -> None:
    deadline = time.monotonic() + _SPARK_SECONDS
    while not fleet.ingest.streams:
        if time.monotonic() > deadline or not fleet.ingest.alive:
            raise TransientError("Spark did not start", hint=f"see {fleet.folder}/ingest.log")
        screen.show(_progress(fleet), "waiting for Spark")
        time.sleep(_STEP_SECONDS)


def _deliver(fleet: Fleet, screen: Screen) -> None:
    deadline = time.monotonic() + _DELIVER_SECONDS
    while time.monotonic() < deadline:
        progress = _progress(fleet)
        screen.show(progress, "delivering")
        if not progress.queued and not fleet.collector.ledger().landing_bytes:
            return
        time.sleep(_STEP_SECONDS)
    raise TransientError("not everything was delivered in time", hint=f"the logs are in {fleet.folder}")


def _taken_in(fleet: Fleet, orders: OrdersByStick, screen: Screen) -> bool:
    """Wait for the stream to reach the end of the vault."""
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    while time.monotonic() < deadline and fleet.ingest.alive:
        progress = _progress(fleet)
        screen.show(progress, "catching up")
        if progress.in_table >= progress.published and orders.are_obeyed(fleet.ingest.tables):
            return True
        time.sleep(_STEP_SECONDS)
    return False


def _progress(fleet: Fleet) -> Progress:
    ledgers = [member.ledger() for member in fleet.members]
    return Progress(
        agents=len(fleet.agents),
        published=sum(ledger.published for ledger in ledgers),
        queued=sum(ledger.queued_messages for ledger in ledgers),
        relayed_bytes=sum(device.wire_bytes() for device in fleet.agents),
        landed_messages=fleet.collector.ledger().landed_messages,
        in_table=rows_in(fleet.ingest.tables / "readings"),
    )


def rows_in(table: Path) -> int:
    """Count a table's rows by its Parquet footers."""
    from pyarrow import parquet

    rows = 0
    for file in table.glob("**/*.parquet"):
        try:
            rows += parquet.read_metadata(file).num_rows
        except (OSError, ValueError):
            continue  # it was replaced meanwhile; the next look counts it
    return rows


def _conclude(fleet: Fleet, orders: OrdersByStick, screen: Screen) -> int:
    from tests.audit import Tally, audit

    screen.say("reading the table back …")
    audits = audit(fleet.ingest.tables)
    rows = []
    wrong = 0
    for member in fleet.members:
        published = member.ledger().published
        found = audits.get(member.author)
        tally = found.tally if found else Tally(0, 0)
        missing = published - tally.distinct
        wrong += abs(missing) + tally.doubled
        wire = member.wire_bytes() / published if published else 0.0
        latency = (found.latency_p50_s, found.latency_p99_s) if found else (0.0, 0.0)
        rows.append((member.name, published, tally.rows, missing, tally.doubled, wire, *latency))
    screen.table(rows)
    tables = fleet.ingest.tables
    screen.say("ordered while the broker was dead, and carried on a stick; the tables say:")
    for line in orders.obeyed(fleet.ingest.tables):
        screen.say(f"  {line}")
    print(f"\nThe tables lie in {tables}. Query them with anything that reads Parquet:")
    query = f"import pyarrow.dataset as d; print(d.dataset('{tables}/readings').head(5).to_pandas())"
    print(f'  .venv/bin/python -c "{query}"')
    print("How fleet and readings are; the collector's state knows what its devices are called:")
    print(f"  COVEY_STATE={fleet.collector.state} .venv/bin/covey ingest report {tables} --html report.html")
    if wrong or not sum(row[1] for row in rows):
        print(f"error: {wrong} readings missing or doubled\nhint: the logs are in {fleet.folder}", file=sys.stderr)
        return 1
    if not orders.are_obeyed(tables):
        print(f"error: an order, or its result, is in no table\nhint: the logs are in {fleet.folder}", file=sys.stderr)
        return 1
    print("\nEvery reading is in the table exactly once, and so is what was ordered, with what became of it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
