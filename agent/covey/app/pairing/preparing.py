"""Prepare invites for unattended devices: one file per device.

1. The invites are durable before anything is reported or written. Each file gets an account at the relay, if this
   device has authority there; the agent removes it as soon as the invite is over (`loop/pairing_host.py`).
2. If one of the files cannot be made, all files and invites are removed.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from covey.adapters.broker.authority import authority
from covey.adapters.keys.key_file import private_folder
from covey.app.device.device import Device
from covey.app.device.relay_access import has_authority, require_relay
from covey.app.loop.pairing_host import host_facts
from covey.app.pairing.invite_file import SUFFIX, InviteFile
from covey.app.pairing.inviting import check_room, named_keys
from covey.app.pairing.replacing import check_may_replace, replacement_of
from covey.config.actions import is_action_name
from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import DeviceKey, GroupId, device_name, printable
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
    newcomers: Sequence[tuple[GroupManifest, str]],
    folder: Path,
    lifetime_us: int,
    *,
    capabilities: tuple[str, ...] = (),
    operators: Sequence[str] | None = None,
    commands: tuple[str, ...] = (),
    replaces: Member | None = None,
) -> list[Path]:
    """Write a file for each newcomer into a folder, made if needed; return the files.

    `newcomers` are the group and the label of each. The files are valid for `lifetime_us`. The devices obey the
    `operators`, unless the join refuses: no person is there to be asked. `commands` are the actions that these may run.
    `replaces` is the member that the only newcomer replaces.

    Raises:
        ConfigurationError: no relay is set, or the authority over it is not usable.
        LocalError: a group has no room for so many, or does not let this device invite; too many invites are open.
        StorageError: the disk refused.
        UsageError: a label is invalid, or its file exists; or an action's name is invalid, or there are no operators to
        order it.
    """
    if replaces is not None:
        ((manifest, _),) = newcomers
        check_may_replace(manifest, replaces, device.node.identity.signing_public)
    for name in commands:
        if not is_action_name(name):
            raise UsageError(
                f"'{printable(name)}' is not an action name", hint="use lower-case letters, digits, - and _"
            )
    require_relay(device)
    paths = _paths([label for _, label in newcomers], folder)
    named: dict[GroupId, tuple[DeviceKey, ...]] = {}
    for group_id, joining in Counter(group.group_id for group, _ in newcomers).items():
        manifest = device.node.groups.group(group_id)
        if len(manifest.members) + joining > MAXIMUM_MEMBERS:
            raise LocalError(
                f"the group has {len(manifest.members)} of at most {MAXIMUM_MEMBERS} members: not enough room"
            )
        check_room(device, manifest, joining)
        named[group_id] = named_keys(device, manifest, operators)
        if commands and (operators is None or not named[group_id]):  # a file that names none leaves them to the owner
            raise UsageError("no operator is named for these actions", hint="add --operator NAME")
    private_folder(folder)
    files = [
        replace(each, obeys=operators is not None and bool(each.invite.operators), commands=commands)
        for each in _open(device, newcomers, lifetime_us, capabilities, named, replaces)
    ]
    written: list[Path] = []
    try:
        held = authority(device.config.broker, device.folder.path, device.node.identity)
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
    newcomers: Sequence[tuple[GroupManifest, str]],
    lifetime_us: int,
    capabilities: tuple[str, ...],
    operators: Mapping[GroupId, tuple[DeviceKey, ...]],
    replaces: Member | None,
) -> list[InviteFile]:
    """Make the invites durable, each with the operators of its group (rule 1).

    Where this device can make accounts, each has a rendezvous.
    """
    facts = host_facts(device.folder, device.config, device.node.identity)
    files: list[InviteFile] = []
    with device.store.transaction():
        now_us = device.now().wall_us
        taken = {each.number for each in device.store.pairings.all() if each.ended is None}
        free = [number for number in range(1, RENDEZVOUS_NUMBERS + 1) if number not in taken]
        numbers = secrets.SystemRandom().sample(free, len(newcomers))
        for (group, label), number in zip(newcomers, numbers, strict=True):
            named = operators[group.group_id]
            invite = device.node.joining.invite(
                group.group_id, capabilities, device.config.relay.url, now_us, lifetime_us, prepared_for=label
            )
            invite = replace(invite, operators=named, addresses=device.config.relay.addresses)
            if replaces is not None:
                device.store.replacements.open(replacement_of(replaces, invite))
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
                        operators=named,
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
