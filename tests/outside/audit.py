"""What do vaults hold, and do their tables hold just that? `python -m tests.outside.audit --help`

Each of these is found, and named:
    unreadable  a manifest, range or segment that cannot be read
    forged      a record that is not what an author signed
    stranger    a record, or a node, of a device that was never a member of the group
    gap         batches that an author has numbered, and that neither came nor stand in a loss record
    doubled     a reading that is in a table more than once
    lost        a reading, or an admitted loss, that a vault holds and a table does not
    changed     a row that says something else than its author signed, or than the collector that landed it
    unsaid      a row that no message of a member says
    unerased    a record or a row that people have had erased, as a node or the tables say, and that is there

What was erased from a vault is missed in no table, nor unsaid where it stands in one; what was deleted from tables is
not lost there. A message that landed twice counts once. Needs some 500 bytes of memory for each reading.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tests.outside.holdings import Admission, Finding, Holdings, Kind, runs
from tests.outside.members import Membership, manifests_in, membership, read_identity
from tests.outside.tables import LOSSES, READINGS, Deletions, deletions_of, rows_of
from tests.outside.telemetry import Value
from tests.outside.vault import Vault

_ROWS_AT_ONCE = 100_000
_LARGEST_DOUBLE_INTEGER = 2**53
_ALARMS = (None, "raised", "ended", "changed")

_MESSAGES = pa.schema(
    [
        *(("message", pa.int64()), ("author", pa.string()), ("incarnation", pa.string()), ("seq", pa.int64())),
        *(("boot", pa.string()), ("batch_number", pa.int64()), ("clock", pa.int32())),
        *(("offset", pa.int64()), ("monotonic", pa.int64())),
    ]
)
_LANDINGS = pa.schema([("message", pa.int64()), ("collector", pa.string()), ("received_us", pa.int64())])
_SAID = pa.schema(
    [
        *(("message", pa.int64()), ("index", pa.int32()), ("name", pa.string()), ("unit", pa.string())),
        *(("ticks", pa.int64()), ("value", pa.float64()), ("whole", pa.int64()), ("flag", pa.bool_())),
        *(("text", pa.string()), ("data", pa.binary()), ("alarm", pa.string())),
    ]
)
_ERASED = pa.schema(
    [("author", pa.string()), ("incarnation", pa.string()), ("first", pa.int64()), ("last", pa.int64())]
)
_DELETED = pa.schema([("author", pa.string()), ("until_us", pa.int64())])
"""Of null: of all, up to that moment."""
_ROWS = """
    CREATE OR REPLACE TABLE rows AS
    SELECT message, clock, "offset", monotonic, r.* EXCLUDE (time, received_at),
           epoch_us(time) AS time_us, epoch_us(received_at) AS received_us
    FROM found AS r LEFT JOIN messages USING (author, incarnation, seq, boot, batch_number)
"""
_WHICH = """author, incarnation, seq, boot, batch_number, list(DISTINCT "index" ORDER BY "index") AS indexes"""
_BY_MESSAGE = "GROUP BY author, incarnation, seq, boot, batch_number ORDER BY ALL"
_DOUBLED = f"""
    SELECT {_WHICH}, NULL FROM (
        SELECT *, count(*) OVER (PARTITION BY author, incarnation, seq, boot, batch_number, "index") AS times FROM rows
    ) WHERE times > 1 {_BY_MESSAGE}
"""
_IS_ERASED = """EXISTS (FROM erased WHERE erased.author = rows.author AND erased.incarnation = rows.incarnation
                        AND rows.batch_number BETWEEN erased.first AND erased.last)"""
_IS_DELETED = """EXISTS (
    FROM deleted JOIN landings ON landings.message = said.message
    WHERE coalesce(deleted.author = messages.author, true)
          AND (received_us <= until_us OR (clock = 0 AND said.ticks + "offset" <= until_us)))"""
_LOST = f"""
    SELECT {_WHICH}, NULL FROM said ANTI JOIN rows USING (message, "index") JOIN messages USING (message)
    WHERE NOT {_IS_DELETED} {_BY_MESSAGE}
"""
_UNSAID = f"""
    SELECT {_WHICH}, NULL FROM rows ANTI JOIN said USING (message, "index") WHERE NOT {_IS_ERASED} {_BY_MESSAGE}
