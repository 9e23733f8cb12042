"""Offer a file, or a patch of it, to a group, while a person waits."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.offering import SealedFile, put_file, seal_file
from covey.app.content.patches import offer_patch, seal_patch
from covey.app.wording import size_text
from covey.cli.output.progress_line import ProgressLine, bar_text
from covey.cli.output.terminal import explained_interruption
from covey.core.ids import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from covey.app.content.file_offers import GroupFile
    from covey.app.device.device import Device
    from covey.cli.grammar import Parser
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.files import FileOffer
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
    with _progress(path) as moves:
        return put_file(device, manifest, path, name, moves, readers, pinned=pinned)


def seal_with_progress(device: Device, manifest: GroupManifest, path: Path, name: str | None) -> SealedFile:
    """Seal a file and show progress; raises the errors of `seal_file`."""
    with _progress(path) as moves:
        return seal_file(device, manifest, path, name, moves)


@contextmanager
def _progress(path: Path) -> Iterator[Callable[[int], None]]:
    size = path.stat().st_size if path.is_file() else 0
    with explained_interruption(lambda: "nothing was offered"), ProgressLine() as line:

        def moves(done: int) -> None:
            line.show(f"{bar_text(done, size)}  encrypted {size_text(done)}  {path.name}")

        moves(0)
        yield moves


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
    with _patch_progress(base, what_stays) as waits:
        return offer_patch(device, manifest, base, offer, waits, readers)


def seal_patch_with_progress(device: Device, base: GroupFile, sealed: SealedFile) -> SealedFile | None:
    """Seal a patch and show how long it takes; raises the errors of `seal_patch`."""
    with _patch_progress(base, "nothing was released") as waits:
        return seal_patch(device, base, sealed, waits)


@contextmanager
def _patch_progress(base: GroupFile, what_stays: str) -> Iterator[Callable[[float], None]]:
    name = printable(base.file.name)
    with explained_interruption(lambda: what_stays), ProgressLine() as line:
        line.show(f"making a patch from '{name}'", last=True)
        yield lambda seconds: line.show(f"making a patch from '{name}'  {seconds:.0f} s")


def patch_text(file: FileOffer, base: FileOffer, patch: FileOffer | None) -> str:
    """Return how much a patch saves, or that none is offered."""
    name = printable(base.name)
    if patch is None:
        return f"no patch offered: from '{name}' it would be about as large as the file"
    size, whole = patch.content.size, file.content.size
    saved = f"{100 * size / max(1, whole):.0f} % of the file, {size_text(whole - size)} less"
    return f"devices that have '{name}' fetch a patch of {size_text(size)}: {saved}"
