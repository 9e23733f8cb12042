"""`vault.key`: a vault's id, the keys of its segments, and the readers of these keys."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.keys.key_file import (
    copy_of,
    mend_secret,
    read_secret,
    read_secret_twice,
    write_secret,
    write_secret_twice,
)
from covey.core.ids import KEY_BYTES, VAULT_ID_BYTES, VaultId
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey
from covey.errors import ConfigurationError
from covey.limits.vault import MAXIMUM_KEY_FILE_BYTES


@dataclass(frozen=True, slots=True)
class VaultKeyFile:
    """The file, which the ingest is pointed at, too. A device's own has a second copy, from which it is restored."""

    path: Path
    has_copy: bool = False

    def exists(self) -> bool:
        """Say whether there are keys already."""
        return self.path.exists() or (self.has_copy and copy_of(self.path).exists())

    def draw(self, now_us: int) -> None:
        """Draw a vault's id and its first key, if there are none; for a device's own file."""
        if not self.exists():
            key = VaultKey(VaultId(secrets.token_bytes(VAULT_ID_BYTES)), secrets.token_bytes(KEY_BYTES), now_us)
            write_secret_twice(self.path, KeyFile((key,)).to_text().encode(), only_first=True)

    def read(self) -> KeyFile:
        """Return the file's content.

        Raises:
            ConfigurationError: missing, damaged, or others may read it.
        """
        if not self.has_copy:
            return _parsed(read_secret(self.path, MAXIMUM_KEY_FILE_BYTES))
        problem: ConfigurationError | None = None
        found = read_secret_twice(self.path, MAXIMUM_KEY_FILE_BYTES)
        for text in found:
            try:
                content = _parsed(text)
            except ConfigurationError as error:
                problem = problem or error
                continue
            mend_secret(self.path, text, found)
            return content
        assert problem is not None
        raise problem

    def write(self, content: KeyFile) -> None:
        """Replace the file durably.

        Raises:
            StorageError: the disk refused.
        """
        write = write_secret_twice if self.has_copy else write_secret
        write(self.path, content.to_text().encode())


def _parsed(text: bytearray) -> KeyFile:
    return KeyFile.parse(text.decode(errors="replace"))
