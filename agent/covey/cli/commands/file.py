"""`covey file`: offer files to a group, fetch offered ones, and manage this device's copies."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.content import (
    FETCH_ACTION,
    delete_copy,
    described,
    export_file,
    holders,
    import_file,
    is_here,
    is_patch,
    open_file,
    pin_file,
    repair_file,
    target_of,
    wait_until_it_opens,
)
from covey.app.content.documents import REQUESTED, WAITING, OfferedFile
from covey.app.content.file_offers import GroupFile, awaited_offer, lacks_secret, offers, opening_of, pick_offer
from covey.app.content.patches import fetch_smallest
from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.orders.commands import give_command, readers_of, release_targets
from covey.app.orders.fleet import Scope
from covey.app.wording import count, size_text
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, every_action, group_option, json_option, seconds_option, selector_option
from covey.cli.output.command_view import Awaited, print_ordered, seconds_to_wait, wait_for_devices, wait_options
from covey.cli.output.file_offering import offer_options, offer_patch_with_progress, patch_text, put_with_progress
from covey.cli.output.progress_line import ProgressLine, bar_text
from covey.cli.output.terminal import confirm, explained_interruption, print_fields, print_json, print_table
from covey.cli.quantities import date_text
from covey.core.ids import labelled_name, printable
from covey.errors import DamagedFileError, UsageError

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import NoisePublic


def wait_option(parser: Parser) -> None:
    """Add --wait and --no-wait: how long to wait for a file."""
    seconds_option(parser, "--wait", "time to wait (default: 600)", 600.0)
    parser.add_argument(
        "--no-wait",
        dest="wait",
        action="store_const",
        const=0.0,
        help="only request the file; an agent must be running",
    )


def _awaited(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> GroupFile:
    """Return the file that a person means, which may have been offered a moment ago."""
    name = printable(options.ref)
    with ProgressLine() as line:
        return awaited_offer(
            device,
            manifest,
            options.ref,
            options.wait,
            lambda: line.show(f"no member has offered '{name}' yet; waiting for the group's history", last=True),
        )


def fetch_with_progress(
    device: Device, manifest: GroupManifest, offer: GroupFile, seconds: float, *, pin: bool, opening: bool = False
) -> int:
    """Fetch a file and show progress; return the number of bytes that a patch saved.

    `opening`: also wait, equally long, for the secret that opens it. Raises the errors of `fetch_smallest` and
    `wait_until_it_opens`.
    """
    whole, name, here = offer.file.content.sealed_size, printable(offer.file.name), 0

    def moves(come: int) -> None:
        nonlocal here
        here = come
        line.show(f"{bar_text(come, whole)}  {size_text(come)} of {size_text(whole)}  {name}")

    def what_stays() -> str:
        command = f"covey file get {offer.operation.id.hex()[:8]}"
        who = (
            f"the agent continues; to watch: {command}"
            if device.folder.locks.agent_runs()
            else f"to continue: {command}"
        )
        return f"'{name}' stays requested, {size_text(here)} of {size_text(whole)} are here; {who}"

    with explained_interruption(what_stays), ProgressLine() as line:
        saved = fetch_smallest(device, manifest, offer, seconds, moves)
        if opening and lacks_secret(device, manifest, offer):
            line.show(f"waiting for the key of {name}", last=True)
            wait_until_it_opens(device, manifest, offer, seconds)
    if pin:
        pin_file(device, offer, pinned=True)
    return saved


def saved_text(offer: GroupFile, saved: int) -> str:
    """Return how many bytes a patch saved; empty if there was none."""
    if not saved:
        return ""
    size = offer.file.content.size
    return f", fetched as a patch of {size_text(size - saved)} ({100 * (size - saved) // size} % of the file)"


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    listing = actions.add("list", on_device(_list), "list the files that members offer, newest first", also=["ls"])
    listing.add_argument("--waiting", action="store_true", help="only files that this device is still fetching")
    put = actions.add("put", on_device(_put), "offer a file to the members of a group", examples=_PUT_EXAMPLES)
    _put_options(put)
    get = actions.add("get", on_device(_get), "fetch and decrypt a file", examples=_GET_EXAMPLES)
    fetch = actions.add("fetch", on_device(_fetch), "fetch a file without decrypting it; 'covey file get' does later")
    show = actions.add("show", on_device(_show), "show a file and the members that have it")
    pin = actions.add("pin", on_device(_pin), "keep this device's copy when space is short")
    unpin = actions.add("unpin", on_device(_unpin), "let newer files evict this device's copy")
    delete = actions.add("delete", on_device(_delete), "delete this device's copy, or stop fetching it", also=["rm"])
    export = actions.add("export", on_device(_export), "write an encrypted copy to a USB stick or folder")
    import_ = actions.add("import", on_device(_import), "read a copy that 'covey file export' wrote")
    verify = actions.add("verify", on_device(_verify), "check this device's copies, and fetch damaged ones again")
    for action in (show, get, fetch, pin, unpin, delete, export):
        action.add_argument("ref", metavar="REF", help="name of the file, or start of its id or hash")
    get.add_argument("-o", "--output", metavar="PATH", help="file or folder to write (default: its name, here)")
    get.add_argument("--force", action="store_true", help="overwrite an existing file")
    for action in (get, fetch):
        action.add_argument("--pin", action="store_true", help="keep this device's copy when space is short")
        wait_option(action)
    delete.add_argument("--yes", action="store_true", help="do not ask if no other member is known to have it")
    export.add_argument("path", metavar="PATH", help="file or folder to write; only members can decrypt it")
    export.add_argument("--force", action="store_true", help="overwrite an existing file")
    import_.add_argument("path", metavar="PATH", help="file that 'covey file export' wrote")
    verify.add_argument("ref", nargs="?", metavar="REF", help="check one file (default: all copies here)")
    every_action(parser, group_option, json_option)


_PUT_EXAMPLES = ("covey file put model.bin", "covey file put model.bin --for label:greenhouse --wait")
_GET_EXAMPLES = ("covey file get model.bin -o /srv/model",)


def _put_options(put: Parser) -> None:
    offer_options(put)
    put.add_argument(
        "--pin",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep the local copy until you delete it; otherwise it may be evicted",
    )
    selector_option(put, default=None)
    put.add_argument("--secret", action="store_true", help="encrypt it for the devices that --for selects now")
    put.add_argument(
        "--action",
        dest="run",
        metavar="ACTION",
        help=f"action to run with the file (default: {FETCH_ACTION})",
    )
    wait_options(put)


def _list(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    found = [described(device, manifest, each) for each in offers(device, manifest)]
    if options.waiting:
        shown = [each for each in found if each.state in WAITING]
    else:
        shown = [each for each in found if options.json or not is_patch(each)]
    _print(shown, as_json=options.json)


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
    if entry.state == REQUESTED:
        return f"{size_text(entry.fetched)} so far"
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


def _put(device: Device, options: argparse.Namespace) -> int:
    seconds_to_wait(wait=options.wait, timeout=options.timeout)  # a mistake is told before anything is offered
    manifest, path = device.pick_group(options.group), Path(options.file)
    readers: list[NoisePublic] = []
    if options.selector is not None:
        release_targets(device, (manifest,), options.selector)
        readers = readers_of(manifest, options.selector, secret=options.secret)
    elif options.wait or options.run is not None or options.secret:
        raise UsageError("no device is to fetch the file", hint="name devices: --for all, or --for label:NAME")
    base = None if options.base is None else pick_offer(device, manifest, options.base)
    offer = put_with_progress(device, manifest, path, options.name, readers, pinned=options.pin)
    entry, patch = described(device, manifest, offer), None
    if base is not None:
        stays = f"'{entry.name}' is offered as {entry.id[:8]}, without a patch; no device was told to fetch it"
        patch = offer_patch_with_progress(device, manifest, base, offer, stays, readers)
        if not options.json:
            print(patch_text(offer.file, base.file, None if patch is None else patch.file))
    if options.selector is not None:
        return _order(device, manifest, entry, options)
    if options.json:
        print_json({**to_json(entry), "patch_bytes": None if patch is None else patch.file.content.size})
    else:
        command = f"covey file get {entry.id[:8]}"
        print(f"offered '{entry.name}' ({size_text(entry.size)}) as {entry.id[:8]}; to fetch it: {command}")
    return 0


def _order(device: Device, manifest: GroupManifest, entry: OfferedFile, options: argparse.Namespace) -> int:
    """Order devices to fetch a file, or to run an action of their owners on it."""
    arguments = {"group": manifest.group_id.hex(), "file": entry.id}
    action = FETCH_ACTION if options.run is None else options.run
    given = give_command(device, Scope((manifest,)), action, arguments, options.selector, None)
    if not options.json:
        print(f"offered '{entry.name}' ({size_text(entry.size)}) as {entry.id[:8]}")
        print_ordered(given)
    elif not options.wait:
        order = {**to_json(given.order), "devices": given.devices, "obeying": given.obeying}
        print_json({**to_json(entry), "order": order})
    return wait_for_devices(device, Awaited.order(device, manifest, given.order.id), options)


def _get(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = _awaited(device, manifest, options)
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
    stays = f"fetched, but not written to {target}; to write it: covey file get {offer.operation.id.hex()[:8]}"
    with explained_interruption(lambda: stays), ProgressLine() as line:
        line.show(f"writing {size_text(offer.file.content.size)}  {printable(offer.file.name)}", last=True)
        open_file(device, manifest, offer, target, replace=replace)


def _fetch(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = _awaited(device, manifest, options)
    saved = fetch_with_progress(device, manifest, offer, options.wait, pin=options.pin)
    if options.json:
        print_json({**to_json(described(device, manifest, offer)), "saved": saved})
    else:
        opens = f"to decrypt it: covey file get {offer.operation.id.hex()[:8]}"
        print(f"'{printable(offer.file.name)}' is here{saved_text(offer, saved)}; {opens}")


def _pin(device: Device, options: argparse.Namespace) -> None:
    name = _set_pin(device, options, pinned=True)
    _report(device, options, f"'{name}' is pinned: this device keeps it when space is short")


def _unpin(device: Device, options: argparse.Namespace) -> None:
    name = _set_pin(device, options, pinned=False)
    _report(device, options, f"'{name}' is no longer pinned: newer files may evict it")


def _set_pin(device: Device, options: argparse.Namespace, *, pinned: bool) -> str:
    offer = pick_offer(device, device.pick_group(options.group), options.ref)
    pin_file(device, offer, pinned=pinned)
    return printable(offer.file.name)


def _delete(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    offer = pick_offer(device, manifest, options.ref)
    name = printable(offer.file.name)
    if is_here(device, offer) and not holders(device, manifest, offer):
        confirm(f"no other member is known to have '{name}'; delete this copy?", options.yes)
    delete_copy(device, offer)
    _report(device, options, f"deleted this device's copy of '{name}'")


def _export(device: Device, options: argparse.Namespace) -> None:
    offer = pick_offer(device, device.pick_group(options.group), options.ref)
    name, size = printable(offer.file.name), offer.file.content.sealed_size
    with explained_interruption(lambda: f"nothing was written to {options.path}"), ProgressLine() as line:
        target = export_file(device, offer, options.path, partial(_show_moved, line, name, size), replace=options.force)
    if options.json:
        print_json({"path": str(target), "hash": offer.file.content.hash.hex()})
    else:
        print(f"wrote {target} ({size_text(offer.file.content.sealed_size)}); only members can decrypt it")


def _import(device: Device, options: argparse.Namespace) -> None:
    manifest, path = device.pick_group(options.group), Path(options.path)
    size = path.stat().st_size if path.is_file() else 0
    with explained_interruption(lambda: "nothing was imported; run the command again"), ProgressLine() as line:
        offer = import_file(device, manifest, path, partial(_show_moved, line, path.name, size))
    if options.json:
        print_json(to_json(described(device, manifest, offer)))
    else:
        print(f"'{printable(offer.file.name)}' is here; to decrypt it: covey file get {offer.operation.id.hex()[:8]}")


def _verify(device: Device, options: argparse.Namespace) -> int:
    manifest = device.pick_group(options.group)
    chosen = [pick_offer(device, manifest, options.ref)] if options.ref else [*offers(device, manifest)]
    here = [each for each in chosen if is_here(device, each)]
    damaged = _damaged(device, manifest, here)
    if options.json:
        print_json({"verified": len(here), "damaged": damaged})
    for each in () if options.json else damaged:
        print(f"damaged: {printable(each)}; fetching it again; to see the progress: covey file list --waiting")
    if not options.json:
        print(f"{len(here) - len(damaged)} of {count(len(here), 'file')} intact")
    return 1 if damaged else 0


def _damaged(device: Device, manifest: GroupManifest, here: list[GroupFile]) -> list[str]:
    """Verify the files here, and fetch damaged ones again; return the names of these."""
    damaged, whole = list[str](), 0

    def what_stays() -> str:
        done = f"{whole} of {count(len(here), 'file')} intact"
        refetched = f", {len(damaged)} damaged (fetching again)"
        return f"{done}{refetched if damaged else ''}; the others were not checked"

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


def _report(device: Device, options: argparse.Namespace, line: str) -> None:
    if options.json:
        manifest = device.pick_group(options.group)
        print_json(to_json(described(device, manifest, pick_offer(device, manifest, options.ref))))
    else:
        print(line)
