"""The secrets of files that are sealed for some devices only; each is next to its file and deleted with it.

It belongs to the one offer that it came with: another offer of the same bytes, with another secret, changes nothing.
"""

from __future__ import annotations

from covey.adapters.content_files import ContentFiles
from covey.adapters.files import replace_durably
from covey.core.ids import ContentHash, OperationId


def save_secret(files: ContentFiles, content: ContentHash, offer: OperationId, secret: bytes) -> None:
    """Keep it durably. The caller holds the files' lock until the file is known: else it may be swept away.

    Raises:
        StorageError: the disk refused.
    """
    replace_durably(files.path(content, _suffix(offer)), secret, 0o600)


def kept_secret(files: ContentFiles, content: ContentHash, offer: OperationId) -> bytes | None:
    """Return it, where it is kept."""
    try:
        return files.path(content, _suffix(offer)).read_bytes()
    except OSError:
        return None


def _suffix(offer: OperationId) -> str:
    return f".{offer.hex()}.secret"
