"""`covey key show|fingerprint|rotate|seal`: public keys, a new noise key, and how this device's key is kept."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from covey.app.agent.machine_service import done_as_owner_of_seal
from covey.app.device.creating import SEAL_CHOICES, KeyProtection, keep_key
from covey.app.device.device import Device
from covey.app.groups.groups import pick_member
from covey.app.loop.noise_keys import retired_keys, rotate_noise_key
from covey.cli.device_options import open_device, state_folder
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.output.terminal import print_json
from covey.core.ids import device_name, fingerprint, key_text


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    for name, summary in (
        ("show", "show the public keys of this device or a member"),
        ("fingerprint", "print the fingerprint of this device or a member"),
        ("rotate", "renew this device's noise key and announce it to its groups"),
    ):
        action = actions.add(name, run, summary)
        if name != "rotate":
            action.add_argument(
                "device", nargs="?", metavar="DEVICE", help="member: label, or start of key (default: this device)"
            )
            group_option(action)
        json_option(action)
    seal = actions.add("seal", run_seal, "bind this device's key to this machine or a token, or undo that")
    seal.add_argument(
        "seal",
        nargs="?",
        choices=SEAL_CHOICES,
        metavar="SEAL",
        help=f"{', '.join(SEAL_CHOICES[:-1])} or {SEAL_CHOICES[-1]} (default: show)",
    )
    seal.add_argument("--module", type=Path, metavar="FILE", help="shared library of the token (PKCS#11)")
    seal.add_argument(
        "--new-passphrase-file", type=Path, metavar="FILE", help="file with the new passphrase or the token's PIN"
    )
    json_option(seal)


def run_seal(options: argparse.Namespace) -> int:
    folder = state_folder(options)
    code = done_as_owner_of_seal(folder, options.seal)
    if code is not None:
        return code
    if options.seal is None:
        seal, about = folder.how_seed_is_kept()
    else:
        seal, about = keep_key(folder, KeyProtection(options.seal, options.module, options.new_passphrase_file))
    if options.json:
        print_json({"seal": seal, "about": about})
    else:
        print(f"key  {about}")
    return 0


def run(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        if options.action == "rotate":
            rotate_noise_key(device)
        keys = device.node.identity.keys
        retired = _retired(device)
        if options.action != "rotate" and options.device is not None:
            keys = pick_member(device.pick_group(options.group), options.device).keys
            retired = []
    shown = {
        "device": device_name(keys.signing_public),
        "fingerprint": fingerprint(keys.signing_public),
        "signing_key": key_text("sign", keys.signing_public),
        "noise_key": key_text("noise", keys.noise_public),
    }
    if options.json:
        print_json(shown | {"retired_noise_keys": retired})
    elif options.action == "fingerprint":
        print(shown["fingerprint"])
    else:
        for name, value in shown.items():
            print(f"{name.replace('_', ' '):<12} {value}")
        for each in retired:
            print(f"{'before':<12} {each['noise_key']}: {each['state']}")
    return 0


def _retired(device: Device) -> list[dict[str, str]]:
    states = []
    for key in retired_keys(device):
        latest = datetime.fromtimestamp(key.latest_us / 1e6, UTC)
        state = (
            f"decrypts messages in transit; deleted once all members have the new key, by {latest:%Y-%m-%d %H:%M} UTC"
        )
        if key.listed:
            state = "a group still lists it; the agent announces the new key there"
        states.append({"noise_key": key_text("noise", key.public), "state": state})
    return states
