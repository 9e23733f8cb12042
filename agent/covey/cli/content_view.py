"""Fetching a file of a group while a person waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.content.content import pin_file, wait_until_it_opens
from covey.app.content.file_offers import GroupFile, lacks_secret
from covey.app.content.patches import fetch_smallest
from covey.cli.grammar import seconds_option
from covey.cli.interruption import explained_interruption
from covey.cli.progress_line import ProgressLine, bar_text
from covey.cli.quantities import size_text
from covey.core.ids import printable

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.cli.grammar import Parser
    from covey.core.group.manifest import GroupManifest


def wait_option(parser: Parser) -> None:
    """Add --wait, which says how long to wait for a file."""
    seconds_option(parser, "--wait", "time to wait (default: 600)", 600.0)


def fetch_with_progress(
    device: Device, manifest: GroupManifest, offer: GroupFile, seconds: float, *, pin: bool, opening: bool = False
) -> int:
    """Have a file here, and show how far it is; return the bytes that a patch has saved.

    `opening`: the secret that it opens by is waited for, too, for as long, where this device lacks that.
    Raises what `fetch_smallest` and `wait_until_it_opens` raise.
    """
    whole, name, here = offer.file.content.sealed_size, printable(offer.file.name), 0

    def moves(come: int) -> None:
        nonlocal here
        here = come
        line.show(f"{bar_text(come, whole)}  {size_text(come)} of {size_text(whole)}  {name}")

    def what_stays() -> str:
        command = f"'covey file get {offer.operation.id.hex()[:8]}'"
        who = f"the agent goes on, and so does {command}" if device.folder.locks.agent_runs() else f"{command} goes on"
        return f"'{name}' is asked for still, and {size_text(here)} of {size_text(whole)} stay here; {who}"

    with explained_interruption(what_stays), ProgressLine() as line:
        saved = fetch_smallest(device, manifest, offer, seconds, moves)
        if opening and lacks_secret(device, manifest, offer):
            line.show(f"waits for its key  {name}", last=True)
            wait_until_it_opens(device, manifest, offer, seconds)
    if pin:
        pin_file(device, offer, pinned=True)
    return saved


def saved_text(offer: GroupFile, saved: int) -> str:
    """Return what is said of the bytes that a patch has saved; nothing where it was none."""
    if not saved:
        return ""
    size = offer.file.content.size
    return f": it came as a patch of {size_text(size - saved)}, {100 * (size - saved) // size} % of the whole"
