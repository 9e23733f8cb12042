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
    failedSegments: the file, on the driver, in which `repairs` keeps what had to be passed over. With it, a stream
        reads those segments as soon as they are whole.
    receivedSince, receivedUntil: only messages that a collector had at or after the one moment and before the other,
        each with its zone: `2026-11-20T06:00:00Z`. Segments that were created before the first are not opened.
    nodes: only what these nodes landed, by `node` or `collector` of the rows, with commas between them. Nothing of the
        others is read.
    otherVaults: further vaults, as a JSON list of `[path, keyFile]`. With `homeVault`: the id of the vault whose nodes
        go by their ids alone in the offsets (`vaults`); by default the one at `path`.
    startingOffsets, endingOffsets: for `read` alone, what lies between two offsets of a stream, each as JSON
        (`offsets`): from the beginning, and up to what the vault lists now, where one is not given.

`schema(...)` may name some of the columns, in any order: the others are not built, and readings are not decoded if none
of their columns is named (`pruning`). A filter (`where`) on the rows skips nothing in the vault: use the options.

Rows are messages with list columns (`schema.MESSAGE_SCHEMA`); `tables.readings` explodes them in the JVM. Offsets and
their rules: `offsets`. Readers are built anew in several processes, so `__init__` has no side effect.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import ArrayType, StructType

from covey.adapters.objects.location import open_existing_store
from covey.core.ids import KEY_BYTES, NODE_ID_BYTES, DeviceKey, from_hex, node_id
from covey.core.vault.reading import VaultReader
from covey.errors import ConfigurationError, MalformedError
from covey.limits.message import MAXIMUM_COUNTER
from covey_ingest.key_file import read_key_file
from covey_ingest.manifest_memory import FolderMemory
from covey_ingest.offsets import Offset, Position, Work, latest_offset, nodes_of, ranges
from covey_ingest.pruning import ChosenNodes, Selection
from covey_ingest.reading import work_rows
from covey_ingest.repairs import Prober
from covey_ingest.rows import Verify
from covey_ingest.schema import MESSAGE_SCHEMA
from covey_ingest.vaults import FollowedVault, VaultPlace, Vaults, together, unqualified

