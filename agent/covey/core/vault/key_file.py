"""The content of `vault.key` (docs/protocol/vault.md, section 14): a vault's keys, and the readers that receive new
ones.

1. The newest key seals; all of them open.
2. `epochs` lists the groups and epochs under which the newest key was drawn or confirmed. Once one of these epochs is
   over, a removed device may have that key, and it must seal nothing more.
3. `readers` receive each later key: devices as long as they are members, and readers that a person named.
4. `reader_secret` opens what others send to this file. It is drawn where the file is, and no copy contains it:
   otherwise the person who made the copy would have it, too.
5. `check` shows damage: with one wrong bit in the vault's id, a reader would look for another vault and find nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from covey.core import crypto
from covey.core.ids import (
    GROUP_ID_BYTES,
    KEY_BYTES,
    VAULT_ID_BYTES,
    DeviceKey,
    EpochId,
    GroupId,
    NoisePublic,
    VaultId,
    from_hex,
)
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.wire import cbor
from covey.errors import ConfigurationError, MalformedError
from covey.limits.message import MAXIMUM_COUNTER
from covey.limits.vault import MAXIMUM_VAULT_KEYS

_CHECK_BYTES = 8


@dataclass(frozen=True, slots=True)
class VaultKeyReader:
    """A recipient of new keys: a device's file, or, if `device` is None, one that a person named."""

    public: NoisePublic
    device: DeviceKey | None = None


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The file's content. `repr` shows no secret."""

    keys: tuple[VaultKey, ...]
    epochs: Mapping[GroupId, EpochId] | None = None
    """None until the agent has compared the key with its groups."""
    readers: tuple[VaultKeyReader, ...] = ()
    reader_secret: bytes | None = field(default=None, repr=False)

    @property
    def newest(self) -> VaultKey:
        """The key that new objects are sealed with."""
        return self.keys[0]

    @property
    def vault_id(self) -> VaultId:
        """The vault that all keys are of."""
        return self.newest.vault_id

    @property
    def reader_public(self) -> NoisePublic | None:
        """What others seal their new keys for."""
        return None if self.reader_secret is None else NoisePublic(crypto.scalar_base(self.reader_secret))

    def ring(self) -> KeyRing:
        """Return what opens objects."""
        return KeyRing(self.keys, self.reader_secret)

    def is_outdated(self, epochs: Mapping[GroupId, EpochId]) -> bool:
        """Say whether an epoch of the newest key is over, as the groups stand now (rule 2)."""
        return any(epochs.get(group_id) != epoch for group_id, epoch in (self.epochs or {}).items())

    def copy(self) -> KeyFile:
        """Return what a copy for somebody else holds (rule 4)."""
        return replace(self, readers=(), reader_secret=None)

    def to_text(self) -> str:
        """Return the file's text; only its owner may read it (mode 0600)."""
        document: dict[str, object] = {
            "vault_id": self.vault_id.hex(),
            "keys": [{"key_id": key.key_id.hex(), "key": key.key.hex(), "since_us": key.since_us} for key in self.keys],
        }
        if self.epochs is not None:
            document["epochs"] = {group_id.hex(): epoch.hex() for group_id, epoch in self.epochs.items()}
        if self.readers:
            document["readers"] = [
                {"public": each.public.hex(), "device": each.device.hex() if each.device else None}
                for each in self.readers
            ]
        if self.reader_secret is not None:
            document["reader_secret"] = self.reader_secret.hex()
        return json.dumps({**document, "check": self._check.hex()}) + "\n"

    @property
    def _check(self) -> bytes:
        content = [
            self.vault_id,
            [[key.key, key.since_us] for key in self.keys],
            None if self.epochs is None else [[*each] for each in sorted(self.epochs.items())],
            [[each.public, each.device] for each in self.readers],
            self.reader_secret,
        ]
        return hashlib.blake2b(cbor.encode(content), digest_size=_CHECK_BYTES, person=b"covey/1 vkeyfile").digest()

    @classmethod
    def parse(cls, text: str) -> KeyFile:
        """Read the file's text.

        Raises:
            ConfigurationError: not a key file, or damaged. The message holds nothing of it.
        """
        try:
            document = json.loads(text)
            vault_id = VaultId(from_hex(document["vault_id"], VAULT_ID_BYTES))
            entries = document["keys"]
            keys = tuple([VaultKey(vault_id, from_hex(entry["key"], KEY_BYTES), _since(entry)) for entry in entries])
            named = [from_hex(entry["key_id"], 8) for entry in entries]
            check = from_hex(document["check"], _CHECK_BYTES)
            content = cls(
                keys,
                _epochs(document["epochs"]) if "epochs" in document else None,
                tuple([_reader(entry) for entry in document.get("readers", ())]),
                from_hex(document["reader_secret"], KEY_BYTES) if "reader_secret" in document else None,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MalformedError):
            raise _bad_key_file() from None
        if not 0 < len(keys) <= MAXIMUM_VAULT_KEYS or named != [key.key_id for key in keys]:
            raise _bad_key_file()
        if len(set(named)) != len(named) or content._check != check:
            raise _bad_key_file()
        return content


def _since(entry: dict[str, int]) -> int:
    since_us = entry.get("since_us", 0)
    if type(since_us) is not int or not 0 <= since_us <= MAXIMUM_COUNTER:
        raise ValueError("not a time")
    return since_us


def _epochs(entries: dict[str, str]) -> dict[GroupId, EpochId]:
    return {
        GroupId(from_hex(group_id, GROUP_ID_BYTES)): EpochId(from_hex(epoch, 32)) for group_id, epoch in entries.items()
    }


def _reader(entry: dict[str, str]) -> VaultKeyReader:
    public = NoisePublic(from_hex(entry["public"], KEY_BYTES))
    crypto.check_noise_key(public)
    device = entry.get("device")
    return VaultKeyReader(public, None if device is None else DeviceKey(from_hex(device, KEY_BYTES)))


def _bad_key_file() -> ConfigurationError:
    return ConfigurationError(
        "not a vault key file, or damaged",
        hint="copy vault.key again from the collector that owns the vault",
    )
