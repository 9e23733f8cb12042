"""`deletions.json`: the deletions from tables, kept next to them so that deleted rows do not return.

    {"layout": 1, "authors": {"5f1c…": 1795176000000000}, "kept_since": 1760000000000000}

1. Everything that a collector received from an author until that moment (in microseconds since 1970) is deleted, and
   refused from then on. Later messages are accepted as usual. This includes labels in manifests. `kept_since` does the
   same for readings, losses and quarantine of all authors.
2. A message is judged by when a collector received it, and one with a disciplined clock by its newest reading as well,
   so that a copy which another collector lands a year later is recognised. With an unreliable clock only the arrival
   counts.
3. It is written before anything is deleted: repeating an interrupted command deletes the rest.
4. Message numbers stay (`.numbers`): they reveal no measurement, and prevent false gaps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey.adapters.files import replace_file
from covey.core.ids import KEY_BYTES, from_hex
from covey.errors import ConfigurationError, RemoteError
from covey.limits.tables import DELETED_AUTHORS
from covey_ingest.task.schema import RowKind
from covey_ingest.task.time_quality import TimeQuality

NAME = "deletions.json"
_LAYOUT = 1
_AGED = (RowKind.TELEMETRY, RowKind.SUMMARY, RowKind.LOSS, RowKind.QUARANTINE)
_OF_DEVICES = (*_AGED, RowKind.RESULT, RowKind.SETTING, RowKind.MEMBERSHIP)
_NEVER = 2**63 - 1

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Deletions:
    """Until when whose rows are gone."""

    authors: Mapping[str, int] = field(default_factory=dict)
    kept_since_us: int = 0

    def with_author(self, author: str, until_us: int) -> Deletions:
        """Return them with one more author, in hex.

        Raises:
            ConfigurationError: there are `DELETED_AUTHORS` already.
        """
        authors = {**self.authors, author: max(until_us, self.authors.get(author, 0))}
        if len(authors) > DELETED_AUTHORS:
            raise ConfigurationError(
                f"more than {DELETED_AUTHORS} devices were deleted from these tables",
                hint="fill new tables from the vault, starting with an empty deletions.json",
            )
        return replace(self, authors=authors)

    def with_bound(self, kept_since_us: int) -> Deletions:
        """Return them with a later moment before which nothing is kept; it never goes back."""
        return replace(self, kept_since_us=max(kept_since_us, self.kept_since_us))

    def to_bytes(self) -> bytes:
        """Return the document."""
        said = {"layout": _LAYOUT, "authors": dict(self.authors), "kept_since": self.kept_since_us}
        return json.dumps(said, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes, path: object) -> Self:
        """Read the document; `path` says where it stood.

        Raises:
            ConfigurationError: it is damaged, or a newer Covey has written it: what was deleted could come back.
        """
        try:
            found = json.loads(content)
            if found["layout"] != _LAYOUT:
                raise ConfigurationError(f"a newer Covey wrote {path}", hint="upgrade Covey on this machine")
            authors = {str(author): int(until_us) for author, until_us in found["authors"].items()}
            for author in authors:
                from_hex(author, KEY_BYTES)
            return cls(authors, int(found["kept_since"]))
        except (RemoteError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{path} is damaged", hint="restore it from a backup: without it, deleted readings would come back"
            ) from error

    def admitted(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return the source's rows without deleted ones, which stay out."""
        refused = None
        if self.kept_since_us:
            refused = _of_kinds(messages, _AGED) & _until(messages, self.kept_since_us - 1)
        if self.authors:
            until = [self.authors.get(author, -1) for author in messages["author"].to_pylist()]
            of_author = _of_kinds(messages, _OF_DEVICES) & _until(messages, np.array(until, np.int64))
            refused = of_author if refused is None else refused | of_author
        return messages if refused is None else messages.filter(pa.array(~refused))


def _of_kinds(messages: pa.RecordBatch, kinds: tuple[RowKind, ...]) -> Mask:
    among: Mask = _plain(pc.is_in(messages["kind"], pa.array([kind.value for kind in kinds])))
    return among


def _until(messages: pa.RecordBatch, moment_us: int | npt.NDArray[np.int64]) -> Mask:
    """Return for each row whether it is from that moment or before (rule 2)."""
    received = pc.fill_null(messages["received_at"].cast(pa.int64()), _NEVER)
    disciplined = pc.fill_null(pc.equal(messages["time_quality"], TimeQuality.SYNCHRONISED.value), False)
    times = messages["times"]
    newest = np.full(len(times), _NEVER, np.int64)
    filled = _plain(pc.list_value_length(times)) > 0
    if filled.any():
        lengths = _plain(pc.list_value_length(times))[filled]
        flat = pc.list_flatten(times).cast(pa.int64()).to_numpy()
        newest[filled] = np.maximum.reduceat(flat, np.cumsum(lengths) - lengths)
    until: Mask = (_plain(received) <= moment_us) | (_plain(disciplined) & (newest <= moment_us))
    return until


def _plain(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False)


def path_in(tables: Path) -> Path:
    """Return where they stand."""
    return tables / NAME


def read(tables: Path) -> Deletions:
    """Return what was deleted from tables.

    Raises:
        ConfigurationError: it is damaged, or a newer Covey has written it: what was deleted could come back.
    """
    path = path_in(tables)
    return Deletions.from_bytes(path.read_bytes(), path) if path.exists() else Deletions()


def write(tables: Path, deletions: Deletions) -> None:
    """Replace it, durably. Raises OSError."""
    replace_file(path_in(tables), deletions.to_bytes(), 0o666)
