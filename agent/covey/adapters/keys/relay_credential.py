"""A device's relay accounts: addresses, trusted authorities and credentials.

The first relay is [relay]'s. Each of `relay.also` has its own folder in the state folder, `relays/HOST-PORT/` (mode
0700): `password`, or `relay.pem`, a certificate with its key, both wrapped; and `ca.pem`, the trusted authorities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.files import remove_durably
from covey.adapters.keys.key_file import private_folder, write_secret
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.keys.wrapped_file import is_wrapped, read_wrapped, write_wrapped
from covey.adapters.mqtt.settings import MAXIMUM_PEM_BYTES, ClientCertificate, parse_url
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.config.schema import Config
    from covey.core.crypto import Identity

BUNDLE_FILE = "relay.pem"
"""A private key and the certificate for it, mode 0600: in the state folder for the first relay."""

_FOLDER = "relays"
_PASSWORD_FILE = "password"  # noqa: S105 - a file's name
_AUTHORITIES_FILE = "ca.pem"
_MAXIMUM_PASSWORD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class RelayAccount:
    """One relay, and what lets this device into it. Its name is its place, `HOST:PORT`."""

    name: str
    url: str
    password: str = field(repr=False)
    ca_file: Path | None
    client: ClientCertificate | None
    allow_tls12: bool


NO_RELAY_HINT = "on the hub: covey relay serve; for a relay elsewhere: covey relay set mqtts://HOST"


def accounts(folder: StateFolder, config: Config, identity: Identity) -> list[RelayAccount]:
    """Return the configured relays, the preferred one first.

    Raises:
        ConfigurationError: none is set, one is set twice, or a URL or a file is not usable.
    """
    relay = config.relay
    if not relay.url:
        raise ConfigurationError("no relay is set", hint=NO_RELAY_HINT)
    storage_key, client = StorageKey.of(identity), None
    if relay.client_certificate:
        key_file = folder.path / relay.client_key if relay.client_key else None
        client = _certificate(folder.path / relay.client_certificate, key_file, storage_key, BUNDLE_FILE)
    ca_file = Path(relay.ca_file) if relay.ca_file else None
    password = folder.relay_password(config, identity)
    found = [RelayAccount(place(relay.url), relay.url, password, ca_file, client, relay.allow_tls12)]
    for url in relay.also:
        kept = further_folder(folder, url)
        found.append(
            RelayAccount(
                place(url),
                url,
                _password(kept, storage_key),
                _if_there(kept / _AUTHORITIES_FILE),
                _certificate(kept / BUNDLE_FILE, None, storage_key, _bound_to(kept, BUNDLE_FILE))
                if (kept / BUNDLE_FILE).exists()
                else None,
                relay.allow_tls12,
            )
        )
    storage_key.wipe()
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"the relay {name} is configured twice", hint="covey relay list")
    return found


def place(url: str) -> str:
    """Return where a relay is, `HOST:PORT`: what it is called.

    Raises:
        ConfigurationError: not a relay's URL.
    """
    host, port, _ = parse_url(url)
    return f"{host}:{port}"


def further_folder(folder: StateFolder, url: str) -> Path:
    """Return where the credential of one of `relay.also` lies, whether it is there or not."""
    host, port, _ = parse_url(url)
    return folder.path / _FOLDER / (re.sub("[^a-z0-9.-]", "_", host) + f"-{port}")


def keep_further(folder: StateFolder, url: str, credential: str, authorities: str, identity: Identity) -> None:
    """Keep what lets this device into one of `relay.also`; what is empty stays as it was.

    Raises:
        ConfigurationError: the authorities or the certificate are not usable.
        StorageError: the disk refused.
    """
    kept = further_folder(folder, url)
    private_folder(kept.parent)
    private_folder(kept)
    if authorities:
        write_secret(kept / _AUTHORITIES_FILE, authorities.encode())
    client = None
    if credential:
        name, other = (BUNDLE_FILE, _PASSWORD_FILE) if is_certificate(credential) else (_PASSWORD_FILE, BUNDLE_FILE)
        _write(kept / name, credential, identity, _bound_to(kept, name))
        remove_durably(kept / other)
        if name == BUNDLE_FILE:
            client = ClientCertificate(kept / BUNDLE_FILE, None, credential.encode())
    from covey.adapters.mqtt.tls import tls_context

    tls_context(_if_there(kept / _AUTHORITIES_FILE), client)


def forget_further(folder: StateFolder, url: str) -> None:
    """Forget it."""
    kept = further_folder(folder, url)
    for path in (kept / name for name in (_PASSWORD_FILE, BUNDLE_FILE, _AUTHORITIES_FILE)):
        if path.exists():
            remove_durably(path)


def is_certificate(credential: str) -> bool:
    """Say whether a credential is a PEM bundle rather than a password."""
    return credential.startswith("-----BEGIN ")


def keep_credential(folder: StateFolder, credential: str, identity: Identity) -> None:
    """Keep what an authority has minted for the first relay, and use it from the next connection on.

    Raises:
        ConfigurationError: the configuration cannot be changed.
        StorageError: the disk refused.
    """
    if not is_certificate(credential):
        folder.write_relay_password(credential, identity)
        return
    _write(folder.path / BUNDLE_FILE, credential, identity, BUNDLE_FILE)
    folder.configuration.change({"relay.client_certificate": BUNDLE_FILE, "relay.client_key": None})


def _write(path: Path, credential: str, identity: Identity, name: str) -> None:
    storage_key = StorageKey.of(identity)
    write_wrapped(path, credential.encode(), storage_key, name)
    storage_key.wipe()


def _bound_to(kept: Path, name: str) -> str:
    return f"{kept.name}/{name}"


def _certificate(path: Path, key_file: Path | None, storage_key: StorageKey, name: str) -> ClientCertificate:
    """Return a certificate with its key: the owner's files as they are, our own file unwrapped."""
    if key_file is not None or not path.exists() or not is_wrapped(path, MAXIMUM_PEM_BYTES):
        return ClientCertificate(path, key_file)
    return ClientCertificate(path, None, read_wrapped(path, MAXIMUM_PEM_BYTES, storage_key, name))


def _password(kept: Path, storage_key: StorageKey) -> str:
    path = kept / _PASSWORD_FILE
    if not path.exists():
        return ""
    return read_wrapped(path, _MAXIMUM_PASSWORD_BYTES, storage_key, _bound_to(kept, _PASSWORD_FILE)).decode().strip()


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None