"""
_UNERASED = f"""
    SELECT {_WHICH}, NULL FROM rows
    WHERE EXISTS (FROM deleted WHERE coalesce(deleted.author = rows.author, true) AND rows.received_us <= until_us)
    {_BY_MESSAGE}
"""
_DIFFERENCES = {
    **{
        column: f"rows.{column} IS DISTINCT FROM said.{column}"
        for column in ("name", "unit", "value", "whole", "flag", "text", "data", "alarm")
    },
    "time": """time_us <> ticks + coalesce(clock_offset, CASE clock WHEN 2 THEN 0 ELSE "offset" END)
               AND time_quality <> 'arrival'""",
    "time_quality": """NOT CASE time_quality
        WHEN 'synchronised' THEN clock = 0 AND clock_offset = "offset"
        WHEN 'unsynchronised' THEN clock = 1 AND clock_offset = "offset"
        WHEN 'asserted' THEN clock = 2 AND clock_offset IS NULL
        WHEN 'arrival' THEN clock = 2 OR clock_offset = received_us - monotonic
        WHEN 'rebased' THEN clock <> 2 AND ((author, boot, clock_offset) IN (
            SELECT (author, boot, "offset") FROM messages WHERE clock = 0) OR author IN (SELECT author FROM erased))
        ELSE false END""",
    "collector or received_at": f"(message, rows.collector, received_us) NOT IN (FROM landings) AND NOT {_IS_ERASED}",
}
_CHANGED = f"""
    SELECT {_WHICH}, differences FROM (
        SELECT rows.*, list_filter([{
    ", ".join(f"CASE WHEN {when} THEN '{column}' END" for column, when in _DIFFERENCES.items())
}], lambda each: each IS NOT NULL) AS differences
        FROM rows JOIN said USING (message, "index")
    ) WHERE len(differences) > 0 GROUP BY author, incarnation, seq, boot, batch_number, differences ORDER BY ALL
