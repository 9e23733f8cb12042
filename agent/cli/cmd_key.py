"""`covey key show|fingerprint`: this device's public keys, and what people compare."""

from __future__ import annotations

import argparse

from agent.cli.cmd_group import pick_member
from agent.cli.session import open_session, print_json
from agent.core.ids import device_name, fingerprint, key_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=["show", "fingerprint"])
    parser.add_argument("device", nargs="?", help="a member of the group instead: beginning of its key, or its label")
    parser.add_argument("--group", metavar="ID", help="beginning of the group's id, where there are several")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Show keys, this device's or a member's."""
    with open_session(options) as session:
        keys = session.node.identity.keys
        if options.device is not None:
            keys = pick_member(session.pick_group(options.group), options.device).keys
    shown = {
        "device": device_name(keys.signing_public),
        "fingerprint": fingerprint(keys.signing_public),
        "signing_key": key_text("sign", keys.signing_public),
        "noise_key": key_text("noise", keys.noise_public),
    }
    if options.json:
        print_json(shown)
    elif options.action == "fingerprint":
        print(shown["fingerprint"])
    else:
        for name, value in shown.items():
            print(f"{name.replace('_', ' '):<12} {value}")
    return 0
