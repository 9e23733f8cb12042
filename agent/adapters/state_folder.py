"""The state folder of one device: identity, configuration, database, and the lock that one agent holds.

identity.key     both secrets, mode 0600         config.toml      settings, mode 0600
state.sqlite     everything durable              relay.password   the broker's credential, mode 0600
vault.key        a collector's vault key         agent.lock       held while an agent runs
"""

from __future__ import annotations

import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from agent.adapters.key_file import private_folder, read_secret, write_secret
from agent.adapters.sqlite_store import SqliteStore
from agent.config import Config, config_text, read_config
from agent.core import wire
from agent.core.crypto import Identity
from agent.core.ids import INCARNATION_BYTES
from agent.core.vault import VaultKey, key_file_text, key_from_file_text
from agent.errors import ConfigurationError, LocalError, RemoteError

_MAXIMUM_PASSWORD_BYTES = 1024
_MAXIMUM_KEY_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Paths and what lies there. Nothing is cached."""

    path: Path
    config_path: Path

    @classmethod
    def at(cls, path: Path, config_path: Path | None = None) -> StateFolder:
        """Name a folder; nothing is touched."""
        return cls(path, config_path or path / "config.toml")

    def create(self, config: Config) -> Identity:
        """Make a new device: folder, identity and configuration.

        Raises:
            LocalError: there is one here already.
            ConfigurationError: the folder's permissions are wrong.
            StorageError: it cannot be written.
        """
        private_folder(self.path)
        if self._identity_path.exists():
            raise LocalError(f"{self.path} holds a device already", hint="'covey status' shows it")
        identity = Identity.from_seeds(secrets.token_bytes(32), secrets.token_bytes(32))
        if not self.config_path.exists():
            write_secret(self.config_path, config_text(config).encode())
        write_secret(self._identity_path, wire.encode([1, identity.signing_seed, identity.noise_secret]))
        return identity

    def identity(self) -> Identity:
        """Read this device's identity.

        Raises:
            ConfigurationError: there is none, it is damaged, or others may read it.
        """
        if not self._identity_path.exists():
            raise ConfigurationError(
                f"there is no device in {self.path}", hint="run 'covey init' first, or name --state"
            )
        try:
            version, seed, noise_secret = wire.record(
                wire.decode(read_secret(self._identity_path, 256), 256),
                "identity",
                wire.uint(255),
                wire.octets(32),
                wire.octets(32),
            )
        except RemoteError as error:
            raise ConfigurationError(f"{self._identity_path} is damaged", hint="restore it from a backup") from error
        if version != 1:
            raise ConfigurationError(f"{self._identity_path} was written by a newer Covey")
        return Identity.from_seeds(seed, noise_secret)

    def config(self) -> Config:
        """Read and check the configuration.

        Raises:
            ConfigurationError: see `read_config`.
        """
        return read_config(self.config_path)

    def write_config(self, config: Config) -> None:
        """Replace the configuration file."""
        write_secret(self.config_path, config_text(config).encode())

    def store(self, config: Config) -> SqliteStore:
        """Open the database, made or migrated where needed."""
        return SqliteStore(
            self.path / "state.sqlite", secrets.token_bytes(INCARNATION_BYTES), config.outbox.maximum_bytes
        )

    def relay_password(self, config: Config) -> str:
        """Read the broker's credential; empty where there is none."""
        path = self.path / config.relay.password_file
        if not path.exists():
            return ""
        return read_secret(path, _MAXIMUM_PASSWORD_BYTES).decode().strip()

    def write_relay_password(self, password: str) -> None:
        """Keep the broker's credential."""
        write_secret(self.path / "relay.password", password.encode())

    def vault_key(self) -> VaultKey:
        """Read the vault's key; the first time, draw one.

        Raises:
            ConfigurationError: damaged, or others may read it.
        """
        if not self.vault_key_path.exists():
            write_secret(
                self.vault_key_path, key_file_text(VaultKey(secrets.token_bytes(16), secrets.token_bytes(32))).encode()
            )
        return key_from_file_text(read_secret(self.vault_key_path, _MAXIMUM_KEY_FILE_BYTES).decode())[0]

    @property
    def vault_key_path(self) -> Path:
        """Where the vault's key lies, for the ingest to be pointed at."""
        return self.path / "vault.key"

    @property
    def _identity_path(self) -> Path:
        return self.path / "identity.key"

    def lock_agent(self) -> int | None:
        """Take the lock of the one agent on this state; None where another process holds it."""
        return self._lock("agent.lock")

    def lock_relay(self) -> int | None:
        """Take the lock of whoever speaks with the relay: the agent, or a command that waits for something."""
        return self._lock("relay.lock")

    def agent_runs(self) -> bool:
        """Say whether an agent runs, or wants to."""
        descriptor = self.lock_agent()
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def _lock(self, name: str) -> int | None:
        """Take a lock; it goes with the process, however that ends."""
        descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
