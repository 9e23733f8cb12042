"""Wait for the group that this device has asked to join."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from covey.app.device.device import Device
from covey.app.device.relay_access import lacks_account
from covey.app.groups.groups import labels_in
from covey.app.groups.previews import PreviewedMember
from covey.app.history.writing import group_profile
from covey.app.pairing.joining import await_group
from covey.cli.output.group_view import group_as_json, show_group
from covey.cli.output.terminal import TIME_UP, print_json
from covey.core.ids import GroupId, printable


def print_operators(operators: Sequence[PreviewedMember]) -> None:
    """Print the operators that the new device obeys by the invite."""
    for index, each in enumerate(operators):
        head = "operators:" if index == 0 else ""
        print(f"{head:<17} {each.name} {each.fingerprint} {printable(each.label)}".rstrip(), file=sys.stderr)
    if not operators:
        print("operators:        none", file=sys.stderr)


def wait_for_group(device: Device, group_id: GroupId, seconds: float, *, as_json: bool) -> int:
    """Wait until the inviter lets this device in, and print the group; return the exit code."""
    if lacks_account(device):
        print("note: this device has no account at the relay and cannot send: see 'covey relay'", file=sys.stderr)
    print("asking to join ...", file=sys.stderr)
    manifest = await_group(device, group_id, seconds)
    if manifest is None:
        print("error: no answer yet", file=sys.stderr)
        print("hint: 'covey run' keeps asking while the invite is valid", file=sys.stderr)
        return TIME_UP
    if as_json:
        print_json(group_as_json(manifest, group_profile(device, manifest), labels_in(device, manifest)))
    else:
        show_group(
            manifest,
            group_profile(device, manifest),
            device.node.identity.signing_public,
            labels_in(device, manifest),
        )
    return 0
