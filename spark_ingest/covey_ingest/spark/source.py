"""The Spark data source `covey`: `spark.readStream.format("covey")` and `spark.read.format("covey")`.

Options:
    path: the vault: a directory, or an object store as `s3://bucket/prefix` (set by `load(path)`). Required.
    keyFile: path of the vault key file, the same on driver and executors. Required. Keys never appear in options or
    plans.
    verify: `all` (default) or `none`: which Ed25519 signatures the executors check.
    maxSegmentsPerTrigger: segments in one micro-batch (default 256).
    maxBytesPerTrigger: their bytes in the vault, by the signed manifests (default: no limit). A larger segment is read
    alone.
    manifestMemory: a directory for the last good manifest of each node, on the driver. With it, a planned micro-batch
    can be replayed although the store has lost or rolled back a manifest since, also after a restart.
    failedSegments: the file, on the driver, in which `repairs` lists skipped segments. With it, a stream reads those
    segments as soon as they are whole.
    receivedSince, receivedUntil: only messages that a collector received from the first moment on and before the
    second, with a time zone: `2026-11-20T06:00:00Z`. Segments created before the first are not opened.
    nodes: only what these nodes landed, by `node` or `collector` of the rows, separated by commas. Nothing of the
    others is read.
    otherVaults: further vaults, as a JSON list of `[path, keyFile]`. With `homeVault`: the id of the vault whose nodes
    appear by their ids alone in the offsets (`vaults`); by default the one at `path`.
    startingOffsets, endingOffsets: read between two offsets of a stream, each as JSON (`offsets`); by default from the
    beginning, and up to what the vault lists now. `readStream` accepts only the first.

`schema(...)` may name some of the columns, in any order: the others are not built, and readings are not decoded unless
one of their columns is named (`pruning`). A filter (`where`) on the rows skips nothing in the vault: use the options.

Rows are messages with list columns (`schema.MESSAGE_SCHEMA`); `readings` makes a row of each reading. Offsets and their
rules: `offsets`. Spark creates readers again in several processes, so `__init__` has no side effect.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import ArrayType, StructType

from covey.errors import ConfigurationError
from covey_ingest.options import SourceOptions
from covey_ingest.task.columns import COLUMNS
from covey_ingest.task.reading import work_rows
from covey_ingest.task.schema import MESSAGE_SCHEMA
from covey_ingest.vault.offsets import Work, latest_offset, ranges
from covey_ingest.vault.planning import Planner, tasks
from covey_ingest.vault.pruning import Selection
from covey_ingest.vault.vaults import VaultPlace

FORMAT = "covey"


def _columns(asked: StructType) -> pa.Schema:
    """Return those columns of `MESSAGE_SCHEMA` that a schema asks for, in its order, as Spark will take them.

    Raises:
        ConfigurationError: one that there is not, of another type, or never null where it may be.
    """
    own = from_arrow_schema(MESSAGE_SCHEMA)
    fields = []
    for field in asked:
        if field.name not in own.names:
            raise ConfigurationError(f"the source has no column {field.name}", hint=f"columns: {', '.join(own.names)}")
        known, kind = own[field.name], MESSAGE_SCHEMA.field(field.name).type
        same = field.dataType == known.dataType
        if isinstance(field.dataType, ArrayType) and isinstance(known.dataType, ArrayType):
            same = field.dataType.elementType == known.dataType.elementType
            kind = pa.list_(kind.value_field.with_nullable(field.dataType.containsNull))
        if not same or field.nullable < known.nullable:
            raise ConfigurationError(
                f"column {field.name} cannot be {field.dataType.simpleString()}{'' if field.nullable else ' not null'}",
                hint=f"it is {known.dataType.simpleString()}{'' if known.nullable else ' not null'}",
            )
        fields.append(pa.field(field.name, kind, field.nullable))
    return pa.schema(fields)


class Segments(InputPartition):
    """One task's work, in one vault."""

    def __init__(self, place: VaultPlace, work: Work) -> None:
        super().__init__(None)
        self.place = place
        self.work = work


