"""`covey init`: make this machine a device."""

from __future__ import annotations

import argparse

from covey.app.device.creating import create_device
from covey.app.documents import to_json
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.output.terminal import print_json


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--label", default="", help="name for people, shown next to the device's own name")
    parser.add_argument("--passphrase", action="store_true", help="encrypt the keys with a passphrase, and ask for it")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    with_passphrase = bool(options.passphrase or options.passphrase_file)
    made = create_device(state_folder(options), options.label, with_passphrase=with_passphrase)
    if options.json:
        print_json(to_json(made))
        return 0
    print(f"device {made.name} {made.label}".strip())
    print(f"  broker username  {made.signing_public}")
    print(f"  state            {made.state}")
    print("next: covey join CODE; on the hub: covey relay serve; with a relay elsewhere: covey relay set URL")
    return 0
