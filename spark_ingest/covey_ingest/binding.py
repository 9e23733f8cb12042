"""Which checkpoint and which vaults tables belong to: `covey.json` in the tables' folder and in the checkpoint's.

Batch numbers of another checkpoint, and offsets of another vault, would be mistaken for these. So both files say the
same, at first use for good:

1. The *home* vault is the one that the tables were filled from first (`vaults`). Further ones may join, and are never
   taken out: an offset goes on naming them.
2. Whoever names vaults names one at least that is theirs; the others join.
3. The checkpoint's file is written first. A kill in between leaves tables that know fewer vaults, and no harm.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.files import replace_file
from covey.core.ids import VaultId
from covey.errors import ConfigurationError
from covey_ingest.table_locations import MARK

_LAYOUT = 3
"""Of tables and checkpoint; a file without it is 1. Raise it where earlier code would go wrong: from 2 on offsets name
what is read again; in 3, of several vaults, whose nodes they are."""
_OF_ONE_VAULT = 2


@dataclass(frozen=True, slots=True)
class Binding:
    """Which ingest it is, and its vaults, in hex, the home vault first."""

    ingest: str
    vaults: tuple[str, ...]

    @property
    def home(self) -> str:
        """The vault that the tables were filled from first."""
        return self.vaults[0]

    def to_json(self) -> bytes:
        """Return what stands in the files: of one vault as an earlier Covey writes and reads it."""
        several = {"vaults": list(self.vaults)} if len(self.vaults) > 1 else {}
        layout = _LAYOUT if several else _OF_ONE_VAULT
        return json.dumps({"ingest": self.ingest, "vault_id": self.home, **several, "layout": layout}).encode()


def bind(tables: Path, checkpoint: Path, vault_ids: Sequence[VaultId]) -> Binding:
    """Bind tables, checkpoint and vaults together.

    Raises:
        ConfigurationError: they were bound otherwise, or by a newer Covey; nothing was written.
    """
    here, there = tables / MARK, checkpoint / MARK
    named = [vault_id.hex() for vault_id in vault_ids]
    binding = _read(there) or Binding(uuid.uuid4().hex, (named[0],))
    standing = _read(here) or binding
    known = dict.fromkeys([*binding.vaults, *standing.vaults])
    if (standing.ingest, standing.home) != (binding.ingest, binding.home) or known.keys().isdisjoint(named):
        raise ConfigurationError(
            f"the tables at {tables} were filled from another checkpoint or vault",
            hint="give the checkpoint that belongs to them, or new tables and a new checkpoint",
        )
    binding = Binding(binding.ingest, tuple(dict.fromkeys([*known, *named])))
    content = binding.to_json()
    for path in (there, here):
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content, 0o666)
    return binding


def _read(path: Path) -> Binding | None:
    """Return what binds, whatever layout it stands in."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= {"ingest", "vault_id"}:
        raise ConfigurationError(f"{path} is damaged", hint="restore it: it binds tables and checkpoint together")
    layout = found.get("layout", 1)
    if not isinstance(layout, int) or layout > _LAYOUT:
        raise ConfigurationError(
            f"{path.parent} was written by a newer Covey (layout {str(layout)[:20]})",
            hint="upgrade covey here, or give new tables and a new checkpoint",
        )
    vaults = dict.fromkeys([str(found["vault_id"]), *map(str, found.get("vaults", ()))])
    return Binding(str(found["ingest"]), tuple(vaults))
