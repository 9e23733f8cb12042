"""`covey init`: make this machine a device."""

from __future__ import annotations

import argparse
from pathlib import Path

from covey.app.device.creating import SEAL_CHOICES, KeyProtection, create_device
from covey.app.documents import to_json
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.output.terminal import print_json


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--label", default="", help="name for people, shown next to the device's own name")
    parser.add_argument(
        "--seal",
        choices=SEAL_CHOICES,
        default="best",
        metavar="SEAL",
        help="how to keep the key: see 'covey help key seal' (default: best)",
    )
    parser.add_argument("--module", type=Path, metavar="FILE", help="shared library of the token (PKCS#11)")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    folder = state_folder(options)
    seal = "passphrase" if options.seal == "best" and folder.passphrase_file else options.seal
    made = create_device(folder, options.label, KeyProtection(seal, options.module, folder.passphrase_file))
    if options.json:
        print_json(to_json(made))
        return 0
    print(f"device {made.name} {made.label}".strip())
    print(f"  broker username  {made.broker_username}")
    print(f"  state            {made.state}")
    print(f"  key              {made.key}")
    print("next: covey join CODE; on the hub: covey relay serve; with a relay elsewhere: covey relay set URL")
    return 0
