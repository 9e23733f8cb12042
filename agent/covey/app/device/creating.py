"""Making this machine a device: its identity, its configuration, and an empty state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.keys.passphrase import find_passphrase
from covey.app.device.device import open_device
from covey.core.ids import device_name, truncate_utf8
from covey.errors import CoveyError
from covey.limits.group import MAXIMUM_LABEL_BYTES

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder


@dataclass(frozen=True, slots=True)
class NewDevice:
    """A device that has just been made."""

    name: str
    label: str
    signing_public: str
    noise_public: str
    state: str


def create_device(folder: StateFolder, label: str, *, with_passphrase: bool) -> NewDevice:
    """Draw an identity and write a configuration.

    `with_passphrase` seals the key under the passphrase of the folder's file, or one that is typed.

    Raises:
        ConfigurationError: a device is here already, or nobody is there to type a passphrase.
    """
    label = truncate_utf8(label, MAXIMUM_LABEL_BYTES)
    passphrase = find_passphrase(folder.passphrase_file, twice=True) if with_passphrase else None
    identity = folder.create({"label": label} if label else {}, passphrase)
    folder.store(folder.configuration.config()).close()
    return NewDevice(
        device_name(identity.signing_public),
        label,
        identity.signing_public.hex(),
        identity.noise_public.hex(),
        str(folder.path),
    )


@contextmanager
def device_to_join(folder: StateFolder, label: str) -> Iterator[None]:
    """Make this machine a device if it is none; undo that if the block fails before anything was asked.

    So a mistyped code leaves nothing behind. The caller's exception propagates.
    """
    if not folder.is_new:
        yield
        return
    before = folder.names()
    try:
        create_device(folder, label, with_passphrase=False)
    except CoveyError:  # a full disk, say
        folder.remove_others(before)
        raise
    try:
        yield
    except (CoveyError, KeyboardInterrupt):
        with open_device(folder) as device:
            has_asked = bool(device.store.joins.pending() or device.node.groups.joined())
        if not has_asked:
            folder.remove_others(before)
        raise
