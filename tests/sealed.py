"""A small file that is sealed for a group, as a release needs one."""

from __future__ import annotations

import tempfile

from covey.app.content.offering import SealedFile, seal_opened
from covey.app.device.device import Device
from covey.core.group.manifest import GroupManifest


def sealed(opened: Device, group: GroupManifest, name: str = "model.bin", content: bytes = b"model") -> SealedFile:
    """Seal a file of this content for a group."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return seal_opened(opened, group, file.fileno(), len(content), name, lambda _: None)
