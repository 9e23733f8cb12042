"""Making this machine a device: its identity, its configuration, and an empty state; and how its key is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.keys.identity_file import best_file, bound_file, plain_file, sealed_file
from covey.adapters.keys.passphrase import find_passphrase
from covey.adapters.keys.seals import SEALS, best_seal
from covey.app.device.device import open_device
from covey.core.crypto import wipe
from covey.core.ids import device_name, inbox_name, truncate_utf8
from covey.errors import ConfigurationError, CoveyError
from covey.limits.group import MAXIMUM_LABEL_BYTES

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder

SEAL_CHOICES = ("best", "none", "passphrase", *SEALS)
"""How a key can be kept. The best is the first seal of this machine that opens without a person and binds the key to
more than the disk; without one, none."""


@dataclass(frozen=True, slots=True)
class NewDevice:
    """A device that has just been made."""

    name: str
    label: str
    signing_public: str
    noise_public: str
    broker_username: str
    state: str
    key: str
    """How its key is kept, for people."""


@dataclass(frozen=True, slots=True)
class KeyProtection:
    """How to keep a device's signing seed: a word of `SEAL_CHOICES`.

    `module` is a token's PKCS#11 library. `secret_file` holds the passphrase or PIN; without one a person types it.
    """

    seal: str = "best"
    module: Path | None = None
    secret_file: Path | None = None

    def file(self, seed: bytes) -> bytes:
        """Return `identity.key`.

        Raises:
            ConfigurationError: it cannot be kept that way here.
        """
        if self.seal == "best":
            return best_file(seed)
        if self.seal == "none":
            return plain_file(seed)
        if self.seal == "passphrase":
            typed = find_passphrase(self.secret_file, twice=True)
            sealed = sealed_file(seed, typed)
            wipe(typed)
            return sealed
        return bound_file(seed, self.seal, self.module, lambda: find_passphrase(self.secret_file))


def keep_key(folder: StateFolder, kept: KeyProtection) -> tuple[str, str]:
    """Keep the key of the device in a folder another way; return its seal, and what people are told.

    A running agent needs no restart: it has the key in memory.

    Raises:
        ConfigurationError: the key does not open, or cannot be kept that way; then nothing has changed.
        StorageError: the disk refused.
    """
    if kept.seal == "best":
        seal = best_seal()
        if not seal:
            raise ConfigurationError(
                "this machine has no TPM that can keep the key",
                hint="'covey key seal tpm' says why; the key stays as it is",
            )
        kept = replace(kept, seal=seal)
    folder.keep_seed(kept.file)
    return folder.how_seed_is_kept()


def create_device(folder: StateFolder, label: str, kept: KeyProtection = KeyProtection()) -> NewDevice:
    """Draw an identity and write a configuration.

    Raises:
        ConfigurationError: a device is here already, or its key cannot be kept that way.
    """
    label = truncate_utf8(label, MAXIMUM_LABEL_BYTES)
    identity = folder.create({"label": label} if label else {}, kept.file)
    folder.store(folder.configuration.config(), identity).close()
    return NewDevice(
        device_name(identity.signing_public),
        label,
        identity.signing_public.hex(),
        identity.noise_public.hex(),
        inbox_name(identity.signing_public),
        str(folder.path),
        folder.how_seed_is_kept()[1],
    )


@contextmanager
def device_to_join(folder: StateFolder, label: str) -> Iterator[None]:
    """Make this machine a device if it is none; undo that if the block fails before anything was asked.

    So a mistyped code leaves nothing behind. The caller's exception propagates.
    """
    if not folder.is_new:
        yield
        return
    before = folder.names()
    try:
        create_device(folder, label)
    except CoveyError:  # a full disk, say
        folder.remove_others(before)
        raise
    try:
        yield
    except (CoveyError, KeyboardInterrupt):
        with open_device(folder) as device:
            has_asked = bool(device.store.joins.pending() or device.node.groups.joined())
        if not has_asked:
            folder.remove_others(before)
        raise
