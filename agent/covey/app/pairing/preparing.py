"""Prepare invites for unattended devices: one file per device.

1. The invites are durable before anything is reported or written. Each file gets an account at the relay, if this
   device has authority there; the agent removes it as soon as the invite is over (`loop/pairing_host.py`).
2. If one of the files cannot be made, all files and invites are removed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from covey.adapters.broker.authority import authority
from covey.adapters.keys.key_file import private_folder
from covey.app.device.device import Device
from covey.app.device.relay_access import has_authority, require_relay
from covey.app.loop.pairing_host import host_facts
from covey.app.pairing.invite_file import SUFFIX, InviteFile
from covey.app.pairing.inviting import check_room, named_keys
from covey.config.actions import is_action_name
from covey.core.group.manifest import GroupManifest
from covey.core.ids import DeviceKey, device_name, printable
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.pending import Pairing
from covey.errors import CoveyError, LocalError, UsageError
from covey.limits.group import MAXIMUM_LABEL_BYTES, MAXIMUM_MEMBERS
from covey.limits.pairing import MAXIMUM_PREPARED_INVITES, RENDEZVOUS_NUMBERS

_ID_DIGITS = 8


@dataclass(frozen=True, slots=True)
class PreparedInvite:
    """An invite in a file: `state` is `open`, `asks`, `joined` or `expired`; `joined` the name of who has joined."""

    label: str
    id: str
    state: str
    expires_at_us: int
    joined: str | None


def prepare(
    device: Device,
    group: str | None,
    labels: Sequence[str],
    folder: Path,
    lifetime_us: int,
    *,
    capabilities: tuple[str, ...] = (),
    operators: Sequence[str] | None = None,
    commands: tuple[str, ...] = (),
) -> list[Path]:
    """Write a file for each label into a folder, made if needed; return the files. They are valid for `lifetime_us`.

    The devices obey the `operators`, unless the join refuses: no person is there to be asked. `commands` are the
    actions that these may run.

    Raises:
        ConfigurationError: no relay is set, or the authority over it is not usable.
        LocalError: the group has no room for so many, or does not let this device invite; too many invites are open.
        StorageError: the disk refused.
        UsageError: a label is invalid, or its file exists; or an action's name is invalid, or there are no operators to
        order it.
    """
    for name in commands:
        if not is_action_name(name):
            raise UsageError(
                f"'{printable(name)}' is not an action name", hint="use lower-case letters, digits, - and _"
            )
    require_relay(device)
    manifest = device.pick_group(group)
    if len(manifest.members) + len(labels) > MAXIMUM_MEMBERS:
        raise LocalError(f"the group has {len(manifest.members)} of at most {MAXIMUM_MEMBERS} members: not enough room")
    check_room(device, manifest, len(labels))
    paths = _paths(labels, folder)
    private_folder(folder)
    named = named_keys(device, manifest, operators)
    if commands and not named:
        raise UsageError("no operator is named for these actions", hint="add --operator NAME")
    obeys = operators is not None and bool(named)
    files = [
        replace(each, obeys=obeys, commands=commands)
        for each in _open(device, manifest, labels, lifetime_us, capabilities, named)
    ]
    written: list[Path] = []
    try:
        held = authority(device.config.broker, device.folder.path)
        for path, file in zip(paths, files, strict=True):
            credential = held.mint(file.account) if held is not None else ""
            replace(file, credential=credential).write(path)
            written.append(path)
    except CoveyError:
        _take_back(device, [file.invite.secret_hash for file in files])
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return written


def _paths(labels: Sequence[str], folder: Path) -> list[Path]:
    """Return the labels' files.

    Raises:
        UsageError: a label is empty or too long, two have one file, or it is there.
    """
    if not labels or len(labels) > MAXIMUM_PREPARED_INVITES:
        raise UsageError(f"a batch must have 1 to {MAXIMUM_PREPARED_INVITES} files")
    paths: list[Path] = []
    for label in labels:
        path = folder / (re.sub(r"[^\w.-]+", "-", label).lstrip(".") + SUFFIX)
        if not label.strip() or label != printable(label) or len(label.encode()) > MAXIMUM_LABEL_BYTES:
            raise UsageError(
                f"'{printable(label)}' is not a label: a label has 1 to {MAXIMUM_LABEL_BYTES} bytes of text"
            )
        if path in paths or path.exists():
            raise UsageError(f"{path} already exists", hint="choose another folder with -o")
        paths.append(path)
    return paths


def _open(
    device: Device,
    manifest: GroupManifest,
    labels: Sequence[str],
    lifetime_us: int,
    capabilities: tuple[str, ...],
    operators: tuple[DeviceKey, ...],
) -> list[InviteFile]:
    """Make the invites durable, with a rendezvous for each where this device can make accounts (rule 1)."""
    facts = host_facts(device.folder, device.config)
    files: list[InviteFile] = []
    with device.store.transaction():
        now_us = device.now().wall_us
        taken = {each.number for each in device.store.pairings.all() if each.ended is None}
        free = [number for number in range(1, RENDEZVOUS_NUMBERS + 1) if number not in taken]
        for label, number in zip(labels, secrets.SystemRandom().sample(free, len(labels)), strict=True):
            invite = device.node.joining.invite(
                manifest.group_id, capabilities, device.config.relay.url, now_us, lifetime_us, prepared_for=label
            )
            invite = replace(invite, operators=operators)
            if has_authority(device.config):
                invite = replace(invite, rendezvous=number)
                device.store.pairings.open(
                    Pairing(
                        invite.secret_hash,
                        number,
                        None,
                        invite.secret,
                        invite.expires_at_us,
                        accepts=True,
                        operators=operators,
                        prepared=True,
                    ),
                    now_us,
                )
            files.append(InviteFile(label, invite, facts.certificates))
    return files


def prepared_invites(device: Device) -> list[PreparedInvite]:
    """Return the invites in files that this device knows of: open ones, and the results of others."""
    now_us = device.now().wall_us
    found = []
    for each in device.store.invites.all():
        if each.prepared_for is None:
            continue
        state = "expired" if now_us > each.expires_at_us else "open"
        if each.used_by is not None:
            state = "joined"
        elif each.request is not None:
            state = "asks"
        joined = None if each.used_by is None else device_name(each.used_by)
        shown = each.secret_hash.hex()[:_ID_DIGITS]
        found.append(PreparedInvite(each.prepared_for, shown, state, each.expires_at_us, joined))
    return sorted(found, key=lambda each: (each.label, each.expires_at_us))


def cancel_prepared(device: Device, name: str) -> int:
    """Take back the unused invites of a label, or the one with an id that begins so; return how many.

    Raises:
        UsageError: there is none.
    """
    unused = [each for each in device.store.invites.all() if each.prepared_for is not None and each.used_by is None]
    wanted = [each.secret_hash for each in unused if each.prepared_for == name]
    if not wanted and len(name) >= _ID_DIGITS:
        wanted = [each.secret_hash for each in unused if each.secret_hash.hex().startswith(name.lower())]
    if not wanted:
        raise UsageError(f"no open invite is called '{printable(name)}'", hint="'covey invite --list' shows them")
    _take_back(device, wanted)
    return len(wanted)


def _take_back(device: Device, secret_hashes: Sequence[bytes]) -> None:
    with device.store.transaction():
        for each in secret_hashes:
            device.store.pairings.end(each, Ending.CANCELLED.value)
            device.store.invites.cancel(each)
