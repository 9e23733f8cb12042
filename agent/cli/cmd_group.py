"""`covey group create|show`."""

from __future__ import annotations

import argparse

from agent.cli.session import open_session, print_json, print_table
from agent.core.group_manifest import GroupManifest
from agent.core.ids import device_name, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=["create", "show"])
    parser.add_argument("--group", metavar="ID", help="beginning of the group's id, where there are several")
    parser.add_argument(
        "--capability", action="append", default=[], help="create: what this device does in the group, e.g. collector"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Create or show a group."""
    with open_session(options) as session:
        if options.action == "create":
            with session.store.transaction():
                manifest = session.node.membership.create(
                    session.config.label, tuple(options.capability), session.now().wall_us
                )
        else:
            manifest = session.pick_group(options.group)
        own = session.node.identity.signing_public
    if options.json:
        print_json(as_json(manifest))
    else:
        show(manifest, own)
    return 0


def show(manifest: GroupManifest, own: bytes) -> None:
    """Print a manifest for people."""
    print(f"group    {manifest.group_id.hex()}")
    print(f"version  {manifest.version}, issued by {device_name(manifest.issuer)}")
    rows = [
        (
            member.name + (" (this device)" if member.keys.signing_public == own else ""),
            printable(member.label) or "-",
            ", ".join(printable(each) for each in member.capabilities) or "-",
        )
        for member in manifest.members
    ]
    print_table(["member", "label", "capabilities"], rows)


def as_json(manifest: GroupManifest) -> dict[str, object]:
    """Return a manifest as JSON values."""
    return {
        "group_id": manifest.group_id.hex(),
        "version": manifest.version,
        "issuer": manifest.issuer.hex(),
        "epoch": manifest.epoch,
        "mode": manifest.mode.name.lower(),
        "members": [
            {
                "name": member.name,
                "label": member.label,
                "role": member.role.name.lower(),
                "capabilities": list(member.capabilities),
                "signing_public": member.keys.signing_public.hex(),
                "noise_public": member.keys.noise_public.hex(),
            }
            for member in manifest.members
        ],
    }
