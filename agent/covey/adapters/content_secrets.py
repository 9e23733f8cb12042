"""What a file is opened by that is for this device and some others alone: a file beside it, and gone with it."""

from __future__ import annotations

from covey.adapters.content_files import ContentFiles
from covey.adapters.files import replace_durably, storage_errors
from covey.core.ids import ContentHash

_SUFFIX = ".secret"


def save_secret(files: ContentFiles, content: ContentHash, secret: bytes) -> None:
    """Keep it durably.

    Raises:
        StorageError: the disk refused.
    """
    path = files.path(content, _SUFFIX)
    with storage_errors("make", path.parent):
        path.parent.mkdir(mode=0o700, exist_ok=True)
    replace_durably(path, secret, 0o600)


def kept_secret(files: ContentFiles, content: ContentHash) -> bytes | None:
    """Return it, where it is kept."""
    try:
        return files.path(content, _SUFFIX).read_bytes()
    except OSError:
        return None
