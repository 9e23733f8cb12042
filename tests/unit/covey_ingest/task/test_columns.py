"""One list of the columns of `readings`: what reads, writes and describes them agrees with it."""

from __future__ import annotations

import re

from covey_ingest.tables import clocks, messages
from covey_ingest.task.columns import COLUMNS, KEY, READINGS, described
from covey_ingest.task.exploding import STORED
from covey_ingest.task.schema import MESSAGE_SCHEMA
from tests.meta.source_tree import ROOT
from tests.outside.tables import READINGS as AUDITED


def test_the_document_has_the_table() -> None:
    protocol = (ROOT / "docs/protocol/vault.md").read_text(encoding="utf-8")
    [table] = re.findall(r"<!-- columns of readings.*?-->\n(.*?)\n<!-- end -->", protocol, re.DOTALL)
    assert table == described()


def test_a_column_of_the_message_is_one_of_the_source() -> None:
    for column in COLUMNS:
        if column.message:
            assert MESSAGE_SCHEMA.field(column.name).type == column.type, column.name


def test_key_columns_are_listed() -> None:
    assert {column.name for column in COLUMNS if column.known} == {*messages.MESSAGES.names}
    assert {*KEY} == {*messages.MESSAGE, "index"}


def test_readers_use_the_listed_column_types() -> None:
    for schema in (messages.MESSAGES, AUDITED):
        for field in schema:
            assert field.type == READINGS.field(field.name).type, field.name
    assert STORED.names == READINGS.names
    assert {*clocks.BOOT} <= {*READINGS.names}
