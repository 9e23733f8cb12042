"""This device's groups: their members, allowed recipients and keys.

This module reads. `membership.py` decides changes, and applies them here by `hold`, `drop` and `readdress`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import COLLECTOR, GroupManifest, Member, read_manifest
from covey.core.group.messages import Parted
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, GroupId, ManifestHash, NoisePublic
from covey.core.membership.addresses import Addresses
from covey.core.membership.replay import replayed
from covey.errors import UnknownGroupError
from covey.limits.heads import LEFT_LOOKED_BACK

if TYPE_CHECKING:
    from covey.core.records import Records


def collectors_for(group: GroupManifest, device: DeviceKey, silent: Collection[DeviceKey] = ()) -> list[Member]:
    """Return the collectors of a group in the order in which a device tries them; it tries silent ones last.

    Rendezvous hashing over the collectors in the manifest: devices spread, and few move when one more comes.
    """
    return sorted(
        group.with_capability(COLLECTOR),
        key=lambda member: (
            member.keys.signing_public not in silent,
            crypto.digest(b"covey/1 rendez", device + member.keys.signing_public),
        ),
        reverse=True,
    )


class Groups:
    """Every group that a device holds, and the address of everybody it may speak to."""

    def __init__(self, identity: Identity, records: Records) -> None:
        self._identity = identity
        self.own = identity.signing_public
        """This device's key."""
        self._records = records
        self._groups: dict[GroupId, GroupTrust] = {}
        self.addresses = Addresses(records)
        self._revoked: frozenset[GroupId] = frozenset()
        self._parted: list[tuple[GroupId, DeviceKey]] = []
        self._collectors: tuple[object, list[DeviceKey]] = ((), [])
        """Where this device's telemetry goes, and of which groups and silent ones that was said."""
        self._left: tuple[int, list[GroupManifest]] = (-1, [])
        """The groups that this device has left, and of which generation that was said."""
        self.generation = 0
        """Rises whenever anything of a group may have changed."""

    def refresh(self) -> None:
        """Take up what another process wrote."""
        stored: dict[GroupId, list[ManifestHash]] = {}
        for group_id, manifest_hash in self._records.groups.manifest_hashes():
            stored.setdefault(group_id, []).append(manifest_hash)
        for group_id in self._groups.keys() - stored.keys():
            del self._groups[group_id]
        changed = {group_id for group_id, hashes in stored.items() if not self._holds(group_id, hashes)}
        if changed:  # manifests of large groups are megabytes, and other processes mostly write something else
            self._rebuild(changed)
        self.readdress()

    def _holds(self, group_id: GroupId, hashes: Iterable[ManifestHash]) -> bool:
        trust = self._groups.get(group_id)
        return trust is not None and all(map(trust.holds, hashes))

    def _rebuild(self, changed: Collection[GroupId]) -> None:
        rows: dict[GroupId, list[bytes]] = {}
        for group_id, _, raw in self._records.groups.manifests():
            if group_id in changed:
                rows.setdefault(group_id, []).append(raw)
        for group_id, raws in rows.items():
            rebuilt = replayed(group_id, [read_manifest(raw, verify=False) for raw in raws])
            assert rebuilt is not None, "what is stored was accepted"
            self._groups[group_id] = rebuilt

    def __len__(self) -> int:
        return len(self._groups)

    def readdress(self) -> None:
        """Take up destroyed groups, joins and departures that changed, and who may be spoken to since."""
        self.generation += 1
        self._revoked = frozenset(group_id for group_id, _ in self._records.groups.revocations())
        believed = [trust.current for trust in self._groups.values() if trust.current is not None]
        self.addresses.rebuild(believed, self.left_behind())

    def hold(self, trust: GroupTrust) -> None:
        """Hold a group that is new, or was rebuilt from its manifests."""
        self._groups[trust.group_id] = trust

    def drop(self, group_id: GroupId) -> None:
        """Stop holding a group."""
        del self._groups[group_id]

    def joined(self) -> list[GroupManifest]:
        """Return what this device believes of each group that it is in."""
        return [
            group
            for group_id, trust in self._groups.items()
            if (group := trust.current) and group.member(self.own) and group_id not in self._revoked
        ]

    def is_in(self, group_id: GroupId) -> bool:
        """Say whether this device is in a group, as it believes."""
        return any(group.group_id == group_id for group in self.joined())

    def group(self, group_id: GroupId) -> GroupManifest:
        """Return what this device believes of a group.

        Raises:
            UnknownGroupError: this device is not in it.
        """
        return self.held(group_id)[1]

    def trust(self, group_id: GroupId) -> GroupTrust:
        """Return the trust of a group, of which this device is a member or was one.

        Raises:
            UnknownGroupError: this device knows nothing of it.
        """
        trust = self._groups.get(group_id)
        if trust is None:
            raise UnknownGroupError("this device does not hold the group")
        return trust

    def trusts(self) -> list[GroupTrust]:
        """Return what this device knows of each group that it is in, or was."""
        return list(self._groups.values())

    def trust_of(self, group_id: GroupId) -> GroupTrust | None:
        """Return the trust of a group, None of one that this device knows nothing of."""
        return self._groups.get(group_id)

    def is_revoked(self, group_id: GroupId) -> bool:
        """Say whether a group is being destroyed."""
        return group_id in self._revoked

    def held(self, group_id: GroupId) -> tuple[GroupTrust, GroupManifest]:
        """Return the trust of a group that this device is in, and what it believes of it.

        Raises:
            UnknownGroupError: this device is not in it.
        """
        trust = self.trust(group_id)
        if trust.current is None or trust.current.member(self.own) is None or self.is_revoked(group_id):
            raise UnknownGroupError("this device is not a member of the group")
        return trust, trust.current

    def removed_from(self) -> list[GroupManifest]:
        """Return the groups that this device is no member of any more."""
        return [
            trust.current
            for trust in self._groups.values()
            if trust.current is not None and trust.current.member(self.own) is None
        ]

    def left_behind(self) -> list[Member]:
        """Return the members of groups that this device has left, as last believed (`addresses.py`, rule 4)."""
        found: list[Member] = []
        for group in self.removed_from():
            trust = self.trust(group.group_id)
            void = {self.own, *trust.void_members()}
            listed = (member for manifest in (*trust.held(), group) for member in manifest.members)
            found += (member for member in listed if member.keys.signing_public not in void)
        return found

    def left(self) -> list[GroupManifest]:
        """Return the groups that this device has left by its own word."""
        if self._left[0] != self.generation:
            self._left = self.generation, [each for each in self.removed_from() if self.has_left(each.group_id)]
        return self._left[1]

    def has_left(self, group_id: GroupId) -> bool:
        """Say whether this device has left a group by itself.

        One of its own manifests does not list it, nor does any successor of the last such one. Others' may have settled
        it: a member that added a device meanwhile joins both branches, and notifies this device, too.
        """
        lowest = self.trust(group_id).held()[0].version
        leaving: set[ManifestHash] = set()
        for raw in self._records.groups.manifests_from(group_id, max(1, lowest - LEFT_LOOKED_BACK), -1):
            manifest = read_manifest(raw, verify=False)
            follows = not leaving.isdisjoint(manifest.prev)
            if manifest.member(self.own) is not None:
                if follows:  # it was let in again, and may have left again since
                    leaving.clear()
            elif follows or manifest.issuer == self.own:
                leaving.add(manifest.hash)
        return bool(leaving)

    def address(self, signing_public: DeviceKey) -> NoisePublic | None:
        """Return the noise key of a device that this one may speak to."""
        return self.addresses.of(signing_public)

    def address_to_answer(self, signing_public: DeviceKey) -> NoisePublic | None:
        """Return the noise key of a device whose messages are acknowledged."""
        return self.addresses.to_answer(signing_public)

    def hears(self, signing_public: DeviceKey) -> bool:
        """Say whether a device may speak of its link with this one."""
        return self.addresses.hears(signing_public)

    def secret(self, group_id: GroupId) -> bytes | None:
        """Return the secret of a group's epoch, if it is here yet.

        Raises:
            UnknownGroupError: this device is not in the group.
        """
        return self._records.groups.secret(group_id, self.group(group_id).epoch_id)

    def collector_of(self, group_id: GroupId, device: DeviceKey | None = None) -> Member | None:
        """Return the collector that the telemetry of a device (this one, if none is named) goes to.

        This device's own goes past silent ones (`collectors.py`).
        """
        silent = self._records.presence.silent_collectors() if device is None else set()
        return next(iter(collectors_for(self.group(group_id), device or self.own, silent)), None)

    def collectors(self) -> list[DeviceKey]:
        """Return the collectors that this device's telemetry goes to, itself apart, in the order of its groups."""
        of = self.generation, frozenset(self._records.presence.silent_collectors())
        if self._collectors[0] != of:
            found = (self.collector_of(group.group_id) for group in self.joined())
            keys = dict.fromkeys(each.keys.signing_public for each in found if each is not None)
            self._collectors = of, [each for each in keys if each != self.own]
        return self._collectors[1]

    def note_parted(self, group_id: GroupId, devices: Iterable[DeviceKey]) -> None:
        """Note that this device and others are no longer in a group together."""
        self._parted += [(group_id, device) for device in sorted(devices) if device != self.own]

    def take_parted(self) -> list[Parted]:
        """Return, once, those of them that are in another group with this one, and in which they are parted."""
        noted, self._parted = self._parted, []
        out = {group.group_id for group in self.removed_from()} if noted else set()
        return [
            Parted(group_id, device, is_out=group_id in out)
            for group_id, device in noted
            if not self.shares_nothing_with(device)
        ]

    def shares_nothing_with(self, signing_public: DeviceKey) -> bool:
        """Say whether this device is in no group with another one."""
        return all(group.member(signing_public) is None for group in self.joined())
