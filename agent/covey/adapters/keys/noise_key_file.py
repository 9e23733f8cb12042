"""`noise.keys`: a device's current and retired noise secrets, sealed under a key that follows from its signing seed.

They are not in `identity.key`, because that file may have a passphrase, which a running agent does not keep: it could
neither take over a rotated key nor delete a retired one. A backup needs both files."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.keys.identity_file import MAXIMUM_FILE_BYTES, noise_file, read_noise
from covey.adapters.keys.key_file import read_secret, write_secret_twice
from covey.core.crypto import Identity, NoiseKey
from covey.errors import LocalError
from covey.limits.key import RETIRED_NOISE_KEYS


@dataclass(frozen=True, slots=True)
class NoiseKeyFile:
    """The file; what is read or changed here is also what an `Identity` then has in memory."""

    path: Path

    def read(self, seed: bytes) -> tuple[NoiseKey, ...]:
        """Return the keys, the one in use first.

        Raises:
            ConfigurationError: damaged, missing, or others may read it.
        """
        return read_noise(read_secret(self.path, MAXIMUM_FILE_BYTES), self.path, seed)

    def write(self, seed: bytes, keys: tuple[NoiseKey, ...]) -> None:
        """Replace the file.

        Raises:
            StorageError: it cannot be written; then nothing has changed.
        """
        write_secret_twice(self.path, noise_file(seed, keys))

    def stamp(self) -> tuple[int, int]:
        """Return what changes whenever the file does, without reading it."""
        try:
            status = self.path.stat()
        except OSError:
            return 0, 0
        return status.st_ino, status.st_mtime_ns

    def refresh(self, identity: Identity) -> None:
        """Take up what another process wrote; what is no longer there is wiped from memory.

        Raises:
            ConfigurationError: damaged, missing, or others may read it.
        """
        held = {key.public: key for key in identity.noise.keys}
        identity.noise.take(
            tuple(
                NoiseKey(each.public, held[each.public].secret, each.retired_at_us) if each.public in held else each
                for each in self.read(identity.signing_seed)
            )
        )

    def rotate(self, identity: Identity, now_us: int) -> None:
        """Draw a noise key and store it; the one before retires. Inside a transaction: one process at a time.

        Raises:
            LocalError: too many retired keys are kept still.
            StorageError: it cannot be written; then nothing has changed.
        """
        self.refresh(identity)
        current, *retired = identity.noise.keys
        if len(retired) >= RETIRED_NOISE_KEYS:
            raise LocalError(
                f"this device still keeps {RETIRED_NOISE_KEYS} earlier noise keys, the maximum",
                hint="the agent deletes each once all members have the new key: see 'covey key show'",
            )
        new = NoiseKey.of(secrets.token_bytes(32))
        self._replace(identity, (new, NoiseKey(current.public, current.secret, max(1, now_us)), *retired))

    def forget(self, identity: Identity, publics: Collection[bytes]) -> None:
        """Wipe retired keys from the file and from memory. Inside a transaction: one process at a time.

        Raises:
            StorageError: it cannot be written; then nothing has changed.
        """
        self.refresh(identity)
        current, *retired = identity.noise.keys
        self._replace(identity, (current, *(key for key in retired if key.public not in publics)))

    def _replace(self, identity: Identity, keys: tuple[NoiseKey, ...]) -> None:
        self.write(identity.signing_seed, keys)
        identity.noise.take(keys)
