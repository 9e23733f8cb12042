"""A credential in a file: wrapped where Covey writes it (`storage_key.py`), as it is where the owner wrote it.

A wrapped file is one line, the word `covey-wrapped-1` and base64. No password begins like that, and no PEM file.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.keys.key_file import read_secret, write_secret
from covey.errors import DecryptionError

if TYPE_CHECKING:
    from pathlib import Path

    from covey.adapters.keys.storage_key import StorageKey

_HEAD = b"covey-wrapped-1 "
_FILE = "file"


def write_wrapped(path: Path, content: bytes, storage_key: StorageKey, name: str) -> None:
    """Replace a credential durably; it is bound to `name`, so that it does not open in another credential's place.

    Raises:
        StorageError: the disk refused.
    """
    write_secret(path, _HEAD + base64.b64encode(storage_key.wrap(content, _FILE, name)) + b"\n")


def is_wrapped(path: Path, maximum: int) -> bool:
    """Say whether Covey wrote the file.

    Raises:
        ConfigurationError, StorageError: as of `read_secret`.
    """
    return _raw(path, maximum).startswith(_HEAD)


def read_wrapped(path: Path, maximum: int, storage_key: StorageKey, name: str) -> bytes:
    """Return a credential of at most `maximum` bytes; nothing, and a report, where it is damaged or another device's.

    Raises:
        ConfigurationError, StorageError: as of `read_secret`.
    """
    raw = _raw(path, maximum)
    if not raw.startswith(_HEAD):
        return raw
    try:
        return storage_key.unwrap(base64.b64decode(raw[len(_HEAD) :].strip(), validate=True), _FILE, name)
    except (ValueError, DecryptionError):
        report("error", f"{path} is damaged or another device's; write it again: covey relay set, or covey relay add")
        return b""


def _raw(path: Path, maximum: int) -> bytes:
    return bytes(read_secret(path, 2 * maximum))
