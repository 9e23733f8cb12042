"""A secret in a file: wrapped where Covey writes it (`storage_key.py`), as it is where the owner wrote it.

A wrapped file is one line: the word `covey-wrapped-1` and base64. No password, PEM or JSON file begins like that.
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


def wrapped(content: bytes, storage_key: StorageKey, name: str) -> bytes:
    """Return the file of a secret. It is bound to `name`, so that it does not open in another secret's place."""
    return _HEAD + base64.b64encode(storage_key.wrap(content, _FILE, name)) + b"\n"


def unwrapped(raw: bytes | bytearray, storage_key: StorageKey, name: str) -> bytes:
    """Return the secret of a file that `wrapped` made.

    Raises:
        DecryptionError: it is damaged, another device's, or another secret's.
    """
    try:
        stored = base64.b64decode(bytes(raw[len(_HEAD) :]).strip(), validate=True)
    except ValueError as error:
        raise DecryptionError("not base64") from error
    return storage_key.unwrap(stored, _FILE, name)


def is_wrapped_content(raw: bytes | bytearray) -> bool:
    """Say whether a file's content is wrapped."""
    return raw.startswith(_HEAD)


def write_wrapped(path: Path, content: bytes, storage_key: StorageKey, name: str) -> None:
    """Replace a credential durably, bound to `name`.

    Raises:
        StorageError: the disk refused.
    """
    write_secret(path, wrapped(content, storage_key, name))


def is_wrapped(path: Path, maximum: int) -> bool:
    """Say whether Covey wrote the file.

    Raises:
        ConfigurationError, StorageError: as of `read_secret`.
    """
    return is_wrapped_content(_raw(path, maximum))


def read_wrapped(path: Path, maximum: int, storage_key: StorageKey, name: str) -> bytes:
    """Return a credential of at most `maximum` bytes; nothing, and a report, where it is damaged or another device's.

    Raises:
        ConfigurationError, StorageError: as of `read_secret`.
    """
    raw = _raw(path, maximum)
    if not is_wrapped_content(raw):
        return raw
    try:
        return unwrapped(raw, storage_key, name)
    except DecryptionError:
        report("error", f"{path} is damaged or another device's; write it again: covey relay set, or covey relay add")
        return b""


def _raw(path: Path, maximum: int) -> bytes:
    return bytes(read_secret(path, 2 * maximum))
