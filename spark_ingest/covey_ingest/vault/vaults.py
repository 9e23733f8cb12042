"""Several vaults, followed as one by the planning half of the source. Needs no Spark.

1. A vault is identified by its id, not its place. A mirror is the same vault: naming both is refused, but either may be
   read at each start.
2. Each vault keeps its own positions. In offsets and plans a node of the *home* vault, from which the tables were
   filled first, goes by its id; one of another vault by `<vault id>/<node id>`, as a collector may land in two.
3. A store that does not answer delays only its own vault, whose nodes report `trouble`; if none answers, that raises.
4. A vault that is no longer named keeps its place in the offset, and continues from there when it is named again. Only
   a micro-batch that was planned with it waits until then.
5. A message in two vaults is in the tables once, with the vault that it was read from first: `dedup` finds repetitions
   by the message itself, and another vault may fill one vault's gaps (`gaps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.objects.location import absolute_location
from covey.core.ids import VaultId
from covey.core.vault.documents import SegmentEntry, VaultManifest
from covey.core.vault.reading import Floor, Trouble, VaultReader
from covey.errors import ConfigurationError, StorageError
from covey_ingest.vault.offsets import REREAD, Offset


@dataclass(frozen=True, slots=True)
class VaultPlace:
    """Where a vault lies, and the file with its keys."""

    vault: str
    key_file: Path

    def absolute(self) -> VaultPlace:
        """Return it as an absolute path."""
        return VaultPlace(absolute_location(self.vault), self.key_file.absolute())


def qualified(vault_id: str, node: str, home: str) -> str:
    """Return a node's name in offsets (rule 2); ids in hex."""
    return node if vault_id in ("", home) else f"{vault_id}/{node}"


def unqualified(name: str) -> str:
    """Return the node's id in hex."""
    return name.rpartition("/")[2]


class FollowedVault:
    """A vault's reader, opened again when its key file is another one: a rotated key is taken up without a restart."""

    def __init__(self, place: VaultPlace, opened: Callable[[VaultPlace], VaultReader]) -> None:
        self.place = place
        self._open = opened
        self._reader: VaultReader | None = None
        self._written_ns = 0

    def reader(self) -> VaultReader:
        """Return the reader.

        Raises:
            ConfigurationError: the first time: vault or key file are not as they should be.
        """
        written_ns = _written_ns(self.place.key_file)
        if self._reader is None:
            self._reader, self._written_ns = self._open(self.place), written_ns
        elif written_ns != self._written_ns:
            with suppress(ConfigurationError):  # it is just being written, or still open to others: asked again
                self._reader, self._written_ns = self._open(self.place), written_ns
        return self._reader


class Vaults:
    """The readers of several vaults. Implements `offsets.VaultListing`, as each of them does."""

    def __init__(self, followed: Sequence[tuple[VaultPlace, VaultReader]], home: str = "") -> None:
        """Know them by their ids; `home` is the first one's where none is named.

        Raises:
            ConfigurationError: two places of one vault (rule 1).
        """
        home = home or followed[0][1].vault_id.hex()
        self._readers: dict[str, VaultReader] = {}
        self._places: dict[str, VaultPlace] = {}
        for place, reader in followed:
            vault_id = reader.vault_id.hex()
            prefix = "" if vault_id == home else vault_id
            if prefix in self._places:
                raise ConfigurationError(
                    f"{self._places[prefix].vault} and {place.vault} are the same vault ({vault_id})",
                    hint="give only one of them: a mirror has the same content",
                )
            self._places[prefix], self._readers[prefix] = place, reader

    @property
    def ids(self) -> list[VaultId]:
        """Return which vaults they are, in the order in which they were named."""
        return [reader.vault_id for reader in self._readers.values()]

    def check_keys(self) -> None:
        """Make sure that each key file is of the vault that it was named for; an empty place is any vault's.

        Raises:
            ConfigurationError: one is of another vault.
        """
        for prefix, reader in self._readers.items():
            with suppress(StorageError):  # rule 3
                if reader.is_elsewhere():
                    place = self._places[prefix]
                    raise ConfigurationError(
                        f"the key file {place.key_file} belongs to another vault than the one at {place.vault}",
                        hint="name the vault.key of that vault's collector, or a copy of it",
                    )

    def place(self, name: str) -> VaultPlace:
        """Return where the vault of a node lies."""
        return self._places[self._prefix(name)]

    def nodes(self) -> list[str]:
        """Return the names of all nodes that have a manifest.

        Raises:
            StorageError: rule 3.
        """
        found: dict[str, list[str]] = {}
        errors: list[StorageError] = []
        for prefix, reader in self._readers.items():
            try:
                found[prefix] = [qualified(prefix, node, "") for node in reader.nodes()]
            except StorageError as error:
                errors.append(error)
        if errors and not found:
            raise errors[0]
        return [name for names in found.values() for name in names]

    def manifest(self, node: str, floor: Floor) -> VaultManifest | Trouble:
        """Read a node's manifest, as `VaultReader` does."""
        return self._reader(node).manifest(unqualified(node), floor)

    def held(self, node: str) -> VaultManifest | None:
        return self._reader(node).held(unqualified(node))

    def has_met(self, node: str) -> bool:
        """Say whether the node's manifest was read by this process."""
        return self._reader(node).has_met(unqualified(node))

    def entries(self, node: str, manifest: VaultManifest, first: int, last: int) -> tuple[SegmentEntry, ...] | Trouble:
        """Return a node's segments of these positions."""
        return self._reader(node).entries(unqualified(node), manifest, first, last)

    def opens(self, node: str, first: int, last: int) -> bool:
        """Say whether the segments of these positions are there and whole; of a vault that is not named, never."""
        reader = self._readers.get(self._prefix(node))
        return reader is not None and reader.opens(unqualified(node), first, last)

    def divided(self, offset: Offset) -> tuple[Offset, Offset]:
        """Return the part of an offset that is of these vaults, and the one of others (rule 4)."""
        own = {name: at for name, at in offset.items() if name == REREAD or self._prefix(name) in self._readers}
        return own, {name: at for name, at in offset.items() if name not in own}

    @staticmethod
    def _prefix(name: str) -> str:
        return name.rpartition("/")[0]

    def _reader(self, name: str) -> VaultReader:
        """Return the reader of a node's vault.

        Raises:
            StorageError: rule 4.
        """
        found = self._readers.get(self._prefix(name))
        if found is None:
            raise StorageError(
                f"a planned micro-batch reads the vault {self._prefix(name) or 'that these tables began with'}",
                hint="give that vault too, until the micro-batch is written",
            )
        return found


def together(own: Offset, others: Mapping[str, list[object]]) -> Offset:
    """Return one offset of both parts, in the order that `offsets.latest_offset` gives: equal ones are equal bytes."""
    if not others:
        return own
    names = sorted(name for name in {*own, *others} if name != REREAD)
    joined = {name: own[name] if name in own else [*others[name]] for name in names}
    return joined | ({REREAD: own[REREAD]} if REREAD in own else {})


def _written_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
