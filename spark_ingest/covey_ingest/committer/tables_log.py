"""The tables' logs: which run committed what, and how much of the vault the tables contain.

    covey.json                       the identity of these tables and of their vaults; the number of the last run
    readings/_delta_log/…N.json      the commit of a micro-batch: its files, `txn` with its number, and `covey.offset`,
                                     the position in the vault after it

1. A micro-batch is committed with its offset, by the one entry of `readings`. There is no other checkpoint: a new run
   continues at the offset of the last entry that has one, on whatever machine. The state after that micro-batch has it
   as well (`tables_state`), because a log keeps its entries for a month.
2. The other tables are added before `readings`. Rows there of micro-batches that `readings` lacks are from a killed
   run, or `readings` was restored from a backup: the next run replaces them, in one commit.
3. A run takes its number by a conditional put, creates all missing tables and writes its number into all logs (rule 6
   of `delta_log`). So of two drivers that both believe that they write, only the later one does. Where the logs name
   a later run than `covey.json`, that file was restored from a backup: the new run goes by the logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from covey.core.ids import VaultId
from covey.errors import ConfigurationError, ConflictError, StorageError
from covey.limits.tables import MAXIMUM_LOG_ENTRY_BYTES
from covey_ingest.committer.copies import Copies
from covey_ingest.committer.delta_files import removed, sizes_of
from covey_ingest.committer.delta_log import STATE_TABLES, DeltaLog
from covey_ingest.committer.table_locations import MARK, NOTED, TableLocation
from covey_ingest.task.writing import PlacedFile

if TYPE_CHECKING:
    from covey_ingest.committer.delta_files import Action

Offset = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """Which tables they are, and their vaults, in hex, the home vault first (`vaults`)."""

    ingest: str
    vaults: tuple[str, ...]

    @property
    def home(self) -> str:
        """The vault that the tables were filled from first."""
        return self.vaults[0]


_OFFSET = "covey.offset"
_LAYOUT = 1
_MARK_BYTES = 4096


class TablesLog:
    """The logs below a URL, for one run of the ingest."""

    def __init__(self, location: TableLocation, vault_ids: Sequence[VaultId] | None, root: Path) -> None:
        """Take the prefix, and the number of this run (rule 3); `root` is the driver's own folder.

        Without `vault_ids`, those of the vaults that the tables are filled from.

        Raises:
            ConfigurationError: it is other vaults', or holds something else.
            StorageError: the store refused, or was not reached.
        """
        self._location = location
        copies = Copies(location)
        found = [*copies.documents(restores=True, keys=[MARK])]
        binding, self.run = _begun(location, copies, vault_ids)
        found += copies.documents(restores=True, keys=[NOTED])  # people may have laid it into an empty folder
        self._binding = binding
        self.home = binding.home
        self.delta = DeltaLog(root, binding.ingest, location, self.run)
        self.delta.found += found
        self._left: dict[str, dict[str, int]] = {}
        self.done = -1
        """The last micro-batch that is committed."""
        self.offset: Offset = {}
        """Up to where the vault is in the tables."""

    def take_over(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Go on where the last run ended, which can add nothing any more from here on; `schemas` are all tables'.

        Raises:
            ConfigurationError: yet another run has begun.
            StorageError: a log refused.
        """
        self._pass_by(schemas)
        for name, schema in schemas.items():
            self.delta.take_over(name, schema)
        self.done = self.delta.done("readings")
        for name in schemas:
            if self.delta.done(name) > self.done:  # rule 2
                self._left[name] = {
                    path: size for path, size in self.files(name).items() if _batch_of(path) > self.done
                }

    def _pass_by(self, tables: Iterable[str]) -> None:
        """Take a higher number where the logs name later runs (rule 3)."""
        latest = max(map(self.delta.last_run, (*tables, *STATE_TABLES)))
        if latest < self.run:
            return
        try:
            self.delta.copies.replace(MARK, _mark(self._binding, latest + 1), _mark(self._binding, self.run))
        except ConflictError as error:
            raise _another(self._location.name) from error
        self.run = self.delta.run = latest + 1

    def check_last(self) -> None:
        """Make sure that no other run has taken its number since this one did.

        Raises:
            ConfigurationError: one has.
            StorageError: the store refused, or was not reached.
        """
        mark = self._location.store.get(MARK, _MARK_BYTES)
        if mark != _mark(self._binding, self.run):
            raise _another(self._location.name)

    def drop_left(self) -> None:
        """Take what a killed run has left out of the tables (rule 2), for who adds nothing in its place.

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: a log refused.
        """
        for name in sorted(self._left):
            left = self._left.pop(name)
            if left:
                self.delta.append(name, self.done + 1, removed(left, changes_data=True))

    def commit(self, number: int, files: Mapping[str, list[PlacedFile]], offset: Offset) -> None:
        """Commit a micro-batch (rules 1 and 2): its files by their tables.

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: a log refused, or a file is not there any more.
        """
        for name in sorted(files):
            for file in files[name]:
                if self._location.store.size(f"{name}/{file.key}") != file.size:
                    raise StorageError(
                        f"the file {name}/{file.key} is not in {self._location.name} any more",
                        hint="check the disk or the store; nothing is lost: start again, and it is written again",
                    )
        for name in sorted({*files, *self._left} - {"readings"}):
            added, left = files.get(name, []), self._left.pop(name, {})
            if added or left:
                self.delta.append(name, number, [*removed(left, changes_data=True), *map(_added, added)])
        self.delta.append("readings", number, [*map(_added, files.get("readings", []))], _note(offset))
        self.done, self.offset = number, offset

    def maintain(self) -> None:
        """Merge small files and delete what is old, where that is due, but not what is still to be replaced (rule 2).

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: a log refused.
        """
        if not self._left:
            self.delta.maintain()

    def files(self, name: str) -> dict[str, int]:
        """Return the paths of a table's files within it, and their sizes.

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: a log refused.
        """
        return sizes_of(self.delta.table(name))

    def offset_in_log(self) -> Offset:
        """Return the offset in the last entry that has one (rule 1).

        Raises:
            ConfigurationError: none has, or another run of the ingest has begun.
            StorageError: the store refused, or was not reached.
        """
        for entry in range(self.delta.table("readings").version(), -1, -1):
            key = f"readings/_delta_log/{entry:020}.json"
            content = self._location.store.get(key, MAXIMUM_LOG_ENTRY_BYTES)
            if content is None:
                break
            for line in content.splitlines():
                noted = json.loads(line).get("commitInfo", {}).get(_OFFSET)
                if noted is not None:
                    return dict(json.loads(noted))
        raise ConfigurationError(
            f"the log at {self._location.uri('readings')} no longer says how much of the vault the tables contain",
            hint="fill new tables at another prefix: the vault still has all readings",
        )


