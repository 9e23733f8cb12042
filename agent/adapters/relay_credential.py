"""Where a device keeps what lets it into its broker: a password, or a certificate with its private key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.adapters.key_file import write_secret

if TYPE_CHECKING:
    from agent.adapters.state_folder import StateFolder

BUNDLE_FILE = "relay.pem"
"""In the state folder: a private key and the certificate for it, mode 0600."""


def is_certificate(credential: str) -> bool:
    """Say whether a credential is a PEM bundle rather than a password."""
    return credential.startswith("-----BEGIN ")


def keep_credential(folder: StateFolder, credential: str) -> None:
    """Keep what an authority has minted, and use it from the next connection on.

    Raises:
        ConfigurationError: the configuration cannot be changed.
        StorageError: the disk refused.
    """
    if not is_certificate(credential):
        folder.write_relay_password(credential)
        return
    write_secret(folder.path / BUNDLE_FILE, credential.encode())
    folder.change_config({"relay.client_certificate": BUNDLE_FILE, "relay.client_key": None})
