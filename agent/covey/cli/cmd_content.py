"""`covey content`: the files of a group, and what is here of them."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.content import (
    described,
    drop_file,
    export_file,
    holders,
    import_file,
    is_here,
    is_patch,
    pin_file,
    repair_file,
)
from covey.app.content.documents import ASKED, WAITING, OfferedFile
from covey.app.content.file_offers import GroupFile, offers, pick_offer
from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.wording import count
from covey.cli.content_view import fetch_with_progress, saved_text, wait_option
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.interruption import explained_interruption
from covey.cli.progress_line import ProgressLine, bar_text
from covey.cli.quantities import date_text, size_text
from covey.cli.terminal import confirm, print_fields, print_json, print_table
from covey.core.ids import labelled_name, printable

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="ls")
    actions.add("ls", on_device(_list), "list the files that members offer, the newest first", also=["list"])
    actions.add("waiting", on_device(_waiting), "list what this device has asked for and not got yet")
    show = actions.add("show", on_device(_show), "show one file, and who has it")
    fetch = actions.add("fetch", on_device(_fetch), "have a file here, sealed as it is; 'covey get' opens it later")
    fetch.add_argument("--pin", action="store_true", help="keep it on this device when room is short")
    wait_option(fetch)
    pin = actions.add("pin", on_device(_pin), "keep a file on this device when room is short")
    pin.add_argument("--off", action="store_true", help="let it go again when room is short")
    drop = actions.add("drop", on_device(_drop), "let go of a file here, or stop asking for it")
    drop.add_argument("--yes", action="store_true", help="do not ask where nobody else is known to have it")
    export = actions.add("export", on_device(_export), "write a file that is here onto a stick, as it is sealed")
    export.add_argument("--force", action="store_true", help="write over a file that is there")
    import_ = actions.add("import", on_device(_import), "take a file from a stick, as if it had been fetched")
    import_.add_argument("path", metavar="PATH", help="what 'covey content export' has written")
    verify = actions.add("verify", on_device(_verify), "read the files that are here; what is damaged is fetched anew")
    for action in (show, fetch, pin, drop, export):
        action.add_argument("ref", metavar="REF", help="its name, or the beginning of its id or hash")
    export.add_argument("path", metavar="PATH", help="the file or folder to write; only members can open it")
    verify.add_argument("ref", nargs="?", metavar="REF", help="one file (default: all that are here)")
    for action in dict.fromkeys(parser.actions.values()):
        group_option(action)
        json_option(action)


def _list(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    found = [described(device, manifest, each) for each in offers(device, manifest)]
    _print([each for each in found if options.json or not is_patch(each)], as_json=options.json)


def _waiting(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    entries = [described(device, manifest, each) for each in offers(device, manifest)]
    _print([each for each in entries if each.state in WAITING], as_json=options.json)


def _print(entries: list[OfferedFile], *, as_json: bool) -> None:
    if as_json:
        print_json([to_json(each) for each in entries])
        return
    if not entries:
        print("no files")
        return
    print_table(
        ["id", "name", "size", "from", "offered", "here", "others"],
        [
            (
                each.id[:8],
                printable(each.name),
                size_text(each.size),
                labelled_name(each.author[:8], each.label),
                date_text(each.offered_at_us),
                _here(each),
                each.holders or None,
            )
            for each in entries
        ],
    )


def _here(entry: OfferedFile) -> str:
    if entry.state == ASKED:
        return f"{size_text(entry.come)} so far"
    return f"{entry.state}, pinned" if entry.pinned else entry.state


def _show(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = pick_offer(device, manifest, options.ref)
    entry = described(device, manifest, offer)
    having = holders(device, manifest, offer)
    if options.json:
        print_json({**to_json(entry), "held_by": [*having]})
        return
    print_fields(
        {
            "id": entry.id,
            "name": printable(entry.name),
            "size": f"{entry.size} bytes",
            "offered by": labelled_name(entry.author, entry.label),
            "offered at": date_text(entry.offered_at_us),
            "hash": entry.hash,
            "here": _here(entry),
            "others": ", ".join(labelled_name(key[:8], label) for key, label in having.items()),
        }
    )


def _fetch(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = pick_offer(device, manifest, options.ref)
    saved = fetch_with_progress(device, manifest, offer, options.wait, pin=options.pin)
    if options.json:
        print_json({**to_json(described(device, manifest, offer)), "saved": saved})
    else:
        opens = f"'covey get {offer.operation.id.hex()[:8]}' opens it"
        print(f"'{printable(offer.file.name)}' is here{saved_text(offer, saved)}; {opens}")


def _pin(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = pick_offer(device, manifest, options.ref)
    pin_file(device, offer, pinned=not options.off)
    _say(device, options, f"'{printable(offer.file.name)}' {'may go' if options.off else 'stays'} when room is short")


def _drop(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = pick_offer(device, manifest, options.ref)
    name = printable(offer.file.name)
    if is_here(device, offer) and not holders(device, manifest, offer):
        confirm(f"nobody else is known to have '{name}'; let go of it?", options.yes)
    drop_file(device, offer)
    _say(device, options, f"'{name}' is no longer here")


def _export(device: Device, options: argparse.Namespace) -> None:
    offer = pick_offer(device, device.pick_group(options.group), options.ref)
    name, size = printable(offer.file.name), offer.file.content.sealed_size
    with explained_interruption(lambda: f"nothing of '{name}' is at {options.path}"), ProgressLine() as line:
        target = export_file(device, offer, options.path, partial(_show_moved, line, name, size), replace=options.force)
    if options.json:
        print_json({"path": str(target), "hash": offer.file.content.hash.hex()})
    else:
        print(f"{target}: {size_text(offer.file.content.sealed_size)}, for members alone")


def _import(device: Device, options: argparse.Namespace) -> None:
    manifest, path = device.pick_group(options.group), Path(options.path)
    size = path.stat().st_size if path.is_file() else 0
    with explained_interruption(lambda: "nothing was taken; say it again"), ProgressLine() as line:
        offer = import_file(device, manifest, path, partial(_show_moved, line, path.name, size))
    if options.json:
        print_json(to_json(described(device, manifest, offer)))
    else:
        print(f"'{printable(offer.file.name)}' is here: 'covey get {offer.operation.id.hex()[:8]}' opens it")


def _verify(device: Device, options: argparse.Namespace) -> int:
    manifest = device.pick_group(options.group)
    chosen = [pick_offer(device, manifest, options.ref)] if options.ref else [*offers(device, manifest)]
    here = [each for each in chosen if is_here(device, each)]
    damaged = _damaged(device, manifest, here)
    if options.json:
        print_json({"verified": len(here), "damaged": damaged})
    for each in () if options.json else damaged:
        print(f"damaged: {printable(each)}; it is fetched anew: 'covey content waiting' shows how far it is")
    if not options.json:
        print(f"{count(len(here) - len(damaged), 'file')} of {len(here)} whole")
    return 1 if damaged else 0


def _damaged(device: Device, manifest: GroupManifest, here: list[GroupFile]) -> list[str]:
    """Read files that are here, and have those fetched anew that are not whole; return the names of these."""
    damaged, whole = list[str](), 0

    def what_stays() -> str:
        done = f"{count(whole, 'file')} of {len(here)} whole"
        refetched = f", {count(len(damaged), 'damaged one')} fetched anew: 'covey content waiting'"
        return f"{done}{refetched if damaged else ''}; the others were not read to their end, and are as they were"

    with explained_interruption(what_stays), ProgressLine() as line:
        for each in here:
            shown = partial(_show_moved, line, each.file.name, each.file.content.sealed_size)
            if repair_file(device, manifest, each, shown):
                damaged.append(each.file.name)
            else:
                whole += 1
    return damaged


def _show_moved(line: ProgressLine, name: str, size: int, done: int) -> None:
    line.show(f"{bar_text(done, size)}  {size_text(done)} of {size_text(size)}  {printable(name)}")


def _say(device: Device, options: argparse.Namespace, line: str) -> None:
    if options.json:
        manifest = device.pick_group(options.group)
        print_json(to_json(described(device, manifest, pick_offer(device, manifest, options.ref))))
    else:
        print(line)
