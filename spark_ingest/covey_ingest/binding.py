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

_LAYOUT = 1
"""Of tables and checkpoint. Raise it where earlier code would go wrong."""


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
        """Return the files' content."""
        about = {"ingest": self.ingest, "vault_id": self.home, "vaults": list(self.vaults), "layout": _LAYOUT}
        return json.dumps(about).encode()


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
    """Return what binds; None where there is no file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= {"ingest", "vault_id", "vaults", "layout"}:
        raise ConfigurationError(f"{path} is damaged", hint="restore it: it binds tables and checkpoint together")
    layout = found["layout"]
    if not isinstance(layout, int) or layout > _LAYOUT:
        raise ConfigurationError(
            f"{path.parent} was written by a newer Covey (layout {str(layout)[:20]})",
            hint="upgrade covey here, or give new tables and a new checkpoint",
        )
    vaults = dict.fromkeys([str(found["vault_id"]), *map(str, found["vaults"])])
    return Binding(str(found["ingest"]), tuple(vaults))
