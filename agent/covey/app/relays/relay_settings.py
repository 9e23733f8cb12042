"""A device's relays and their credentials: the first relay and further ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.core.ids import inbox_name
from covey.errors import UsageError
from covey.limits.relay import MAXIMUM_RELAYS

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder


@dataclass(frozen=True, slots=True)
class NamedAccess:
    """The files that a person names for a relay, None where none is; `read` gives the text of one, `-` is stdin."""

    ca_file: str | None
    password_file: str | None
    certificate: str | None
    key: str | None
    read: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class UsedRelay:
    """A relay, and how this device signs in to it; `password` is `set` or `not set`, and never the password."""

    url: str
    username: str
    password: str
    client_certificate: str
    ca_file: str


def used_relays(folder: StateFolder) -> list[UsedRelay]:
    """Return every relay, the first one first."""
    from covey.adapters.keys.relay_credential import accounts

    config, identity = folder.configuration.config(), folder.identity()
    username = inbox_name(identity.signing_public)
    return [
        UsedRelay(
            each.url,
            username,
            _whether(each.password),
            str(each.client.certificate_file) if each.client else "",
            str(each.ca_file or ""),
        )
        for each in (accounts(folder, config, identity) if config.relay.url else [])
    ]


def _whether(password: str | None) -> str:
    return "set" if password else "not set"


def exposes_password(url: str) -> bool:
    """Say whether a relay's URL has the password cross foreign networks in the clear.

    Raises:
        ConfigurationError: not a relay's URL.
    """
    from covey.adapters.mqtt import settings

    return settings.exposes_password(url)


def change_first(folder: StateFolder, url: str | None, named: NamedAccess) -> None:
    """Change the named properties of the first relay, once all are valid.

    Raises:
        UsageError: a key without its certificate, or one in addition to stdin.
        ConfigurationError: a file, the URL or the certificate is not usable, or others may read the key.
    """
    from covey.adapters.mqtt.settings import parse_url
    from covey.adapters.mqtt.tls import tls_context

    identity = folder.identity()
    if url is not None:
        parse_url(url)
    if named.ca_file:
        tls_context(Path(named.ca_file))
    changes = {"relay.url": url, "relay.ca_file": named.ca_file} | _certificate_settings(named)
    bundle = _bundle(named)
    password = named.read(named.password_file).strip() if named.password_file is not None else None
    changed = {key: value for key, value in changes.items() if value is not None}
    if changed:
        folder.configuration.change(changed)
    if bundle is not None:
        from covey.adapters.keys.relay_credential import keep_credential

        keep_credential(folder, bundle, identity)
    if password is not None:
        folder.write_relay_password(password, identity)


def _certificate_settings(named: NamedAccess) -> dict[str, str]:
    if named.certificate is None and named.key is None:
        return {}
    if named.certificate is None or (named.certificate == "-" and named.key is not None):
        raise UsageError("--key needs --certificate FILE", hint="covey relay set --certificate FILE --key FILE")
    if named.certificate == "-":
        return {}
    from covey.adapters.mqtt.settings import ClientCertificate
    from covey.adapters.mqtt.tls import tls_context

    files = ClientCertificate(Path(named.certificate).absolute(), Path(named.key).absolute() if named.key else None)
    tls_context(None, files)
    return {"relay.client_certificate": str(files.certificate_file), "relay.client_key": str(files.key_file or "")}


def _bundle(named: NamedAccess) -> str | None:
    if named.certificate != "-":
        return None
    from covey.adapters.keys.relay_credential import is_certificate

    bundle = named.read("-")
    if not is_certificate(bundle):
        raise UsageError("stdin contains no PEM", hint="'covey broker enrol NAME --ca DIR' writes it")
    return bundle


def add_relay(folder: StateFolder, url: str, named: NamedAccess) -> None:
    """Use a further relay, or give one that is used already another credential.

    Raises:
        UsageError: it is the first one, or there are too many; or two credentials.
        ConfigurationError: the URL, the authority or the certificate is not usable.
    """
    from covey.adapters.keys.relay_credential import keep_further, place
    from covey.adapters.mqtt.tls import tls_context

    relay = folder.configuration.config().relay
    name = place(url)
    also = [each for each in relay.also if place(each) != name]
    if not relay.url:
        raise UsageError("this device has no first relay yet", hint=f"covey relay set {url}")
    if name == place(relay.url):
        raise UsageError(f"{name} is already the first relay", hint="'covey relay set URL' changes it")
    if len(also) + 2 > MAXIMUM_RELAYS:
        raise UsageError(
            f"a device can have at most {MAXIMUM_RELAYS} relays", hint="remove one first: covey relay remove URL"
        )
    if named.password_file is not None and named.certificate is not None:
        raise UsageError("give a password or a certificate, not both")
    source = named.certificate or named.password_file
    credential = named.read(source).strip() if source is not None else ""
    if named.key is not None:
        credential += "\n" + named.read(named.key).strip()
    if named.ca_file is not None:
        tls_context(Path(named.ca_file))
    authorities = named.read(named.ca_file) if named.ca_file is not None else ""
    keep_further(folder, url, credential, authorities, folder.identity())
    folder.configuration.change({"relay.also": (*also, url)})


def remove_relay(folder: StateFolder, url: str) -> None:
    """Stop using a relay, and delete its credentials.

    Raises:
        UsageError: it is not used, or it is the first one.
    """
    from covey.adapters.keys.relay_credential import forget_further, place

    relay = folder.configuration.config().relay
    name = place(url)
    if relay.url and name == place(relay.url):
        raise UsageError(f"{name} is the first relay", hint="replace it: covey relay set URL")
    also = tuple(each for each in relay.also if place(each) != name)
    if also == relay.also:
        raise UsageError(f"{name} is not a relay of this device", hint="'covey relay list' shows them")
    folder.configuration.change({"relay.also": also or None})
    forget_further(folder, url)
