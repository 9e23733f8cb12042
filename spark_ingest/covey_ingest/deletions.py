"""What was deleted from tables, so that it does not come back: `deletions.json` beside them, in a folder or a store.

    {"layout": 1, "authors": {"5f1c…": 1795176000000000}, "kept_since": 1760000000000000}

1. Of an author, whatever a collector had until that moment is gone, and is let in no more: in microseconds since 1970.
   What comes later is taken as from anybody. That goes for what manifests say of it, too: what it was called. Before
   `kept_since` it holds for readings, losses and quarantine of all.
2. A message is known by when a collector had it; and one of a disciplined clock by its newest reading as well, so that
   a copy which another collector lands a year later is known, too. One of a doubtful clock is known by its arrival
   alone: its times say nothing.
3. It is written before anything is deleted: who was interrupted deletes the rest by saying it once more.
4. Numbers of messages stay (`.numbers`): they tell nothing of what was measured, and no gap is shown for what came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from covey.adapters.files import replace_file
from covey.core.ids import KEY_BYTES, from_hex
from covey.errors import ConfigurationError, RemoteError
from covey.limits.tables import DELETED_AUTHORS
from covey_ingest.schema import RowKind
from covey_ingest.time_quality import TimeQuality

NAME = "deletions.json"
_LAYOUT = 1
_AGED = (RowKind.TELEMETRY, RowKind.LOSS, RowKind.QUARANTINE)
_OF_DEVICES = (*_AGED, RowKind.RESULT, RowKind.SETTING, RowKind.MEMBERSHIP)


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
                hint="fill new tables from the vault, and begin with an empty deletions.json",
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
                raise ConfigurationError(f"a newer Covey has written {path}", hint="upgrade covey here")
            authors = {str(author): int(until_us) for author, until_us in found["authors"].items()}
            for author in authors:
                from_hex(author, KEY_BYTES)
            return cls(authors, int(found["kept_since"]))
        except (RemoteError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{path} is damaged", hint="restore it: without it what was deleted would come back"
            ) from error

    def refused(self) -> str | None:
        """Return the condition of the source's rows that are let in no more, in Spark's SQL; None where there is none.

        It is never null.
        """
        conditions = []
        if self.kept_since_us:
            conditions.append(f"({_kinds(_AGED)} AND {_until(f'{self.kept_since_us - 1}')})")
        if self.authors:
            said = ", ".join(f"'{author}', {until_us}" for author, until_us in sorted(self.authors.items()))
            conditions.append(f"({_kinds(_OF_DEVICES)} AND {_until(f'element_at(map({said}), author)')})")
        return " OR ".join(conditions) or None


def _kinds(kinds: tuple[RowKind, ...]) -> str:
    return "kind IN ({})".format(", ".join(f"'{kind.value}'" for kind in kinds))


def _until(moment: str) -> str:
    """Return the condition that a row is of before a moment or of it (rule 2), or of none: then it is not."""
    newest = f"time_quality = '{TimeQuality.SYNCHRONISED.value}' AND unix_micros(array_max(times)) <= {moment}"
    return f"coalesce(unix_micros(received_at) <= {moment} OR ({newest}), false)"


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
