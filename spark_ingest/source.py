"""The Spark data source `covey`: `spark.readStream.format("covey")` and `spark.read.format("covey")`.

Options:
    path: the vault: a directory, or an object store as `s3://bucket/prefix` (what `load(path)` sets). Required.
    keyFile: path of the vault key file, the same on driver and executors. Required. No key stands in options or plans.
    verify: `all` (default), `sample` or `none`: whose Ed25519 signatures the executors check.
    maxSegmentsPerTrigger: segments in one micro-batch (default 256).
    maxBytesPerTrigger: their bytes in the vault, by what the signed manifests say (default: no such bound). A segment
        that is larger is read alone.
    manifestMemory: a directory for the last good manifest of each node, on the driver. With it, a planned micro-batch
        can be replayed although the store has lost or rolled back a manifest since, and no restart forgets what was
        seen.

Rows are messages with list columns (`schema.MESSAGE_SCHEMA`); `tables.readings` explodes them in the JVM. Offsets and
their rules: `offsets`. Readers are built anew in several processes, so `__init__` has no side effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from agent.core.vault_keys import KeyRing
from agent.core.vault_reading import VaultReader
from agent.errors import ConfigurationError, RemoteError
from spark_ingest.key_file import read_key_file
from spark_ingest.manifest_memory import FolderMemory
from spark_ingest.object_stores import open_vault
from spark_ingest.offsets import Offset, Position, Work, latest_offset, ranges
from spark_ingest.rows import Origin, Verify, quarantine_rows, segment_rows
from spark_ingest.schema import MESSAGE_SCHEMA

FORMAT = "covey"
SEGMENTS_PER_TRIGGER = 256
_OPTIONS = ("path", "keyFile", "verify", "maxSegmentsPerTrigger", "maxBytesPerTrigger", "manifestMemory")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options, checked."""

    vault: str
    key_file: Path
    verify: Verify = Verify.ALL
    segments_per_trigger: int = SEGMENTS_PER_TRIGGER
    memory: Path | None = None
    bytes_per_trigger: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check the options of a `load`.

        Raises:
            ConfigurationError: one is missing, unknown or not of its kind.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in given.keys() - {known.lower() for known in _OPTIONS}:
            raise ConfigurationError(f"unknown option {name}", hint=f"the options are {', '.join(_OPTIONS)}")
        for name in ("path", "keyFile"):
            if not given.get(name.lower()):
                raise ConfigurationError(f"option {name} is missing", hint='see pydoc "spark_ingest.source"')
        try:
            verify = Verify(given.get("verify", Verify.ALL))
        except ValueError:
            raise ConfigurationError(
                f"option verify is {given['verify']!r}", hint="it is all, sample or none"
            ) from None
        segments = _number(given, "maxSegmentsPerTrigger", 1_000_000) or SEGMENTS_PER_TRIGGER
        size = _number(given, "maxBytesPerTrigger", 2**50)
        memory = Path(given["manifestmemory"]) if given.get("manifestmemory") else None
        return cls(given["path"], Path(given["keyfile"]), verify, segments, memory, size)

    def to_options(self) -> dict[str, str]:
        """Return what `parse` reads."""
        options = {
            "path": self.vault,
            "keyFile": str(self.key_file),
            "verify": self.verify.value,
            "maxSegmentsPerTrigger": str(self.segments_per_trigger),
        }
        if self.bytes_per_trigger is not None:
            options["maxBytesPerTrigger"] = str(self.bytes_per_trigger)
        return options | ({"manifestMemory": str(self.memory)} if self.memory else {})

    def open(self) -> tuple[KeyRing, VaultReader]:
        """Read the key file and return the vault's reader.

        Raises:
            ConfigurationError: the key file or the vault is not there, or not as it should be.
        """
        keys = read_key_file(self.key_file)
        store = open_vault(self.vault)
        memory = FolderMemory(self.memory) if self.memory else None
        return keys, VaultReader(store, keys, memory)


def _number(given: Mapping[str, str], name: str, most: int) -> int | None:
    """Return a numeric option, or None where it is not given."""
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or not 1 <= int(text) <= most:
        raise ConfigurationError(f"option {name} is {text[:40]!r}", hint=f"a number from 1 to {most}")
    return int(text)


class Segments(InputPartition):
    """One task's work."""

    def __init__(self, work: Work) -> None:
        super().__init__(None)
        self.work = work


class CoveySource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of message rows."""
        return from_arrow_schema(MESSAGE_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the API's signature
        """Read the whole vault as it stands."""
        return VaultBatchReader(SourceOptions.parse(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - the API's signature
        """Follow the vault."""
        return VaultStreamReader(SourceOptions.parse(self.options))


class VaultBatchReader(DataSourceReader):
    """All segments that the vault's manifests list now."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Plan tasks over all nodes."""
        _, reader = self._options.open()
        return [Segments(work) for work in ranges(reader, {}, latest_offset(reader, {}, None))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(self._options, partition)


class VaultStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of segments; the planning half lives in one process of the driver, for the query's life."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._planner: VaultReader | None = None
        self._until: Offset | None = None
        self._nodes: list[str] = []

    def _reader(self) -> VaultReader:
        if self._planner is None:
            _, self._planner = self._options.open()
        return self._planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the API's name
        """Start at the beginning of every node."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Bound micro-batches by `maxSegmentsPerTrigger`; `latestOffset` adds `maxBytesPerTrigger`."""
        return ReadMaxFiles(self._options.segments_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next offset (rule 1 of `offsets`)."""
        segments, size = None, None
        if isinstance(limit, ReadMaxFiles):  # not where Spark asks for all that there is
            segments, size = limit.max_files, self._options.bytes_per_trigger
        end = latest_offset(self._reader(), start, segments, self._until, size)
        self._nodes = [*end]
        return end

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return how far the manifests that were looked at reach: what is between is the lag. Reads nothing."""
        held = {node: self._reader().held(node) for node in self._nodes}
        return {
            node: Position(manifest.manifest_seq, manifest.last_number).to_json()
            for node, manifest in held.items()
            if manifest is not None
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of an AvailableNow query at what the vault lists now."""
        self._until = latest_offset(self._reader(), {}, None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a micro-batch's tasks."""
        return [Segments(work) for work in ranges(self._reader(), start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(self._options, partition)


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Open, verify and decode a task's segments. A store that fails raises, so that Spark tries again."""
    if not isinstance(partition, Segments):
        return  # Spark's own empty partition for an empty plan
    work = partition.work
    if work.trouble:
        code, _, mark = work.trouble.partition(" ")
        told = f"the node's vault manifest or a range of it ({mark}) was not followed; its last good position is kept"
        yield quarantine_rows(Origin(work.node, None, None), code, told)
    keys, reader = options.open()
    for planned in work.entries:
        origin = Origin(work.node, work.collector, planned.number)
        span = max(work.first, planned.first), min(work.last, planned.number)
        try:
            for entry, content in reader.contents(work.node, planned):
                if content is None:
                    yield quarantine_rows(origin, "missing", "the vault manifest lists this segment; it is not there")
                else:
                    yield from segment_rows(keys.for_object(content), origin, entry, content, options.verify, span)
        except RemoteError as error:
            yield quarantine_rows(origin, error.code, str(error))


def register(spark: SparkSession) -> None:
    """Make `format("covey")` known to a session."""
    spark.dataSource.register(CoveySource)