FORMAT = "covey"
SEGMENTS_PER_TRIGGER = 256
_OFFSETS = ("startingOffsets", "endingOffsets")
_OPTIONS = (
    *("path", "keyFile", "verify", "maxSegmentsPerTrigger", "maxBytesPerTrigger"),
    *("manifestMemory", "failedSegments", "receivedSince", "receivedUntil", "nodes", "otherVaults", "homeVault"),
    *_OFFSETS,
)
_MOMENTS = ("receivedSince", "receivedUntil")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options, checked."""

    vault: str
    key_file: Path
    verify: Verify = Verify.ALL
    segments_per_trigger: int = SEGMENTS_PER_TRIGGER
    memory: Path | None = None
    bytes_per_trigger: int | None = None
    failed: Path | None = None
    received_us: tuple[int, int] = (0, MAXIMUM_COUNTER)
    nodes: frozenset[str] = frozenset()
    others: tuple[VaultPlace, ...] = ()
    home: str = ""
    offsets: tuple[Offset | None, ...] = (None, None)

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
                raise ConfigurationError(f"option {name} is missing", hint='see pydoc "covey_ingest.source"')
        try:
            verify = Verify(given.get("verify", Verify.ALL))
        except ValueError:
            raise ConfigurationError(
                f"option verify is {given['verify']!r}", hint="it is all, sample or none"
            ) from None
        segments = _number(given, "maxSegmentsPerTrigger", 1_000_000) or SEGMENTS_PER_TRIGGER
        size = _number(given, "maxBytesPerTrigger", 2**50)
        memory, failed = (
            Path(given[name]) if given.get(name) else None for name in ("manifestmemory", "failedsegments")
        )
        received = _moment(given, _MOMENTS[0], 0), _moment(given, _MOMENTS[1], MAXIMUM_COUNTER)
        nodes = frozenset([_node(text.strip()) for text in given["nodes"].split(",")] if "nodes" in given else [])
        others, home = _others(given), given.get("homevault", "")
        if others and not home:
            raise ConfigurationError("option homeVault is missing", hint="otherVaults needs it")
        offsets, place = tuple(_offset(given, name) for name in _OFFSETS), (given["path"], Path(given["keyfile"]))
        return cls(*place, verify, segments, memory, size, failed, received, nodes, others, home, offsets)

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
        for name, moment_us, otherwise in zip(_MOMENTS, self.received_us, (0, MAXIMUM_COUNTER), strict=True):
            if moment_us != otherwise:
                options[name] = (_EPOCH + timedelta(microseconds=moment_us)).isoformat()
        if self.nodes:
            options["nodes"] = ",".join(sorted(self.nodes))
        if self.others:
            options["otherVaults"] = json.dumps([[place.vault, str(place.key_file)] for place in self.others])
        if self.home:
            options["homeVault"] = self.home
        for name, offset in zip(_OFFSETS, self.offsets, strict=True):
            if offset is not None:
                options[name] = json.dumps(offset)
        files = {"manifestMemory": self.memory, "failedSegments": self.failed}
        return options | {name: str(path) for name, path in files.items() if path is not None}

    def settled(self, memory: Path, failed: Path) -> SourceOptions:
        """Return these for a stream that keeps its memory there: checked, with paths that hold in any folder.

        Raises:
            ConfigurationError: one is not of its kind.
        """
        first, *others = [place.absolute() for place in self.places]
        alone = replace(self, vault=first.vault, key_file=first.key_file, memory=memory, failed=failed, others=())
        return replace(SourceOptions.parse(alone.to_options()), others=tuple(others))

    @property
    def places(self) -> tuple[VaultPlace, ...]:
        """Return where all the vaults lie."""
        return VaultPlace(self.vault, self.key_file), *self.others

    def open(self, place: VaultPlace) -> VaultReader:
        """Read the key file and return the vault's reader.

        Raises:
            ConfigurationError: the key file or the vault is not there, or not as it should be.
        """
        keys = read_key_file(place.key_file)
        store = open_existing_store(place.vault)
        memory = None
        if self.memory:
            own = keys.vault_id.hex()
            memory = FolderMemory(self.memory if own == (self.home or own) else self.memory / own)
        if self.nodes:
            return ChosenNodes(self.nodes, store, keys, memory)
        return VaultReader(store, keys, memory)

    def open_all(self) -> Vaults:
        """Return all the vaults.

        Raises:
            ConfigurationError: one is not as it should be, or there twice.
        """
        return Vaults([(place, self.open(place)) for place in self.places], self.home)


def _others(given: Mapping[str, str]) -> tuple[VaultPlace, ...]:
    """Return the further vaults."""
    try:
        found = [(str(vault), str(key_file)) for vault, key_file in json.loads(given.get("othervaults", "[]"))]
    except (ValueError, TypeError):
        raise ConfigurationError("option otherVaults is no JSON list of [path, keyFile]") from None
    return tuple(VaultPlace(vault, Path(key_file)) for vault, key_file in found)


def _number(given: Mapping[str, str], name: str, most: int) -> int | None:
    """Return a numeric option, or None where it is not given."""
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or not 1 <= int(text) <= most:
        raise ConfigurationError(f"option {name} is {text[:40]!r}", hint=f"a number from 1 to {most}")
    return int(text)


def _moment(given: Mapping[str, str], name: str, otherwise: int) -> int:
    """Return a moment in microseconds since 1970."""
    text = given.get(name.lower())
    if text is None:
        return otherwise
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigurationError(
            f"option {name} is {text[:40]!r}", hint="a moment and its zone, such as 2026-11-20T06:00:00Z"
        )
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _offset(given: Mapping[str, str], name: str) -> Offset | None:
    """Return an offset of the stream, or None where it is not given."""
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        offset = {str(node): [*fields] for node, fields in json.loads(text).items()}
        for node in nodes_of(offset):
            Position.of(offset, node)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ConfigurationError(
            f"option {name} is {text[:40]!r}", hint="an offset of the stream, as JSON: see covey_ingest.offsets"
        ) from None
    return offset


def _node(text: str) -> str:
    """Return the node that an id or a collector's signing key names."""
    try:
        if len(text) == 2 * KEY_BYTES:
            return node_id(DeviceKey(from_hex(text, KEY_BYTES))).hex()
        return from_hex(text, NODE_ID_BYTES).hex()
    except MalformedError:
        raise ConfigurationError(
            f"option nodes names {text[:80]!r}",
            hint="`node` or `collector` of the rows: lower-case hex, several with commas between them",
        ) from None


