"""`covey put FILE`: offer a file to the members of a group, or have some of them fetch it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.content import FETCH_ACTION, described
from covey.app.content.documents import OfferedFile
from covey.app.content.file_offers import pick_offer
from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.orders.commands import check_may_order, give_command, readers_of
from covey.cli.command_view import print_ordered, seconds_to_wait, wait_for_devices, wait_options
from covey.cli.device_options import on_device
from covey.cli.file_offering import offer_options, offer_patch_with_progress, patch_text, put_with_progress
from covey.cli.grammar import Parser, group_option, json_option, selector_option
from covey.cli.quantities import size_text
from covey.cli.terminal import print_json
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import NoisePublic


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    offer_options(parser)
    parser.add_argument(
        "--pin",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="it stays here until it is dropped, for nobody else may have it yet; else newer files may take its room",
    )
    selector_option(parser, default=None)
    parser.add_argument(
        "--secret",
        action="store_true",
        help="only those can open it whom --for names now; for one device alone that is so anyway",
    )
    parser.add_argument(
        "--action",
        metavar="ACTION",
        help=f"what those do with it: an action that takes `group` and `file` (default: {FETCH_ACTION})",
    )
    wait_options(parser)
    group_option(parser)
    json_option(parser)
    parser.set_defaults(act=on_device(_put))


def _put(device: Device, options: argparse.Namespace) -> int:
    seconds_to_wait(wait=options.wait, timeout=options.timeout)  # a mistake is told before anything is offered
    manifest, path = device.pick_group(options.group), Path(options.file)
    readers: list[NoisePublic] = []
    if options.selector is not None:
        check_may_order(device, manifest, options.selector)
        readers = readers_of(manifest, options.selector, secret=options.secret)
    elif options.wait or options.action is not None or options.secret:
        raise UsageError("nobody is to fetch it", hint="--for all, or --for label:NAME, says who is")
    base = None if options.base is None else pick_offer(device, manifest, options.base)
    offer = put_with_progress(device, manifest, path, options.name, readers, pinned=options.pin)
    entry, patch = described(device, manifest, offer), None
    if base is not None:
        stays = f"'{entry.name}' is offered whole as {entry.id[:8]}; no patch is, and nobody was told to fetch it"
        patch = offer_patch_with_progress(device, manifest, base, offer, stays, readers)
        if not options.json:
            print(patch_text(offer, base, patch))
    if options.selector is not None:
        return _order(device, manifest, entry, options)
    if options.json:
        print_json({**to_json(entry), "patch_bytes": None if patch is None else patch.file.content.size})
    else:
        print(f"'{entry.name}', {size_text(entry.size)}, is offered as {entry.id[:8]}: 'covey get {entry.id[:8]}'")
    return 0


def _order(device: Device, manifest: GroupManifest, entry: OfferedFile, options: argparse.Namespace) -> int:
    """Have devices fetch a file, or do with it what their owners have defined."""
    arguments = {"group": manifest.group_id.hex(), "file": entry.id}
    action = FETCH_ACTION if options.action is None else options.action
    given = give_command(device, manifest, action, arguments, options.selector, None)
    if not options.json:
        print(f"'{entry.name}', {size_text(entry.size)}, is offered as {entry.id[:8]}")
        print_ordered(given)
    elif not options.wait:
        order = {**to_json(given.order), "devices": given.devices, "obeying": given.obeying}
        print_json({**to_json(entry), "order": order})
    if not options.wait:
        return 0
    return wait_for_devices(
        device,
        manifest,
        given.order.id,
        seconds_to_wait(wait=options.wait, timeout=options.timeout),
        as_json=options.json,
    )
