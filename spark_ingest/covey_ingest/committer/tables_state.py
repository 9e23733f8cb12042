"""The committer's derived state of the tables, next to their logs: the next run, on any machine, starts from it.

    state/<micro-batch>-<run>.zip   the committer's folder after that micro-batch, without files of tables; and in
                                    `offset.json` up to where the vault is in the tables

1. It is one object, stored whole after its micro-batch is committed: a run finds all of one moment or none of it.
2. It is derived from the tables. The next run reads later micro-batches from the tables (`tables`); without any state,
   or with a damaged one, it reads all of them.
3. The newest one is kept; earlier ones are removed once it was read back. Files are merged after it has been stored,
   and never those of later micro-batches, for which the next run asks by name. An earlier one, as an old listing shows
   it, would miss the merged rows: the logs say from which one on a state is good enough (`DeltaLog.rewritten`).
"""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import Any

from covey_ingest.committer.table_locations import TableLocation

_FOLDER = "state"
_OFFSET = "offset.json"
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    KeyError,
    RuntimeError,  # and NotImplementedError
    FileNotFoundError,
)
"""What zipfile and json raise for whatever a disk makes of an archive."""
_KEPT = (".numbers", ".ordered", ".failed", "clocks", "devices", "gaps", "members", "covey-manifests")


def put(location: TableLocation, root: Path, number: int, run: int, offset: dict[str, Any]) -> None:
    """Put the state of a folder after a micro-batch, with the offset then, and remove earlier ones.

    Raises:
        StorageError: the store refused, or was not reached.
        OSError: the disk did.
    """
    packed = root / "state.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_OFFSET, json.dumps(offset))
        for path in sorted(path for name in _KEPT for path in (root / name).glob("*") if path.is_file()):
            archive.write(path, path.relative_to(root))
    key = f"{_FOLDER}/{number:020}-{run:010}.zip"
    location.store.upload(key, packed)
    packed.unlink()
    old = [found for found in location.store.keys(f"{_FOLDER}/") if found < key]
    if old:
        location.store.discard(old)


def fetch(location: TableLocation, root: Path, usable: range) -> tuple[int, dict[str, Any]]:
    """Lay the newest state of these micro-batches into a folder; return its number, or -1, and its offset.

    A damaged one is passed over, for the reading may be what is wrong: the next one replaces it (rule 2).
    Later ones are removed: the logs were restored from a backup, and will have other micro-batches of these numbers.

    Raises:
        StorageError: the store refused, or was not reached.
        OSError: the disk did.
    """
    every = [*location.store.keys(f"{_FOLDER}/")]
    found = [key for key in every if _number_of(key) < usable.stop]
    if len(found) < len(every):
        location.store.discard(every[len(found) :])
    if not found or _number_of(found[-1]) < usable.start:
        return -1, {}
    packed = root / "state.zip"
    location.store.download(found[-1], packed)
    try:
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(root)
        offset = json.loads((root / _OFFSET).read_bytes())
    except _DAMAGED:
        for name in (*_KEPT, _OFFSET):
            _remove(root / name)
        return -1, {}
    finally:
        packed.unlink()
    return _number_of(found[-1]), dict(offset)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _number_of(key: str) -> int:
    return int(key.removeprefix(f"{_FOLDER}/").partition("-")[0])
