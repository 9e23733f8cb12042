"""Which vaults are read, and how: the options of `format("covey")`, which both engines take. Needs no Spark.

`spark/source.py` says what each option means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from covey.adapters.files import replace_file
from covey.adapters.objects.location import open_existing_store
from covey.core.ids import KEY_BYTES, NODE_ID_BYTES, DeviceKey, from_hex, node_id
from covey.core.vault.reading import VaultReader
from covey.errors import ConfigurationError, MalformedError
from covey.limits.message import MAXIMUM_COUNTER
from covey_ingest.task.rows import Verify
from covey_ingest.vault.key_file import read_key_file
from covey_ingest.vault.offsets import Offset, Position, nodes_of
from covey_ingest.vault.pruning import ChosenNodes
from covey_ingest.vault.vaults import VaultPlace, Vaults


class FolderMemory:
    """Implements `covey.core.vault.reading.ManifestMemory`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def load(self, node: str) -> bytes | None:
        try:
            return (self._root / node).read_bytes()
        except FileNotFoundError:
            return None

    def save(self, node: str, content: bytes) -> None:
        """Keep a manifest durably, before any offset depends on it."""
        self._root.mkdir(parents=True, exist_ok=True)
        replace_file(self._root / node, content, 0o666)


SEGMENTS_PER_TRIGGER = 256
OFFSETS = ("startingOffsets", "endingOffsets")
_OPTIONS = (
    *("path", "keyFile", "verify", "maxSegmentsPerTrigger", "maxBytesPerTrigger"),
    *("manifestMemory", "failedSegments", "receivedSince", "receivedUntil", "nodes", "otherVaults", "homeVault"),
    *OFFSETS,
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
            raise ConfigurationError(f"unknown option {name}", hint=f"known options: {', '.join(_OPTIONS)}")
        for name in ("path", "keyFile"):
            if not given.get(name.lower()):
                raise ConfigurationError(f"option {name} is missing", hint='see pydoc "covey_ingest.spark.source"')
        try:
            verify = Verify(given.get("verify", Verify.ALL))
        except ValueError:
            raise ConfigurationError(f"option verify is {given['verify']!r}", hint="use all or none") from None
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
        offsets, place = tuple(_offset(given, name) for name in OFFSETS), (given["path"], Path(given["keyfile"]))
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
        for name, offset in zip(OFFSETS, self.offsets, strict=True):
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
    try:
        found = [(str(vault), str(key_file)) for vault, key_file in json.loads(given.get("othervaults", "[]"))]
    except (ValueError, TypeError):
        raise ConfigurationError("option otherVaults must be a JSON list of [path, keyFile]") from None
    return tuple(VaultPlace(vault, Path(key_file)) for vault, key_file in found)


def _number(given: Mapping[str, str], name: str, most: int) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or not 1 <= int(text) <= most:
        raise ConfigurationError(f"option {name} is {text[:40]!r}", hint=f"give a number from 1 to {most}")
    return int(text)


def _moment(given: Mapping[str, str], name: str, otherwise: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return otherwise
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigurationError(
            f"option {name} is {text[:40]!r}", hint="give a time with its zone, such as 2026-11-20T06:00:00Z"
        )
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _offset(given: Mapping[str, str], name: str) -> Offset | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        offset = {str(node): [*fields] for node, fields in json.loads(text).items()}
        for node in nodes_of(offset):
            Position.of(offset, node)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ConfigurationError(
            f"option {name} is {text[:40]!r}", hint="an offset of the stream, as JSON: see covey_ingest.vault.offsets"
        ) from None
    return offset


def _node(text: str) -> str:
    try:
        if len(text) == 2 * KEY_BYTES:
            return node_id(DeviceKey(from_hex(text, KEY_BYTES))).hex()
        return from_hex(text, NODE_ID_BYTES).hex()
    except MalformedError:
        raise ConfigurationError(
            f"option nodes names {text[:80]!r}",
            hint="give values of the column node or collector: lower-case hex, separated by commas",
        ) from None
