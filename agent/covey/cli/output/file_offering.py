"""Offer a file, or a patch of it, to a group, while a person waits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.content import put_file
from covey.app.content.patches import offer_patch
from covey.app.wording import size_text
from covey.cli.output.progress_line import ProgressLine, bar_text
from covey.cli.output.terminal import explained_interruption
from covey.core.ids import printable

if TYPE_CHECKING:
    from collections.abc import Collection

    from covey.app.content.file_offers import GroupFile
    from covey.app.device.device import Device
    from covey.cli.grammar import Parser
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import NoisePublic


def offer_options(parser: Parser) -> None:
    """Add the options for a file, its name, and the base of a patch."""
    parser.add_argument("file", metavar="FILE", help="file of at most 100 MiB")
    parser.add_argument("--name", metavar="NAME", help="name for members (default: name of the file)")
    parser.add_argument("--base", metavar="REF", help="also offer a patch from this earlier version: its name or id")


def put_with_progress(
    device: Device,
    manifest: GroupManifest,
    path: Path,
    name: str | None,
    readers: Collection[NoisePublic] = (),
    *,
    pinned: bool = True,
) -> GroupFile:
    """Offer a file and show progress; raises the errors of `put_file`."""
    size = path.stat().st_size if path.is_file() else 0
    with explained_interruption(lambda: "nothing was offered"), ProgressLine() as line:

        def moves(done: int) -> None:
            line.show(f"{bar_text(done, size)}  encrypted {size_text(done)}  {path.name}")

        moves(0)
        return put_file(device, manifest, path, name, moves, readers, pinned=pinned)


def offer_patch_with_progress(
    device: Device,
    manifest: GroupManifest,
    base: GroupFile,
    offer: GroupFile,
    what_stays: str,
    readers: Collection[NoisePublic] = (),
) -> GroupFile | None:
    """Offer a patch and show how long it takes; raises the errors of `offer_patch`.

    Ctrl-C ends it, and prints `what_stays`.
    """
    name = printable(base.file.name)
    with explained_interruption(lambda: what_stays), ProgressLine() as line:
        line.show(f"making a patch from '{name}'", last=True)
        return offer_patch(
            device,
            manifest,
            base,
            offer,
            lambda seconds: line.show(f"making a patch from '{name}'  {seconds:.0f} s"),
            readers,
        )


def patch_text(offer: GroupFile, base: GroupFile, patch: GroupFile | None) -> str:
    """Return how much a patch saves, or that none is offered."""
    name = printable(base.file.name)
    if patch is None:
        return f"no patch offered: from '{name}' it would be about as large as the file"
    size, whole = patch.file.content.size, offer.file.content.size
    saved = f"{100 * size / max(1, whole):.0f} % of the file, {size_text(whole - size)} less"
    return f"devices that have '{name}' fetch a patch of {size_text(size)}: {saved}"
