"""A hub's recovery file: save what a second machine needs, and have that machine become the hub.

The second machine takes over the hub's identity. So it is at once what the hub was: a member and collector of its
groups, an operator of the devices that obey it, the authority of its relay and of the relay's accounts. It begins a new
incarnation, as a restored state does.

1. The files are written before the identity, which makes the folder a device. So after a power cut, the same command
   starts over.
2. Where the hub serves a relay and devices reached it by an address, not a name, the relay gets this machine's address.
   Its certificate stays valid for the former address and has the same authority, so that devices that find the relay
   at its new address still recognise it.
3. History, readings and waiting messages are not in the file: members send the history again, senders repeat what was
   not acknowledged, and the vault is kept elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covey.adapters.files import open_regular, replace_durably, storage_errors
from covey.adapters.keys.identity_file import best_file, how_kept, plain_file, read_seed
from covey.adapters.keys.key_file import private_folder, write_secret
from covey.adapters.keys.recovery_file import (
    RECOVERED_FILES,
    PinnedOperator,
    Recovery,
    is_recovered,
    open_recovery,
    recovery_passphrase,
)
from covey.adapters.own_addresses import own_addresses
from covey.app.device.device import open_device
from covey.app.relays.serving_relay import prepare_relay, relay_url, served
from covey.core import crypto
from covey.core.crypto import wipe
from covey.core.ids import device_name
from covey.core.wire import cbor
from covey.errors import ConfigurationError, LocalError, RemoteError
from covey.limits.key import MAXIMUM_RECOVERED_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covey.adapters.sqlite.store import SqliteStore
    from covey.adapters.state_folder import StateFolder
    from covey.app.device.device import Device
    from covey.core.crypto import Identity

_IDENTITY = "identity.key"
_SAVED = "recovery file"
_PARTS = ("noise key", "vault key", "authority of the relay", "operators", "groups")
"""What is compared with the last recovery file, by the name that a person is told."""


@dataclass(frozen=True, slots=True)
class AdoptedHub:
    """The hub that this machine now is; `relay` is empty where it serves none."""

    name: str
    label: str
    saved_at_us: int
    groups: int
    relay: str
    relay_before: str


def save_recovery(folder: StateFolder, password_file: str | None, write: Callable[[bytes], None]) -> None:
    """Write the recovery file of the device in a folder, and note what it contains.

    The passphrase is in a file, or typed.

    Raises:
        ConfigurationError: no device here, its files are wrong, or the passphrase is.
        StorageError: a file or the database cannot be read.
    """
    with open_device(folder) as device:
        recovery = portable_recovery(device)
        passphrase = recovery_passphrase(password_file, twice=True)
        write(recovery.sealed(passphrase))
        wipe(passphrase)
        note_saved(device.store, recovery)


def typed_passphrase(password_file: str | None) -> Callable[[], bytearray]:
    """Return what reads the passphrase of a recovery file from a file, or from a terminal."""
    return partial(recovery_passphrase, password_file)


def portable_recovery(device: Device) -> Recovery:
    """Return the content of a recovery file, with an identity that another machine can open."""
    recovery = _recovery_of(device)
    if device.folder.how_seed_is_kept()[0] in {"none", "passphrase"}:
        return recovery
    return replace(recovery, files=recovery.files | {_IDENTITY: plain_file(device.node.identity.signing_seed)})


def _recovery_of(device: Device) -> Recovery:
    store = device.store
    operators = [
        PinnedOperator(group_id, each.operator, each.inviter, each.pinned_at_us)
        for group_id, each in store.invited_operators.all()
    ]
    return Recovery(
        device.now().wall_us,
        _files(device.folder),
        tuple(store.groups.copied()),
        tuple(operators),
        store.personal.pinned(),
        tuple(store.replacements.finished()),
    )


def note_saved(store: SqliteStore, recovery: Recovery) -> None:
    """Note what a recovery file contains that was written."""
    with store.transaction():
        store.conditions.set(_SAVED, json.dumps(_parts(recovery)), recovery.saved_at_us)


class SavedFile(NamedTuple):
    """The last recovery file: when it was written, and the parts that have changed since."""

    saved_at_us: int
    changed: tuple[str, ...]


def last_saved(device: Device) -> SavedFile | None:
    """Return the last recovery file of a device, None if it never wrote one.

    Raises:
        ConfigurationError: a file of the state folder cannot be read.
        StorageError: the disk refused.
    """
    text, at_us = device.store.conditions.values().get(_SAVED, ("", 0))
    if not text:
        return None
    before, now = json.loads(text), _parts(_recovery_of(device))
    return SavedFile(at_us, tuple(each for each in _PARTS if before.get(each) != now[each]))


def _parts(recovery: Recovery) -> dict[str, str]:
    """Return a digest of each part that nobody sends to a new hub, or that it needs at once."""
    of_files = {
        "noise key": ("noise.keys",),
        "vault key": ("vault.key",),
        "authority of the relay": sorted(each for each in recovery.files if each.startswith("broker/ca/")),
    }
    content = {name: [recovery.files.get(each, b"") for each in files] for name, files in of_files.items()}
    content["operators"] = sorted(each.group_id + each.operator for each in recovery.operators)
    content["groups"] = sorted(each.group_id for each in recovery.groups)
    return {name: crypto.digest(b"covey/1 recpart", cbor.encode(content[name])).hex() for name in _PARTS}


def write_recovery(path: Path, sealed: bytes) -> None:
    """Write a recovery file, which is whole or not there.

    Raises:
        StorageError: the disk refused.
    """
    replace_durably(path, sealed, mode=0o600)


def adopt_hub(
    folder: StateFolder, raw: bytes, passphrase: Callable[[], bytearray], names: Sequence[str], port: int | None
) -> AdoptedHub:
    """Make this machine the hub of a recovery file.

    `passphrase` is called once, and its result is wiped. `names` are those by which devices reach its relay, the one
    that they are told first.

    Raises:
        ConfigurationError: the file, the passphrase or the files in it are wrong; or the relay cannot be prepared.
        LocalError: this machine is a device already.
        StorageError: the disk refused.
    """
    require_new(folder)
    recovery = open_recovery(raw, passphrase)
    if _IDENTITY not in recovery.files:
        raise ConfigurationError("the recovery file contains no identity", hint="save it again on the hub")
    _write_files(folder, recovery)
    before = folder.configuration.config().relay.url if served(folder).password_file.exists() else ""
    if before:
        _move_relay(folder, before, names, port)
    identity = folder.identity_from(recovery.files[_IDENTITY])
    try:
        _restore_state(folder, recovery, identity)
    finally:
        identity.wipe()
    write_secret(folder.path / _IDENTITY, _kept_here(recovery.files[_IDENTITY]))
    config = folder.configuration.config()
    relay = prepare_relay(folder, config.label, names, port).url if before else ""
    name = device_name(folder.identity().signing_public)
    return AdoptedHub(name, config.label, recovery.saved_at_us, len(recovery.groups), relay, before)


def require_new(folder: StateFolder) -> None:
    """Refuse a folder that holds a device.

    Raises:
        LocalError: this machine is a device already.
    """
    if not folder.is_new:
        raise LocalError(
            f"{folder.path} already holds a device",
            hint="use a machine without Covey's state, or name another state folder: --state DIR",
        )


def _kept_here(identity_file: bytes) -> bytes:
    """Return the identity as this machine keeps it best; under a passphrase it stays."""
    if how_kept(identity_file)[0] != "none":
        return identity_file
    seed = read_seed(identity_file, Path(_IDENTITY), bytearray)
    kept = best_file(seed.reveal())
    seed.wipe()
    return kept


def _write_files(folder: StateFolder, recovery: Recovery) -> None:
    """Write all files except the identity (rule 1)."""
    private_folder(folder.path)
    for name, content in recovery.files.items():
        if name != _IDENTITY:
            path = folder.path / name
            for parent in reversed(path.relative_to(folder.path).parents[:-1]):
                private_folder(folder.path / parent)
            write_secret(path, content)


def _files(folder: StateFolder) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for pattern in RECOVERED_FILES:
        for path in sorted(folder.path.glob(pattern)):
            name = path.relative_to(folder.path).as_posix()
            if not path.is_file() or path.is_symlink() or not is_recovered(name):
                continue
            with storage_errors("read", path), open_regular(path) as (descriptor, status):
                if status.st_size > MAXIMUM_RECOVERED_FILE_BYTES:
                    raise ConfigurationError(f"{path} is too large for a recovery file")
                with open(descriptor, "rb", closefd=False) as file:
                    found[name] = file.read(MAXIMUM_RECOVERED_FILE_BYTES)
    return found


def _move_relay(folder: StateFolder, before: str, names: Sequence[str], port: int | None) -> None:
    """Let the relay's address be this machine's, unless devices reach it by a name that a person gave."""
    place = served(folder)
    if not names and not place.names():
        names = own_addresses()[:1]
    place.keep_former_name(before)
    folder.configuration.change({"relay.url": relay_url(before, names, port), "relay.ca_file": str(place.ca_file)})


def _restore_state(folder: StateFolder, recovery: Recovery, identity: Identity) -> None:
    store = folder.store(folder.configuration.config(), identity)
    try:
        with store.transaction():
            store.groups.restore(recovery.groups, recovery.saved_at_us)
            for group_id in {each.group_id for each in recovery.operators}:
                pinned = [each for each in recovery.operators if each.group_id == group_id]
                keys = [each.operator for each in pinned]
                store.invited_operators.pin(group_id, keys, pinned[0].inviter, pinned[0].pinned_at_us)
            for replacement, newcomer in recovery.replaced:
                store.replacements.drop(replacement.secret_hash)
                store.replacements.open(replacement)
                store.replacements.finish(replacement.secret_hash, newcomer)
            if recovery.personal is not None:
                store.personal.pin(recovery.personal)
        note_saved(store, recovery)
    except RemoteError as error:
        raise ConfigurationError(f"the recovery file contains an invalid group: {error}") from error
    finally:
        store.close()