def _columns(asked: StructType) -> pa.Schema:
    """Return those columns of `MESSAGE_SCHEMA` that a schema asks for, in its order, as Spark will take them.

    Raises:
        ConfigurationError: one that there is not, of another type, or never null where it may be.
    """
    own = from_arrow_schema(MESSAGE_SCHEMA)
    fields = []
    for field in asked:
        if field.name not in own.names:
            raise ConfigurationError(f"no column {field.name}", hint=f"the columns are {', '.join(own.names)}")
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

    @classmethod
    def planned(cls, vaults: Vaults, works: Iterable[Work]) -> list[InputPartition]:
        """Return tasks for what was planned over some vaults: each in one of them."""
        return [cls(vaults.place(work.node), replace(work, node=unqualified(work.node))) for work in works]


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
        if options.offsets != (None, None):
            raise ConfigurationError(
                "startingOffsets and endingOffsets are for read, not for readStream", hint="leave them out"
            )
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
        return Segments.planned(vaults, self._wanted.works(ranges(vaults, start or {}, end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(self._options, self._wanted, partition)


class VaultStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of segments; the planning half lives in one process of the driver, for the query's life."""

    def __init__(self, options: SourceOptions, columns: pa.Schema = MESSAGE_SCHEMA) -> None:
        self._options = options
        self._wanted = Selection(columns, *options.received_us)
        self._followed = [FollowedVault(place, options.open) for place in options.places]
        self._prober = Prober(options.failed)
        self._until: Offset | None = None
        self._nodes: list[str] = []

    def _vaults(self) -> Vaults:
        return Vaults([(each.place, each.reader()) for each in self._followed], self._options.home)

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
        vaults = self._vaults()
        own, others = vaults.divided(start)
        end = latest_offset(vaults, own, segments, self._until, size, self._prober.whole(vaults))
        self._nodes = nodes_of(end)
        return together(end, others)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return how far the manifests that were looked at reach: what is between is the lag. Reads nothing."""
        vaults = self._vaults()
        held = {node: vaults.held(node) for node in self._nodes}
        return {
            node: Position(manifest.manifest_seq, manifest.last_number).to_json()
            for node, manifest in held.items()
            if manifest is not None
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of an AvailableNow query at what the vault lists now."""
        self._until = latest_offset(self._vaults(), {}, None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a micro-batch's tasks."""
        vaults = self._vaults()
        return Segments.planned(vaults, self._wanted.works(ranges(vaults, start, end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(self._options, self._wanted, partition)


@cache
def _spare_imports() -> None:
    """Keep what a worker has imported out of garbage collection: PySpark's daemon collects after every task."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == "pyspark.daemon":
        gc.freeze()


def _read(options: SourceOptions, wanted: Selection, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Open, verify and decode a task's segments. A store that fails raises, so that Spark tries again."""
    _spare_imports()
    if isinstance(partition, Segments):  # not Spark's own empty partition for an empty plan
        yield from work_rows(options.open(partition.place), partition.work, options.verify, wanted)


def register(spark: SparkSession) -> None:
    """Make `format("covey")` known to a session."""
    spark.dataSource.register(CoveySource)
