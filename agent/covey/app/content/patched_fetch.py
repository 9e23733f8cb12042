"""Has a file fetched as a patch for the agent's clients, in a process of its own: both versions are in its memory.

It is what `covey file fetch` is, with all that it falls back to; the agent only sees that it ends.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from covey.adapters.programs import ChildPrograms, own_command
from covey.adapters.sqlite.content import ContentState
from covey.app.content.content import is_here
from covey.app.content.file_offers import GroupFile
from covey.app.content.patches import find_patch
from covey.core.actions.definition import Invocation, ProgramBounds
from covey.errors import ActionError
from covey.limits.units import MIB

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.ports import RunningProgram

_MEMORY_BYTES = 512 * MIB
_GRACE_S = 60
"""For the patch to be applied, after the time that it has to come."""


class PatchedFetch:
    """One file on its way as a patch."""

    def __init__(self, device: Device, offer: GroupFile, patch: GroupFile, program: RunningProgram) -> None:
        self._device = device
        self._offer = offer
        self._patch = patch
        self._program = program
        self._ended = False

    def runs(self) -> bool:
        """Say whether it has not ended."""
        if not self._ended:
            try:
                self._ended = self._program.look(self._device.clock.monotonic_us()) is not None
            except ActionError:
                self._ended = True
        return not self._ended

    def end(self) -> None:
        """End it, if it runs still; the agent goes on to ask for the patch."""
        if self.runs():
            with suppress(ActionError):
                self._program.stop()
            self._ended = True

    @property
    def is_waiting(self) -> bool:
        """Whether the patch has not come yet, and is asked for still."""
        kept = self._device.store.content.of(self._patch.file.content.hash)
        return kept is not None and kept.state is ContentState.WANTED

    def saved(self) -> int:
        """Return the bytes that the patch has saved: none where the file came whole."""
        made = is_here(self._device, self._offer) and is_here(self._device, self._patch)
        return self._offer.file.content.size - self._patch.file.content.size if made else 0


def begin_patched_fetch(device: Device, manifest: GroupManifest, offer: GroupFile, seconds: int) -> PatchedFetch | None:
    """Have a file fetched by the smallest patch that fits what is here; None where none does."""
    found = None if is_here(device, offer) else find_patch(device, manifest, offer)
    if found is None:
        return None
    words = ("file", "fetch", offer.operation.id.hex(), f"--group={manifest.group_id.hex()}", f"--wait={seconds}s")
    bounds = ProgramBounds(time_us=(seconds + _GRACE_S) * 1_000_000, memory_bytes=_MEMORY_BYTES)
    fetching = Invocation("fetch-file", {}, own_command(words, device.folder.path), bounds)
    try:
        program = ChildPrograms().start(fetching, device.clock.monotonic_us())
    except ActionError:
        return None
    return PatchedFetch(device, offer, found[0], program)
