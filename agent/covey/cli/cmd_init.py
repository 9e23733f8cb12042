"""`covey init`: draw an identity and write a configuration."""

from __future__ import annotations

import argparse

from covey.adapters.keys.identity_file import find_passphrase
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import print_json, read_text_file
from covey.core.ids import device_name, truncate_utf8
from covey.limits.group import MAXIMUM_LABEL_BYTES


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--label", default="", help="a name for people, shown beside the device's own")
    parser.add_argument(
        "--relay", metavar="URL", default="", help="the broker: mqtt://HOST[:PORT], or mqtts:// for TLS"
    )
    parser.add_argument("--password-file", metavar="FILE", help="file with the broker password; - is stdin")
    parser.add_argument("--passphrase", action="store_true", help="ask for a passphrase, and seal the key under it")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Make this machine a device."""
    folder = state_folder(options)
    label = truncate_utf8(options.label, MAXIMUM_LABEL_BYTES)
    password = read_text_file(options.password_file).strip() if options.password_file else ""
    if options.relay:
        from covey.adapters.mqtt.settings import parse_url

        parse_url(options.relay)
    passphrase = find_passphrase(folder.passphrase_file, twice=True) if _wants_passphrase(options) else None
    named = {"label": label, "relay.url": options.relay}
    identity = folder.create({key: value for key, value in named.items() if value}, passphrase)
    if password:
        folder.write_relay_password(password)
    with_store = folder.store(folder.config())
    with_store.close()
    shown = {
        "name": device_name(identity.signing_public),
        "label": label,
        "signing_public": identity.signing_public.hex(),
        "noise_public": identity.noise_public.hex(),
        "state": str(folder.path),
    }
    if options.json:
        print_json(shown)
        return 0
    print(f"device {shown['name']} {label}".strip())
    print(f"  broker username  {shown['signing_public']}")
    print(f"  state            {folder.path}")
    if not options.relay:
        print("next: covey relay --url mqtt://HOST --password-file FILE")
    else:
        print("next: covey group create, or covey join URI")
    return 0


def _wants_passphrase(options: argparse.Namespace) -> bool:
    return bool(options.passphrase or options.passphrase_file)
