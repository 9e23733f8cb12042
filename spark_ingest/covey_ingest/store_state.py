"""What the driver has computed of tables in an object store, beside their logs: a run anywhere goes on from it.

    state/<micro-batch>-<run>.zip   what stands in the driver's folder after that micro-batch, but for files of tables;
                                    and in `offset.json` up to where the vault is in the tables

1. It is one object, put whole, after its micro-batch is committed: a run finds all of one moment or none of it.
2. It follows from the tables. What micro-batches after it brought is read from the tables by who begins
   (`store_tables`); without any state, all of them are.
3. The newest one is kept. Files are merged after it has been put, and never those of later micro-batches: these are
   asked for by name.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from covey.errors import StorageError
from covey_ingest.table_locations import Bucket

_FOLDER = "state"
_OFFSET = "offset.json"
_KEPT = (".numbers", ".ordered", ".failed", "clocks", "devices", "gaps", "members", "covey-manifests")


def put(bucket: Bucket, root: Path, number: int, run: int, offset: dict[str, Any]) -> None:
    """Put the state of a folder after a micro-batch, and the offset then, and remove earlier ones.

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
    bucket.store.upload(key, packed)
    packed.unlink()
    old = [found for found in bucket.store.keys(f"{_FOLDER}/") if found < key]
    if old:
        bucket.store.discard(old)


def fetch(bucket: Bucket, root: Path) -> tuple[int, dict[str, Any]]:
    """Lay the newest state into a folder; return its micro-batch, or -1, and its offset.

    Raises:
        StorageError: the store refused, or was not reached.
        OSError: the disk did.
    """
    found = [*bucket.store.keys(f"{_FOLDER}/")]
    if not found:
        return -1, {}
    packed = root / "state.zip"
    bucket.store.download(found[-1], packed)
    try:
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(root)
        offset = json.loads((root / _OFFSET).read_bytes())
    except (zipfile.BadZipFile, ValueError, FileNotFoundError) as error:
        raise StorageError(
            f"{bucket.url}/{found[-1]} is damaged", hint="delete it: it is made anew from the tables"
        ) from error
    packed.unlink()
    return int(found[-1].removeprefix(f"{_FOLDER}/").partition("-")[0]), dict(offset)
