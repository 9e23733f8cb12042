"""`covey relay`: show or set the broker."""

from __future__ import annotations

import argparse

from agent.cli.session import print_json, read_text_file, state_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--url", help="mqtt://HOST[:PORT], or mqtts:// for TLS")
    parser.add_argument("--password-file", metavar="FILE", help="file with this device's broker password; - is stdin")
    parser.add_argument(
        "--ca-file", metavar="FILE", help="PEM file of the authority that signed the broker's certificate"
    )
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
    config = folder.config()
    relay = config.relay
    if options.password_file is not None:
        folder.write_relay_password(read_text_file(options.password_file).strip())
    shown = {
        "url": relay.url,
        "ca_file": relay.ca_file,
        "username": identity.signing_public.hex(),
        "password": "set" if folder.relay_password(config) else "not set",
    }
    if options.json:
        print_json(shown)
    else:
        for name, value in shown.items():
            print(f"{name:<9} {value or '-'}")
    return 0
