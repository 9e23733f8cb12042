"""`covey init`: draw an identity and write a configuration."""

from __future__ import annotations

import argparse

from covey.app.device.creating import create_device
from covey.app.documents import to_json
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.relay_warning import warn_of_exposure
from covey.cli.terminal import print_json, read_text_file


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
    password = read_text_file(options.password_file).strip() if options.password_file else ""
    with_passphrase = bool(options.passphrase or options.passphrase_file)
    made = create_device(state_folder(options), options.label, options.relay, password, with_passphrase=with_passphrase)
    warn_of_exposure([options.relay] if options.relay else [])
    if options.json:
        print_json(to_json(made))
        return 0
    print(f"device {made.name} {made.label}".strip())
    print(f"  broker username  {made.signing_public}")
    print(f"  state            {made.state}")
    if options.relay:
        print("next: covey group create, or covey join CODE")
    else:
        print("next: covey join CODE; on the hub covey relay serve; or covey relay --url URL --password-file FILE")
    return 0
