"""A device's relay accounts: addresses, trusted authorities and credentials.

The first relay is [relay]'s. Each of `relay.also` has its own folder in the state folder, `relays/HOST-PORT/` (mode
0700): `password`, or `relay.pem`, a certificate with its key; and `ca.pem`, the trusted authorities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.files import remove_durably
from covey.adapters.keys.key_file import private_folder, read_secret, write_secret
from covey.adapters.mqtt.settings import ClientCertificate, parse_url, tls_context
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.config.schema import Config

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


def accounts(folder: StateFolder, config: Config) -> list[RelayAccount]:
    """Return the configured relays, the preferred one first.

    Raises:
        ConfigurationError: none is set, one is set twice, or a URL or a file is not usable.
    """
    relay = config.relay
    if not relay.url:
        raise ConfigurationError("no relay is set", hint=NO_RELAY_HINT)
    client = None
    if relay.client_certificate:
        key_file = folder.path / relay.client_key if relay.client_key else None
        client = ClientCertificate(folder.path / relay.client_certificate, key_file)
    ca_file = Path(relay.ca_file) if relay.ca_file else None
    found = [
        RelayAccount(place(relay.url), relay.url, folder.relay_password(config), ca_file, client, relay.allow_tls12)
    ]
    for url in relay.also:
        kept = further_folder(folder, url)
        found.append(
            RelayAccount(
                place(url),
                url,
                _password(kept / _PASSWORD_FILE),
                _if_there(kept / _AUTHORITIES_FILE),
                ClientCertificate(kept / BUNDLE_FILE) if (kept / BUNDLE_FILE).exists() else None,
                relay.allow_tls12,
            )
        )
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


def keep_further(folder: StateFolder, url: str, credential: str, authorities: str) -> None:
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
    if credential:
        name, other = (BUNDLE_FILE, _PASSWORD_FILE) if is_certificate(credential) else (_PASSWORD_FILE, BUNDLE_FILE)
        write_secret(kept / name, credential.encode())
        remove_durably(kept / other)
    client = ClientCertificate(kept / BUNDLE_FILE) if (kept / BUNDLE_FILE).exists() else None
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


def keep_credential(folder: StateFolder, credential: str) -> None:
    """Keep what an authority has minted for the first relay, and use it from the next connection on.

    Raises:
        ConfigurationError: the configuration cannot be changed.
        StorageError: the disk refused.
    """
    if not is_certificate(credential):
        folder.write_relay_password(credential)
        return
    write_secret(folder.path / BUNDLE_FILE, credential.encode())
    folder.configuration.change({"relay.client_certificate": BUNDLE_FILE, "relay.client_key": None})


def _password(path: Path) -> str:
    return read_secret(path, _MAXIMUM_PASSWORD_BYTES).decode().strip() if path.exists() else ""


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None