class CoveySource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of message rows."""
        _spare_imports()
        return from_arrow_schema(MESSAGE_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the whole vault as it stands."""
        _spare_imports()
        return VaultBatchReader(SourceOptions.parse(self.options), _columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the API's name
        """Follow the vault."""
        _spare_imports()
        options = SourceOptions.parse(self.options)
        if options.offsets[1] is not None:
            raise ConfigurationError("endingOffsets works only with read, not with readStream", hint="leave it out")
        return VaultStreamReader(options, _columns(schema))


class VaultBatchReader(DataSourceReader):
    """All segments that the vault's manifests list now, or those between two offsets, as far as they are wanted."""

    def __init__(self, options: SourceOptions, columns: pa.Schema = MESSAGE_SCHEMA) -> None:
        self._options = options
        self._wanted = Selection(columns, *options.received_us)

    def partitions(self) -> list[InputPartition]:
        """Plan tasks over all nodes."""
        vaults, (start, end) = self._options.open_all(), self._options.offsets
        end = latest_offset(vaults, start or {}, None) if end is None else end
        return [Segments(*task) for task in tasks(vaults, self._wanted.works(ranges(vaults, start or {}, end)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(self._options, self._wanted, partition)


class VaultStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of segments; the planning half lives in one process of the driver, for the query's life."""

    def __init__(self, options: SourceOptions, columns: pa.Schema = MESSAGE_SCHEMA) -> None:
        self._options = options
        self._wanted = Selection(columns, *options.received_us)
        self._planner = Planner(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the API's name
        """Start at the beginning of every node, or where `startingOffsets` says."""
        return self._options.offsets[0] or {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Bound micro-batches by `maxSegmentsPerTrigger`; `latestOffset` adds `maxBytesPerTrigger`."""
        return ReadMaxFiles(self._options.segments_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next offset (rule 1 of `offsets`)."""
        if isinstance(limit, ReadMaxFiles):  # not where Spark asks for all that there is
            return self._planner.next_offset(start, limit.max_files, self._options.bytes_per_trigger)
        return self._planner.next_offset(start, None, None)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return how far the manifests that were looked at reach: what is between is the lag. Reads nothing."""
        return self._planner.listed()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of an AvailableNow query at what the vault lists now."""
        self._planner.end_here()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a micro-batch's tasks."""
        return [Segments(*task) for task in self._planner.tasks(start, end, self._wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(self._options, self._wanted, partition)


@cache
def _spare_imports() -> None:
    """Exclude a worker's imports from garbage collection: PySpark's daemon collects after every task."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == "pyspark.daemon":
        gc.freeze()


def _read(options: SourceOptions, wanted: Selection, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Open, verify and decode a task's segments. A failing store raises, so that Spark tries again."""
    _spare_imports()
    if isinstance(partition, Segments):  # not Spark's own empty partition for an empty plan
        yield from work_rows(options.open(partition.place), partition.work, options.verify, wanted)


def readings(messages: DataFrame) -> DataFrame:
    """Return a row for each reading of the source's rows, with the columns of the table `readings`.

    These are the rows of `exploding.readings_of`. Spark makes them itself, since a second way through Python would cost
    more than reading the vault.
    """
    numbers = F.size("values")
    of_each = F.posexplode(F.arrays_zip("times", "series", "values", "wholes")).alias("index", "reading")
    rows = messages.where("kind = 'telemetry'").select("*", numbers.alias("numbers"), of_each)
    index, number = F.col("index"), F.col("reading.values")
    is_flag = (index >= F.col("booleans_from")) & (index < F.col("booleans_until"))
    after_numbers = index - F.col("numbers")
    made = {column.name: F.col(column.name) for column in COLUMNS if column.message} | {
        "device": F.substring("author", 1, 8),
        "name": F.get("names", F.col("reading.series")),
        "unit": F.get("units", F.col("reading.series")),
        "time": F.col("reading.times"),
        "value": F.when(~is_flag, number),
        "whole": F.nullif(F.col("reading.wholes"), F.lit(0)),
        "flag": F.when(is_flag, number != 0),
        "text": F.get("texts", after_numbers),
        "data": F.get("data", after_numbers - F.size("texts")),
        "index": index,
    }
    return rows.select(*(made[column.name].alias(column.name) for column in COLUMNS))


def register(spark: SparkSession) -> None:
    """Make `format("covey")` known to a session."""
    spark.dataSource.register(CoveySource)
