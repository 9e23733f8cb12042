"""The target of a ban: a member, another device, or an outstanding invite (003.43)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from covey.app.device.device import Device
from covey.core.group.device_labels import devices_meant
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.policy import read_vote
from covey.core.ids import KEY_BYTES, DeviceKey, device_name, key_from_text, printable
from covey.core.pairing.invite import Invite
from covey.errors import LocalError, MalformedError

_Read = TypeVar("_Read")
_Known = dict[DeviceKey, str]
"""What can be banned, by key or id, with its label; of invites, none."""


def pick_target(device: Device, manifest: GroupManifest, name: str) -> DeviceKey:
    """Return the key of the device, or the id of the invite, that a person means.

    `name` is a label, a fingerprint, or the beginning of a key or id, of a member, or else of what this device knows:
    members of its groups, former ones of this group, its own invites, and what somebody has voted about. Of anything
    else it is the whole signing key, as `covey key show` prints it, the whole id in hex, or the URI of an invite.

    Raises:
        LocalError: none or several of that name; a mistyped key; an invite to another group.
    """
    if name.startswith("covey-"):
        return _written(lambda: DeviceKey(key_from_text("sign", name)))
    if name.startswith("covey:"):
        return _invited(manifest, _written(lambda: Invite.from_uri(name)))
    if len(name) == 2 * KEY_BYTES and set(name.lower()) <= set("0123456789abcdef"):
        return DeviceKey(bytes.fromhex(name))
    members = {member.keys.signing_public: member.label for member in manifest.members}
    matching = devices_meant(members, name) or devices_meant(_others(device, manifest), name)
    if not matching:
        raise LocalError(
            f"no member, known device or known invite matches '{printable(name)}'",
            hint="give the device's whole signing key (run 'covey key show' on it), or an invite's URI or whole id",
        )
    if len(matching) > 1:
        listed = ", ".join(sorted(device_name(each) for each in matching))
        raise LocalError(f"{len(matching)} devices or invites match '{printable(name)}': {listed}"[:200])
    return matching[0]


def _written(read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except MalformedError as error:
        raise LocalError(f"neither a signing key nor an invite: {error}") from error


def _invited(manifest: GroupManifest, invite: Invite) -> DeviceKey:
    if invite.group_id != manifest.group_id:
        raise LocalError("that invite is for another group", hint="name that group: --group ID")
    return DeviceKey(invite.secret_hash)


def _others(device: Device, manifest: GroupManifest) -> _Known:
    group_id = manifest.group_id
    known: _Known = {}
    for each in (*_former(device, manifest), *device.node.groups.joined()):
        known |= {member.keys.signing_public: member.label for member in each.members}
    known |= {
        DeviceKey(each.secret_hash): ""
        for each in device.store.invites.all()
        if each.group_id == group_id and each.used_by is None
    }
    known |= {vote.target: known.get(vote.target, "") for vote in map(read_vote, device.store.votes.of_group(group_id))}
    return {key: label for key, label in known.items() if manifest.member(key) is None}


def _former(device: Device, manifest: GroupManifest) -> Iterable[GroupManifest]:
    for raw in device.store.groups.manifests_from(manifest.group_id, 1):
        yield read_manifest(raw, verify=False)
