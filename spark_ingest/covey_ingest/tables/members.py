"""The `members` table: the labels of devices by group and time; readings get their labels from it.

    members/members.parquet   one row for each device, group and time span with one label, replaced whole

1. It is derived from `memberships` alone, and rebuilt when a micro-batch brings some, which is rare. So it may be
   deleted, and a manifest landed twice counts once.
2. If collectors differ, the higher version counts: an older manifest that is landed later changes nothing.
3. `valid_from` of a device's first span in a group is null: nobody knows its label before any collector stored one, and
   a reading that waited for days gets the device's first label.
4. `valid_until` is null while a span lasts. A device that left a group is in none of its spans, and returns in a new
   one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from covey_ingest.committer.committed import batch_folder, folder_numbers
from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.tables.messages import database
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.memberships import MEMBERSHIP, TABLE

ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("group", "author")),
        *((field.name, field.type) for field in MEMBERSHIP),
        ("received_at", TIMESTAMP),
    ]
)
MEMBERS = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "device", "group", "group_name", "label", "role")),
        ("board", pa.bool_()),
        ("valid_from", TIMESTAMP),
        ("valid_until", TIMESTAMP),
    ]
)

_SPANS = """
    WITH said AS (SELECT * REPLACE (epoch_us(received_at) AS received_at) FROM given),
    first_said AS (
        SELECT "group", title IS NOT NULL AS named, version, said, min(received_at) AS landed FROM said GROUP BY ALL),
    held AS (
        SELECT *, min(landed) OVER (PARTITION BY "group", named ORDER BY version DESC, landed DESC, said DESC) AS since
        FROM first_said),
    lasting AS (
        SELECT *, lead(since) OVER (PARTITION BY "group", named ORDER BY version, landed, said) AS until FROM held),
    manifests AS (SELECT * FROM lasting WHERE NOT named AND (until IS NULL OR until > since)),
    titles AS (
        SELECT "group", said.title,
               CASE WHEN row_number() OVER (PARTITION BY "group" ORDER BY since) > 1 THEN since ELSE 0 END AS since
        FROM lasting JOIN (SELECT DISTINCT said, title FROM said WHERE title IS NOT NULL) AS said USING (said)
        WHERE named AND (until IS NULL OR until > since)),
    moments AS (
        SELECT "group", since FROM manifests UNION SELECT "group", since FROM titles WHERE since > 0),
    cut AS (
        SELECT moments."group", moments.since, manifests.said,
               lead(moments.since) OVER (PARTITION BY moments."group" ORDER BY moments.since) AS until
        FROM moments ASOF JOIN manifests
             ON moments."group" = manifests."group" AND moments.since >= manifests.since),
    members AS (
        SELECT DISTINCT said.author, cut."group", titles.title AS group_name, said.label, said.role, said.board,
               cut.since, cut.until
        FROM cut JOIN (SELECT DISTINCT said, author, label, role, board FROM said WHERE title IS NULL) AS said
             USING (said)
        ASOF LEFT JOIN titles ON cut."group" = titles."group" AND cut.since >= titles.since),
    changes AS (
        SELECT *, coalesce(lag(until) OVER own = since AND lag((label, role, board, group_name)) OVER own
                               IS NOT DISTINCT FROM (label, role, board, group_name), false) AS goes_on
        FROM members WINDOW own AS (PARTITION BY author, "group" ORDER BY since)),
    numbered AS (
        SELECT *, sum(CASE WHEN goes_on THEN 0 ELSE 1 END) OVER (PARTITION BY author, "group" ORDER BY since) AS span
        FROM changes)
    SELECT author, substr(author, 1, 8) AS device, "group", any_value(group_name) AS group_name,
           any_value(label) AS label, any_value(role) AS role, any_value(board) AS board,
           CASE WHEN span > 1 THEN min(since) END AS valid_from,
           CASE WHEN bool_and(until IS NOT NULL) THEN max(until) END AS valid_until
    FROM numbered GROUP BY author, "group", span ORDER BY author, "group", span"""


def path_in(tables: Path) -> Path:
    """Return where the table of spans lies."""
    return tables / "members" / "members.parquet"


def update(tables: Path, number: int | None = None) -> None:
    """Bring `members` up to micro-batch `number`, which is committed; without one, up to all that are (rule 1)."""
    if number is not None and not batch_folder(tables, TABLE, number).is_dir():
        return
    _, last = read_state(path_in(tables), MEMBERS)
    newest = max(folder_numbers(tables / TABLE), default=-1) if number is None else number
    if newest > last or not path_in(tables).exists():
        said = _said(tables)
        if len(said):
            replace_state(path_in(tables), spans(said), newest)


def spans(said: pa.Table) -> pa.Table:
    """Return `MEMBERS` of rows of `memberships`, whichever are there twice."""
    with database() as held:
        held.register("given", said)
        found = held.sql(_SPANS).to_arrow_table()
    return found.cast(MEMBERS)


def _said(tables: Path) -> pa.Table:
    """Return all rows: the committer's folder has all files of this table."""
    files = sorted((tables / TABLE).rglob("*.parquet"))
    return ds.dataset([*map(str, files)], ROWS, format="parquet").to_table() if files else ROWS.empty_table()