"""
_QUESTIONS = {
    Kind.DOUBLED: _DOUBLED,
    Kind.LOST: _LOST,
    Kind.CHANGED: _CHANGED,
    Kind.UNSAID: _UNSAID,
    Kind.UNERASED: _UNERASED,
}


@dataclass(frozen=True, slots=True)
class Audit:
    """What vaults and tables hold, by author, and what is wrong with it."""

    readings: Counter[str]
    """Different ones, in the vaults."""
    rows: dict[str, Counter[str]]
    """Of each set of tables."""
    findings: list[Finding]


def audit(holdings: Holdings, tables: Iterable[str | Path]) -> Audit:
    """Compare tables with what vaults hold."""
    findings = [*holdings.findings, *holdings.gaps()]
    rows: dict[str, Counter[str]] = {}
    with closing(duckdb.connect()) as database:
        _load(database, holdings)
        for location in map(str, tables):
            deletions = deletions_of(location)
            _fill(database, "deleted", _DELETED, _deleted(deletions))
            database.register("found", rows_of(location, "readings", READINGS))
            database.execute(_ROWS)
            counts = database.execute("SELECT author, count(*) FROM rows GROUP BY author").fetchall()
            rows[location] = Counter(dict(counts))
            for kind, question in _QUESTIONS.items():
                answers = database.execute(question).fetchall()
                findings += [Finding(kind, location, _named(*answer)) for answer in answers]
            findings += _losses(holdings, location, deletions)
    return Audit(holdings.readings(), rows, findings)


def _named(
    author: str, incarnation: str, seq: int, boot: str, number: int, indexes: list[int], columns: list[str] | None
) -> str:
    spans = f"{indexes[0]} to {indexes[-1]}" if len(indexes) > 1 else f"{indexes[0]}"
    what = f"{len(indexes)} readings of {author}, incarnation {incarnation}, seq {seq}, boot {boot}, batch {number}"
    return f"{what}, index {spans}" + (f": {', '.join(columns)}" if columns else "")


def _deleted(deletions: Deletions) -> Iterator[tuple[str | None, int]]:
    yield from deletions.authors.items()
    if deletions.kept_since:
        yield None, deletions.kept_since - 1


def _losses(holdings: Holdings, location: str, deletions: Deletions) -> Iterator[Finding]:
    table = rows_of(location, "losses", LOSSES).to_table()
    found = {Admission(*row) for row in zip(*(table[name].to_pylist() for name in LOSSES.names), strict=True)}
    for each in sorted(holdings.admissions - found, key=repr):
        if each.author not in deletions.authors and not deletions.kept_since:
            yield Finding(Kind.LOST, location, f"{tuple(each)}")
    for each in sorted(found - holdings.admissions, key=repr):
        if not _is_erased(holdings, each):
            yield Finding(Kind.UNSAID, location, f"loss {tuple(each)}")


def _is_erased(holdings: Holdings, each: Admission) -> bool:
    """Say whether a loss may have been erased from the vault: of its numbers that is said, of places it cannot be."""
    if each.first_number is None or each.last_number is None:
        return any(link.author == each.author for link in holdings.erased)
    return holdings.is_erased(each.author, each.incarnation, each.first_number, each.last_number)


def _load(database: duckdb.DuckDBPyConnection, holdings: Holdings) -> None:
    """Make tables of what the vaults hold."""
    ids = {key: number for number, key in enumerate(holdings.batches)}
    messages = (
        (number, *key, batch.clock, batch.offset, batch.anchor_monotonic)
        for (key, batch), number in zip(holdings.batches.items(), ids.values(), strict=True)
    )
    landings = ((ids[key], *landing) for key, found in holdings.landings.items() for landing in found)
    said = (
        (ids[key], index, reading.name, reading.unit, reading.time, *_columns(reading.value), _ALARMS[batch.alarm])
        for key, batch in holdings.batches.items()
        for index, reading in enumerate(batch.readings)
    )
    _fill(database, "messages", _MESSAGES, messages)
    _fill(database, "landings", _LANDINGS, landings)
    _fill(database, "said", _SAID, said)
    erased = ((*link, *span) for link, numbers in holdings.erased.items() for span in runs(numbers))
    _fill(database, "erased", _ERASED, erased)


def _fill(database: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Iterator[tuple[Any, ...]]) -> None:
    given = schema.empty_table()
    database.register("given", given)
    database.execute(f"CREATE OR REPLACE TABLE {name} AS FROM given")
    while part := [*islice(rows, _ROWS_AT_ONCE)]:
        columns = [pa.array(column, kind) for column, kind in zip(zip(*part, strict=True), schema.types, strict=True)]
        database.register("given", pa.table(columns, schema=schema))
        database.execute(f"INSERT INTO {name} FROM given")


def _columns(value: Value) -> tuple[float | None, int | None, bool | None, str | None, bytes | None]:
    """Return the columns that a value stands in."""
    match value:
        case bool():
            return None, None, value, None, None
        case str():
            return None, None, None, value, None
        case bytes():
            return None, None, None, None, value
    beyond = isinstance(value, int) and abs(value) > _LARGEST_DOUBLE_INTEGER
    return float(value), int(value) if beyond else None, None, None, None


def read_members(history: Path, device: Path) -> Membership:
    """Return who was in a group: by a history file that is sealed for the device whose key files lie in a folder."""
    return membership(manifests_in(history.read_bytes(), *read_identity(device)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is found; return 1 where something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.outside.audit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vault", nargs="+", help="a folder or a URL (s3://...)")
    parser.add_argument("--key-file", type=Path, action="append", required=True, help="vault.key, for each vault")
    parser.add_argument("--tables", nargs="*", default=[], help="folders or URLs of tables that these vaults fill")
    parser.add_argument("--history", type=Path, help="what covey history export wrote: the group manifests")
    parser.add_argument("--device", type=Path, help="the folder with identity.key of who may read that")
    options = parser.parse_args(arguments)
    if (options.history is None) != (options.device is None):
        parser.error("--history and --device go together")
    if len(options.key_file) != len(options.vault):
        parser.error("give one --key-file per vault, in the order of the vaults")
    holdings = Holdings(read_members(options.history, options.device) if options.history else None)
    for location, key_file in zip(options.vault, options.key_file, strict=True):
        holdings.take(Vault(location, key_file))
    found = audit(holdings, options.tables)
    for author, count in sorted(found.readings.items()):
        print(
            f"{author}: {count} readings in the vault", *(f"{rows[author]} in {at}" for at, rows in found.rows.items())
        )
    print(*found.findings, sep="\n")
    asked = "" if options.history else "; nobody was asked who is a member"
    print(f"{found.readings.total()} readings, {len(found.findings)} findings{asked}")
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
