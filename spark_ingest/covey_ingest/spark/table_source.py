"""The Spark data source `covey_tables`: reads and follows one of our tables where Spark has no Delta jars.

    spark.read.format("covey_tables").load("/srv/tables/readings")
    spark.readStream.format("covey_tables").load("s3://bucket/tables/readings")

1. A batch query reads the files that the newest version of the log names.
2. A stream begins with these, and then takes in what each later commit adds. A commit that takes rows away as well (a
   repaired time, a deletion) or changes no data (merging) brings nothing: so each reading comes once.
3. An offset is a version of the log. A version that the log no longer keeps cannot be read: that is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from covey.errors import ConfigurationError, StorageError
from covey.limits.tables import MAXIMUM_LOG_ENTRY_BYTES
from covey_ingest.committer.delta_files import sizes_of
from covey_ingest.committer.file_names import check_content
from covey_ingest.committer.table_locations import TableLocation, location_at, open_table

FORMAT = "covey_tables"
_VERSION = "version"
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class _Table:
    """A table by its place."""

    root: str
    name: str

    @classmethod
    def at(cls, place: str) -> _Table:
        root, _, name = place.rstrip("/").rpartition("/")
        if not root or not name:
            raise ConfigurationError(
                f"{place!r} does not name a table", hint="for example load('/srv/tables/readings')"
            )
        return cls(root, name)

    @property
    def location(self) -> TableLocation:
        return location_at(self.root)

    def opened(self) -> Any:
        """Return the table as its log has it now.

        Raises:
            ConfigurationError: there is none.
        """
        table = open_table(self.location, self.name)
        if table is None:
            raise ConfigurationError(
                f"{self.root} has no table {self.name}", hint="name one that 'covey tables run' has written"
            )
        return table

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return pa.schema(self.opened().schema().to_arrow())

    def files(self, version: int | None = None) -> list[str]:
        """Return the paths of the files of a version, or of the newest one."""
        table = self.opened()
        if version is not None:
            table.load_as_version(version)
        return [*sizes_of(table)]

    def added(self, version: int) -> list[str]:
        """Return the paths of the files that a commit brings (rule 2).

        Raises:
            StorageError: rule 3.
        """
        entry = self.location.store.get(f"{self.name}/_delta_log/{version:020}.json", MAXIMUM_LOG_ENTRY_BYTES)
        if entry is None:
            raise StorageError(
                f"the log of {self.name} at {self.root} no longer keeps version {version}",
                hint="start the stream again with a new checkpoint",
            )
        actions = [json.loads(line) for line in entry.splitlines()]
        if any(action["remove"]["dataChange"] for action in actions if "remove" in action):
            return []
        added = [action["add"] for action in actions if "add" in action]
        return [unquote(add["path"]) for add in added if add["dataChange"]]


class _File(InputPartition):
    """A file of a table."""

    def __init__(self, path: str) -> None:
        super().__init__(None)
        self.path = path


class TableSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the table."""
        return from_arrow_schema(self._table().schema())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - all columns are read
        """Read the table as it is now."""
        return _TableReader(self._table())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - the API's name
        """Follow the table."""
        return _TableStream(self._table())

    def _table(self) -> _Table:
        return _Table.at(self.options.get("path", ""))


class _TableReader(DataSourceReader):
    def __init__(self, table: _Table) -> None:
        self._table = table

    def partitions(self) -> list[InputPartition]:
        """Return a task for each file."""
        return [_File(path) for path in self._table.files()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        return _read(self._table, partition)


class _TableStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, table: _Table) -> None:
        self._table = table
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - the API's name
        """Begin before all versions."""
        return {_VERSION: -1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Read all there is."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002
        """Return the newest version, or the one that was the newest when the query began."""
        newest = self._table.opened().version() if self._until is None else self._until
        return {_VERSION: max(start[_VERSION], newest)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the newest version."""
        return {_VERSION: self._table.opened().version()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End at the version that is the newest now."""
        self._until = self._table.opened().version()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return a task for each file that came between two versions."""
        first, last = start[_VERSION], end[_VERSION]
        if first < 0:
            return [_File(path) for path in self._table.files(last)]
        return [_File(path) for version in range(first + 1, last + 1) for path in self._table.added(version)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        return _read(self._table, partition)


def _read(table: _Table, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with all columns of the table; those that it lacks are null."""
    if not isinstance(partition, _File):  # Spark's own empty partition for an empty plan
        return
    schema, store = table.schema(), table.location.store
    with store.reading(f"{table.name}/{partition.path}") as file:
        check_content(file, partition.path)
        with pq.ParquetFile(file) as source:
            for batch in source.iter_batches(_ROWS_AT_ONCE):
                columns = [
                    batch[field.name].cast(field.type)
                    if field.name in batch.schema.names
                    else pa.nulls(len(batch), field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def register(spark: SparkSession) -> None:
    """Make `format("covey_tables")` known to a session."""
    spark.dataSource.register(TableSource)
