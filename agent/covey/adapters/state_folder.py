"""The state folder of one device: identity, configuration, database, and the locks of its processes.

    identity.key           the signing seed, mode 0600: in the clear, under a passphrase, or sealed
    noise.keys             the noise secrets, mode 0600
    *.copy                 copies of these, of config.toml and of vault.key, should a disk damage them
    wiped                  the device was deleted; a new one is made at the next start
    config.toml            settings, mode 0600
    ordered.json           operators' settings, mode 0600
    state.sqlite           everything durable
    state.sqlite-…         its log, lock, marks, reserved space
    state.sqlite.damaged-… a damaged database, after salvage
    relay.password         the broker's credential, mode 0600, wrapped
    relay-ca.pem           the broker's authorities, if an inviter named them
    relays/                credentials for further brokers
    broker/                a relay of this device's own, which `covey relay serve` runs
    vault.key              a collector's vault keys, mode 0600, wrapped
    doors.sqlite           each door's position in the vault, mode 0600
    alerts.json            sent and waiting alerts, mode 0600
    fleet.sqlite           the last look at a large fleet, while an agent runs, mode 0600
    fleet.wanted           touched by a process that asks for another look
    agent.lock             held while an agent runs; further locks for other processes
    wake.pipe              wakes an agent that fetches files nearby

Only one process of a device may do certain work at a time: each kind has a lock (`ProcessLocks`). A lock ends with its
process. Checking a lock writes nothing, so it works on a read-only disk.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.configuration_files import ConfigurationFiles
from covey.adapters.content_files import ContentFiles, content_folder
from covey.adapters.files import remove_durably, storage_errors
from covey.adapters.keys.identity_file import (
    MAXIMUM_FILE_BYTES,
    best_file,
    how_kept,
    plain_file,
    read_noise,
    read_seed,
)
from covey.adapters.keys.key_file import (
    copy_of,
    mend_secret,
    private_folder,
    read_credential,
    read_secret_twice,
    write_secret,
    write_secret_twice,
)
from covey.adapters.keys.noise_key_file import NoiseKeyFile
from covey.adapters.keys.passphrase import find_passphrase
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.keys.vault_key_file import VaultKeyFile
from covey.adapters.keys.wrapped_file import read_wrapped, write_wrapped
from covey.adapters.sqlite.file.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.adapters.state_path import SYSTEM_STATE, check_holds_device
from covey.config.schema import Config, Value
from covey.core.crypto import Identity, wipe
from covey.errors import ConfigurationError, LocalError, RemoteError, StorageError, TransientError

if TYPE_CHECKING:
    from covey.adapters.sqlite.file.state_file import Report


_AGENT = "agent.lock"
_ALERTS = "alerts.lock"
_FLEET = "fleet.lock"


@dataclass(frozen=True, slots=True)
class ProcessLocks:
    """The locks of one state folder. Each is a file descriptor, or None where another process holds it.

    Raises (whatever takes a lock):
        StorageError: the disk takes no lock file.
    """

    folder: Path

    def agent(self) -> int | None:
        """Take the lock of the one agent on this state."""
        return self._take(_AGENT)

    def agent_runs(self) -> bool:
        """Say whether an agent runs, or wants to."""
        return self._is_held(_AGENT)

    def relay(self) -> int | None:
        """Take the lock for the relay connection: the agent's, or that of a command that waits for something."""
        return self._take("relay.lock")

    def served_relay(self) -> int | None:
        """Take the lock for serving this device's own relay."""
        return self._take("broker.lock")

    def alerts(self) -> int | None:
        """Take the lock of the one process that sends alerts."""
        return self._take(_ALERTS)

    def alerts_are_watched(self) -> bool:
        """Say whether a process sends alerts."""
        return self._is_held(_ALERTS)

    def fleet(self) -> int | None:
        """Take the lock of the one process that keeps the table of a large fleet."""
        return self._take(_FLEET)

    def fleet_is_kept(self) -> bool:
        """Say whether a process keeps the table of a large fleet."""
        return self._is_held(_FLEET)

    def doors(self) -> int | None:
        """Take the lock of the one process that sends readings on."""
        return self._take("doors.lock")

    def vault(self) -> int | None:
        """Take the lock for rewriting this node's segments."""
        return self._take("vault.lock")

    def _take(self, name: str) -> int | None:
        path = self.folder / name
        with storage_errors("lock", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return descriptor if _locked(descriptor) else None

    def _is_held(self, name: str) -> bool:
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # nobody ever held it, or nobody here may know
            return False
        if not _locked(descriptor):
            return True
        os.close(descriptor)
        return False


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


MACHINE_CONFIG = Path("/etc/covey")
"""What root says of the machine's own agent."""

ACTION_SOCKET = Path("/run/covey-action.socket")
"""Where systemd listens for it (`covey-action.socket`)."""

_MAXIMUM_PASSWORD_BYTES = 1024
RELAY_PASSWORD = "relay.password"  # noqa: S105 - a file's name
"""What the first relay's password is bound to, wherever its file is."""
_SECRETS = (
    "identity.key",
    "identity.key.copy",
    "noise.keys",
    "noise.keys.copy",
    "relay.password",
    "relay.pem",
    "ordered.json",
)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Paths and what lies there. Nothing is cached."""

    path: Path
    configuration: ConfigurationFiles
    passphrase_file: Path | None = None

    @classmethod
    def at(cls, path: Path, config_path: Path | None = None) -> StateFolder:
        """Name a folder; nothing is touched. The machine's own agent has settings in /etc/covey, too."""
        machine = MACHINE_CONFIG if path == SYSTEM_STATE and config_path is None else None
        return cls(path, ConfigurationFiles(config_path or path / "config.toml", path / "ordered.json", machine))

    @property
    def locks(self) -> ProcessLocks:
        """Which process does what only one may do at a time."""
        return ProcessLocks(self.path)

    def create(self, values: Mapping[str, Value], keep: Callable[[bytes], bytes] = plain_file) -> Identity:
        """Make a new device: folder, identity and configuration; `keep` makes `identity.key` of the signing seed.

        Raises:
            LocalError: there is one here already.
            ConfigurationError: the folder's permissions are wrong, or the key cannot be kept that way.
            StorageError: it cannot be written.
        """
        if self._has_identity():
            raise LocalError(f"{self.path} already holds a device", hint="'covey status' shows it")
        identity, content = _draw(keep)  # where the key cannot be kept that way, nothing is left behind
        private_folder(self.path)
        if not self.configuration.path.exists():
            self.configuration.create(values)
        return self._write_identity(identity, content)

    def names(self) -> frozenset[str]:
        """Return what lies in the folder, which may not be there."""
        return frozenset(each.name for each in self.path.iterdir()) if self.path.is_dir() else frozenset()

    def remove_others(self, names: frozenset[str]) -> None:
        """Remove every file except the named ones, and an empty folder.

        The identity is removed last, so that remaining files still belong to a device.

        Raises:
            StorageError: the disk refused.
        """
        import shutil

        if not self.path.is_dir():
            return
        identity = self._identity_path
        others = [each for each in self.path.iterdir() if each.name not in names and each != identity]
        try:
            for each in others:
                if each.is_dir():
                    shutil.rmtree(each)
                else:
                    each.unlink()
            if identity.name not in names:
                remove_durably(identity)
            if not names:
                self.path.rmdir()
        except OSError as error:
            raise StorageError(f"{self.path} cannot be emptied: {error.strerror or error}") from error

    def _write_identity(self, identity: Identity, content: bytes) -> Identity:
        self.noise_keys.write(identity.signing_seed, identity.noise.keys)
        write_secret_twice(self._identity_path, content)
        return identity

    def keep_seed(self, keep: Callable[[bytes], bytes]) -> None:
        """Keep the signing seed another way: `keep` makes the new `identity.key` of it, and its copy.

        Each file is replaced in one step. If the power fails between the two, the next start repeats it for the copy.

        Raises:
            ConfigurationError: the key does not open, or cannot be kept that way; then nothing has changed.
            StorageError: the disk refused.
        """
        identity = self.identity()
        try:
            write_secret_twice(self._identity_path, keep(identity.signing_seed))
        finally:
            identity.wipe()

    def how_seed_is_kept(self) -> tuple[str, str]:
        """Return how the signing seed is kept, as `how_kept` does.

        Raises:
            ConfigurationError: there is no device, or its key file is damaged.
        """
        found = read_secret_twice(self._identity_path, MAXIMUM_FILE_BYTES)
        try:
            return how_kept(found[0])
        except RemoteError as error:
            raise ConfigurationError(f"{self._identity_path} is damaged", hint="'covey check' restores it") from error
        finally:
            for each in found:
                wipe(each)

    def identity(self) -> Identity:
        """Read this device's identity.

        Raises:
            ConfigurationError: there is none, it is damaged, or others may read it.
            TransientError: what seals it does not open it now.
        """
        identity = self._identity_path
        check_holds_device(self.path, identity.name, copy_of(identity).name, self._wiped_path.name)
        if self._wiped_path.exists():
            self._renew()
        return self._read_identity()

    def identity_from(self, raw: bytes) -> Identity:
        """Read the identity of an `identity.key` that is not in the folder yet; the noise keys are.

        Raises:
            ConfigurationError: it is damaged, the passphrase is wrong, or the noise keys are another device's.
        """
        stored = read_seed(raw, self._identity_path, lambda: find_passphrase(self.passphrase_file))
        seed = stored.reveal()
        stored.wipe()
        return Identity.with_noise(seed, self.noise_keys.read(seed))

    def _has_identity(self) -> bool:
        return any(path.exists() for path in (self._identity_path, copy_of(self._identity_path)))

    def _read_identity(self) -> Identity:
        """Read the identity from its files or, where a disk has damaged these, from their copies, and mend the files.

        A signing seed is right if it opens the noise keys: only the device's own seed does
        (docs/protocol/vault.md, section 14).
        """
        problem: ConfigurationError | TransientError | None = None
        noise_files = read_secret_twice(self.noise_keys.path, MAXIMUM_FILE_BYTES)
        identity_files = read_secret_twice(self._identity_path, MAXIMUM_FILE_BYTES)
        for raw in identity_files:
            try:
                stored = read_seed(raw, self._identity_path, lambda: find_passphrase(self.passphrase_file))
            except (ConfigurationError, TransientError) as error:
                problem = problem or error
                continue
            seed = stored.reveal()
            for noise in noise_files:
                try:
                    identity = Identity.with_noise(seed, read_noise(noise, self.noise_keys.path, seed))
                except ConfigurationError as error:
                    problem = problem or error
                    continue
                stored.wipe()
                mend_secret(self._identity_path, raw, identity_files)
                mend_secret(self.noise_keys.path, noise, noise_files)
                for each in identity_files:
                    wipe(each)
                return identity
        assert problem is not None
        raise problem

    @property
    def is_new(self) -> bool:
        """Whether no device was ever made here."""
        try:
            return not (self._has_identity() or self._wiped_path.exists())
        except PermissionError:  # another user's, as whoever opens it is told
            return False

    @property
    def noise_keys(self) -> NoiseKeyFile:
        """The noise secrets."""
        return NoiseKeyFile(self.path / "noise.keys")

    @property
    def fleet_table(self) -> Path:
        """Where the agent of a large fleet keeps what it looks like."""
        return self.path / "fleet.sqlite"

    @property
    def fleet_wanted(self) -> Path:
        """The file that a process touches to ask for another look at a large fleet."""
        return self.path / "fleet.wanted"

    @property
    def has_vault_key(self) -> bool:
        """Whether this device has a vault's keys: it is a collector, or looks after a vault."""
        path = self._vault_key_path
        return path.exists() or copy_of(path).exists()

    def vault_key(self, identity: Identity) -> VaultKeyFile:
        """Return the file of the vault's keys, which may not be there."""
        return VaultKeyFile(self._vault_key_path, partial(StorageKey.of, identity))

    @property
    def actions(self) -> Path:
        """The folder of what operators may have this device do, as its owner defines it."""
        return (self.configuration.machine or self.configuration.path.parent) / "operations.d"

    @property
    def action_socket(self) -> Path | None:
        """Where the machine's own agent has actions done by units of their own, if that is enabled."""
        return ACTION_SOCKET if self.configuration.machine is not None else None

    @property
    def board_firmware(self) -> Path:
        """What the boards on this machine's ports are brought to run, while it is there."""
        return self.path / "board-firmware"

    @property
    def installing(self) -> Path:
        """The folder of files, opened, that operators have this device install."""
        return self.path / "installing"

    def wipe(self) -> None:
        """Forget this device: keys, database, credential. At the next start it is a new one (000.23).

        The marker comes first, so that the next start continues after a crash. The configuration, and a vault with its
        key, are the owner's and stay. A card may retain deleted content, which no program can prevent.

        Raises:
            StorageError: the disk refused.
        """
        write_secret(self._wiped_path, b"")
        self._remove_everything()

    def _renew(self) -> None:
        self._remove_everything()
        self._write_identity(*_draw(best_file))
        remove_durably(self._wiped_path)

    def _remove_everything(self) -> None:
        secrets = [self.path / name for name in _SECRETS]
        further = [*sorted((self.path / "relays").glob("*/*")), *sorted(self.installing.glob("*")), self.wake_pipe]
        for path in (*secrets, *further, *self.state_file.companions()):
            remove_durably(path)
        ContentFiles(content_folder(self.state_file.path)).remove_all()

    @property
    def wake_pipe(self) -> Path:
        """Where commands wake the agent (`adapters/wake_pipe.py`)."""
        return self.path / "wake.pipe"

    @property
    def state_file(self) -> StateFile:
        """The database's file, and the files next to it."""
        return StateFile(self.path / "state.sqlite")

    def store(
        self,
        config: Config,
        identity: Identity,
        report: Callable[[Report], None] = lambda _: None,
        moves: Callable[[], None] | None = None,
    ) -> SqliteStore:
        """Open the database, made, migrated or saved where needed (`state_file.py`); `report` gets the losses.

        Meanwhile, which may take minutes, `moves` is called again and again.
        """
        maximum = config.outbox.maximum_bytes
        store, reports = self.state_file.open(identity, maximum, moves)
        for each in reports:
            report(each)
        return store

    def relay_password(self, config: Config, identity: Identity) -> str:
        """Read the broker's credential: what systemd hands over, or the file; empty where there is neither."""
        handed_over = read_credential("covey.relay-password", _MAXIMUM_PASSWORD_BYTES)
        if handed_over is not None:
            return handed_over.decode().strip()
        path = self.path / config.relay.password_file
        if not path.exists():
            return ""
        key = StorageKey.of(identity)
        password = read_wrapped(path, _MAXIMUM_PASSWORD_BYTES, key, RELAY_PASSWORD)
        key.wipe()
        return password.decode().strip()

    def write_relay_password(self, password: str, identity: Identity) -> None:
        """Keep the broker's credential where the configuration says."""
        path, key = self.path / self.configuration.config().relay.password_file, StorageKey.of(identity)
        write_wrapped(path, password.encode(), key, RELAY_PASSWORD)
        key.wipe()

    @property
    def _wiped_path(self) -> Path:
        return self.path / "wiped"

    @property
    def _vault_key_path(self) -> Path:
        return self.path / "vault.key"

    @property
    def _identity_path(self) -> Path:
        return self.path / "identity.key"


def _draw(keep: Callable[[bytes], bytes]) -> tuple[Identity, bytes]:
    identity = Identity.from_seeds(secrets.token_bytes(32), secrets.token_bytes(32))
    return identity, keep(identity.signing_seed)
