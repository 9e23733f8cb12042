"""`covey get REF`: fetch a file that a member offers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.content import described, open_file, target_of
from covey.app.content.file_offers import GroupFile, lacks_secret, opening_of, pick_offer
from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.cli.content_view import fetch_with_progress, saved_text, wait_option
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.interruption import explained_interruption
from covey.cli.progress_line import ProgressLine
from covey.cli.quantities import size_text
from covey.cli.terminal import print_json
from covey.core.ids import printable
from covey.errors import DamagedFileError

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("ref", metavar="REF", help="its name, or the beginning of its id or hash")
    parser.add_argument("-o", "--output", metavar="PATH", help="the file or folder to write (default: its name, here)")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--pin", action="store_true", help="keep it on this device when room is short")
    wait_option(parser)
    group_option(parser)
    json_option(parser)
    parser.set_defaults(act=on_device(_get))


def _get(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = pick_offer(device, manifest, options.ref)
    target = target_of(offer, options.output, replace=options.force)
    if not lacks_secret(device, manifest, offer):
        opening_of(device, manifest, offer)  # who cannot open it need not wait for it
    saved = fetch_with_progress(device, manifest, offer, options.wait, pin=options.pin, opening=True)
    try:
        _open(device, manifest, offer, target, replace=options.force)
    except DamagedFileError:
        fetch_with_progress(device, manifest, offer, options.wait, pin=options.pin)
        _open(device, manifest, offer, target, replace=options.force)
    if options.json:
        print_json({**to_json(described(device, manifest, offer)), "path": str(target), "saved": saved})
    else:
        size = size_text(offer.file.content.size)
        print(f"{target}: {size}{saved_text(offer, saved)}", file=sys.stderr)


def _open(device: Device, manifest: GroupManifest, offer: GroupFile, target: Path, *, replace: bool) -> None:
    stays = f"it is here, and not at {target}; 'covey get {offer.operation.id.hex()[:8]}' writes it there"
    with explained_interruption(lambda: stays), ProgressLine() as line:
        line.show(f"writes {size_text(offer.file.content.size)}  {printable(offer.file.name)}", last=True)
        open_file(device, manifest, offer, target, replace=replace)