def _begun(location: TableLocation, copies: Copies, vault_ids: Sequence[VaultId] | None) -> tuple[Binding, int]:
    """Return the tables' binding, and the number of this run; new vaults are added (`binding`)."""
    found = location.store.get(MARK, _MARK_BYTES)
    if found is None and not location.store.is_empty():
        raise ConfigurationError(f"{location.name} is not empty", hint="choose a prefix used by nothing else")
    named = [vault_id.hex() for vault_id in vault_ids or ()]
    binding, run = (Binding(uuid4().hex, (named[0],)), 0) if found is None else _read_mark(location.name, found)
    if vault_ids is not None and {*binding.vaults}.isdisjoint(named):
        raise ConfigurationError(
            f"the tables at {location.name} were filled from another vault", hint="choose another prefix for this vault"
        )
    binding = Binding(binding.ingest, tuple(dict.fromkeys([*binding.vaults, *named])))
    try:
        copies.replace(MARK, _mark(binding, run + 1), found)
    except ConflictError as error:
        raise _another(location.name) from error
    return binding, run + 1


def _batch_of(path: str) -> int:
    """Return the micro-batch of a file, or -1 for merged ones."""
    folder, _, number = path.partition("/")[0].partition("=")
    return int(number) if folder == "batch" else -1


def _mark(binding: Binding, run: int) -> bytes:
    mark = {"layout": _LAYOUT, "ingest": binding.ingest, "vaults": binding.vaults, "run": run}
    return json.dumps(mark).encode()


def _another(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"another engine has started to write the tables at {url}", hint="run only one: stop it, then restart this one"
    )


def _read_mark(url: str, content: bytes) -> tuple[Binding, int]:
    try:
        mark = json.loads(content)
        if mark["layout"] != _LAYOUT:
            raise ConfigurationError(f"a newer Covey wrote the tables at {url}", hint="upgrade Covey on this machine")
        binding = Binding(str(mark["ingest"]), tuple(map(str, mark["vaults"])))
        return binding, int(mark["run"]) if binding.home else 0
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ConfigurationError(
            f"{url}/{MARK} is damaged", hint="restore it from a backup: it names the vault of these tables"
        ) from error


def _note(offset: Offset) -> dict[str, str]:
    return {_OFFSET: json.dumps(offset, sort_keys=True, separators=(",", ":"))}


def _added(file: PlacedFile) -> Action:
    from deltalake.transaction import AddAction

    return AddAction(file.key, file.size, {}, file.came_ms, True, file.statistics)
