"""`covey relay`: show or set the broker."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.session import print_json, read_text_file, state_folder
from agent.errors import UsageError

if TYPE_CHECKING:
    from agent.adapters.state_folder import StateFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--url", help="mqtt://HOST[:PORT], or mqtts:// for TLS")
    parser.add_argument("--password-file", metavar="FILE", help="file with this device's broker password; - is stdin")
    parser.add_argument(
        "--ca-file", metavar="FILE", help="PEM file of the authority that signed the broker's certificate"
    )
    parser.add_argument(
        "--certificate", metavar="FILE", help="PEM file of this device's certificate; - is stdin, with its key"
    )
    parser.add_argument("--key", metavar="FILE", help="PEM file of the certificate's key, unless it stands beside it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Change what is named, then show what holds. The password itself is never shown."""
    folder = state_folder(options)
    identity = folder.identity()
    if options.url is not None:
        from agent.adapters.mqtt_settings import parse_url

        parse_url(options.url)
    changes = {"relay.url": options.url, "relay.ca_file": options.ca_file}
    named = {key: value for key, value in changes.items() if value is not None}
    if named:
        folder.change_config(named)
    if options.certificate is not None or options.key is not None:
        _take_certificate(folder, options.certificate, options.key)
    config = folder.config()
    relay = config.relay
    if options.password_file is not None:
        folder.write_relay_password(read_text_file(options.password_file).strip())
    shown = {
        "url": relay.url,
        "ca_file": relay.ca_file,
        "username": identity.signing_public.hex(),
        "password": "set" if folder.relay_password(config) else "not set",
        "client_certificate": relay.client_certificate,
        "client_key": relay.client_key,
    }
    if options.json:
        print_json(shown)
    else:
        for name, value in shown.items():
            print(f"{name.replace('_', ' '):<18} {value or '-'}")
    return 0


def _take_certificate(folder: StateFolder, certificate: str | None, key: str | None) -> None:
    """Use a certificate from now on: files that stay where they are, or what stdin brings, kept in the state folder.

    Raises:
        UsageError: a key without its certificate, or one beside stdin.
        ConfigurationError: the files are no certificate with its key, or others may read the key.
    """
    if certificate is None or (certificate == "-" and key is not None):
        raise UsageError("--key belongs to a --certificate FILE", hint="covey relay --certificate FILE --key FILE")
    if certificate == "-":
        from agent.adapters.relay_credential import is_certificate, keep_credential

        bundle = read_text_file("-")
        if not is_certificate(bundle):
            raise UsageError("stdin holds no PEM", hint="covey broker enrol NAME --ca DIR makes what is wanted")
        keep_credential(folder, bundle)
        return
    from agent.adapters.mqtt_settings import ClientCertificate, tls_context

    files = ClientCertificate(Path(certificate).absolute(), Path(key).absolute() if key else None)
    tls_context(None, files)
    folder.change_config(
        {"relay.client_certificate": str(files.certificate_file), "relay.client_key": str(files.key_file or "")}
    )
