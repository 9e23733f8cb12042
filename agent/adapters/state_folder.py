"""The state folder of one device: identity, configuration, database, and the lock that one agent holds.

identity.key     both secrets, mode 0600         config.toml      settings, mode 0600
state.sqlite     everything durable              relay.password   the broker's credential, mode 0600
vault.key        a collector's vault key         agent.lock       held while an agent runs
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.adapters.identity_file import (
    MAXIMUM_FILE_BYTES,
    find_passphrase,
    plain_file,
    read_identity,
    sealed_file,
)
from agent.adapters.key_file import private_folder, read_credential, read_secret, remove_durably, write_secret
from agent.adapters.sqlite_store import SqliteStore
from agent.config import Config, Configuration, Value, changed_text, config_text, read_configuration, read_text
from agent.core.crypto import Identity
from agent.core.ids import INCARNATION_BYTES
from agent.core.vault import VaultKey, key_file_text, key_from_file_text
from agent.errors import ConfigurationError, LocalError

SYSTEM_STATE = Path("/var/lib/covey")
"""The state of the machine's own agent, as the packaged units run it."""

_MAXIMUM_PASSWORD_BYTES = 1024
_MAXIMUM_KEY_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Paths and what lies there. Nothing is cached."""

    path: Path
    config_path: Path
    machine_config: Path | None = None
    passphrase_file: Path | None = None

    @classmethod
    def at(cls, path: Path, config_path: Path | None = None) -> StateFolder:
        """Name a folder; nothing is touched. The machine's own agent has settings in /etc/covey, too."""
        machine_config = Path("/etc/covey") if path == SYSTEM_STATE and config_path is None else None
        return cls(path, config_path or path / "config.toml", machine_config)

    def create(self, values: Mapping[str, Value], passphrase: bytes | None = None) -> Identity:
        """Make a new device: folder, identity, under a passphrase if one is given, and configuration.

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
            write_secret(self.config_path, config_text(values).encode())
        content = plain_file(identity) if passphrase is None else sealed_file(identity, passphrase)
        write_secret(self._identity_path, content)
        return identity

    def identity(self) -> Identity:
        """Read this device's identity.

        Raises:
            ConfigurationError: there is none, it is damaged, or others may read it.
        """
        if self._wiped_path.exists():
            self._renew()
        if not self._identity_path.exists():
            raise ConfigurationError(
                f"there is no device in {self.path}", hint="run 'covey init' first, or name --state"
            )
        raw = read_secret(self._identity_path, MAXIMUM_FILE_BYTES)
        return read_identity(raw, self._identity_path, lambda: find_passphrase(self.passphrase_file))

    def wipe(self) -> None:
        """Forget this device: keys, database, credential. At the next start it is a new one (000.23).

        The marker comes first, so that a crash half way changes nothing: the next start goes on. The configuration
        stays, and so does a vault with its key: they are the owner's. What a card keeps of deleted files, no program
        can say.

        Raises:
            StorageError: the disk refused.
        """
        write_secret(self._wiped_path, b"")
        self._remove_everything()

    def _renew(self) -> None:
        self._remove_everything()
        identity = Identity.from_seeds(secrets.token_bytes(32), secrets.token_bytes(32))
        write_secret(self._identity_path, plain_file(identity))
        remove_durably(self._wiped_path)

    def _remove_everything(self) -> None:
        for name in ("identity.key", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "relay.password"):
            remove_durably(self.path / name)

    def config(self) -> Config:
        """Read and check the configuration.

        Raises:
            ConfigurationError: see `read_configuration`.
        """
        return self.configuration().config

    def configuration(self) -> Configuration:
        """Read and check the configuration, and where each value comes from.

        Raises:
            ConfigurationError: see `read_configuration`.
        """
        return read_configuration(self.config_files(), os.environ)

    def config_files(self) -> list[Path]:
        """Return the configuration's files: what commands write, then the machine's, fragments by name in each."""
        files = [self.config_path, *sorted((self.config_path.parent / "conf.d").glob("*.toml"))]
        if self.machine_config is not None:
            files += [path for path in [self.machine_config / "config.toml"] if path.exists()]
            files += sorted((self.machine_config / "conf.d").glob("*.toml"))
        return files

    def change_config(self, changes: Mapping[str, Value | None]) -> None:
        """Change settings in the configuration file that commands write; None means the default. The rest stays.

        Raises:
            ConfigurationError: see `changed_text`.
            StorageError: it cannot be written.
        """
        text = read_text(self.config_path)
        for key, value in changes.items():
            text = changed_text(text, key, value)
        write_secret(self.config_path, text.encode())

    def store(self, config: Config) -> SqliteStore:
        """Open the database, made or migrated where needed."""
        return SqliteStore(
            self.path / "state.sqlite", secrets.token_bytes(INCARNATION_BYTES), config.outbox.maximum_bytes
        )

    def relay_password(self, config: Config) -> str:
        """Read the broker's credential: what systemd hands over, or the file; empty where there is neither."""
        handed_over = read_credential("covey.relay-password", _MAXIMUM_PASSWORD_BYTES)
        if handed_over is not None:
            return handed_over.decode().strip()
        path = self.path / config.relay.password_file
        if not path.exists():
            return ""
        return read_secret(path, _MAXIMUM_PASSWORD_BYTES).decode().strip()

    def write_relay_password(self, password: str) -> None:
        """Keep the broker's credential where the configuration says."""
        write_secret(self.path / self.config().relay.password_file, password.encode())

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
    def _wiped_path(self) -> Path:
        return self.path / "wiped"

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
