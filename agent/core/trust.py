"""Which group manifest a device accepts: every rule, numbered, and nothing else.

    1. It is a well-formed manifest, signed by its issuer over the exact bytes (`group_manifest.py`).
    2. It is of the group that this trust was opened for.
    3. A genesis is accepted only for a group that this device created (000.15).
    4. Where a device has asked to join, its first manifest must be issued by the inviter whom the invite pins, and
       must list the device itself.
    5. Later ones: the issuer is a member of the manifest held now (000.13).
    6. The version is exactly the held one plus 1 (000.02, 000.14). Lower or equal is a rollback; the same bytes again
       are no news; other bytes at the held version are a conflict, which is remembered (000.17). Higher is a gap,
       whoever issued it: only the manifests between can say who its issuer is.
    7. `prev` is the hash of the manifest held now.
    8. The mode never changes.
    9. The epoch never falls: an older group secret, which removed devices hold, does not come back.

The floor is the held manifest itself: a device that lost its state asks to join anew.
"""

from __future__ import annotations

from enum import Enum

from agent.core.group_manifest import GroupManifest, read_manifest
from agent.errors import (
    GenesisError,
    InviteError,
    MalformedError,
    RollbackError,
    UnknownIssuerError,
    VersionGapError,
)


class Verdict(Enum):
    """Ordinary outcomes of offering a manifest."""

    ACCEPTED = "accepted"
    UNCHANGED = "unchanged"


class GroupTrust:
    """One group as one device believes it to be. Changes only by a manifest that every rule admits."""

    def __init__(self, group_id: bytes, current: GroupManifest | None) -> None:
        self.group_id = group_id
        self.current = current

    def create(self, genesis: GroupManifest) -> Verdict:
        """Take this device's own genesis (rule 3).

        Raises:
            GenesisError: not a genesis, or the group exists here already.
        """
        if self.current is not None or genesis.version != 1 or genesis.group_id != self.group_id:
            raise GenesisError("a group is created once")
        self.current = genesis
        return Verdict.ACCEPTED

    def join(self, raw: bytes, inviter: bytes, own_signing_public: bytes) -> Verdict:
        """Take the first manifest after a join request (rules 1, 2 and 4).

        Raises:
            RemoteError: the rule that failed.
        """
        if self.current is not None:
            return self.update(raw)
        manifest = self._read(raw)
        if manifest.issuer != inviter:
            raise InviteError("the manifest is not issued by the device that invited us")
        if manifest.member(own_signing_public) is None:
            raise InviteError("the manifest does not list us")
        self.current = manifest
        return Verdict.ACCEPTED

    def update(self, raw: bytes) -> Verdict:
        """Take the next manifest (rules 1, 2 and 5 to 9).

        Raises:
            RemoteError: the rule that failed; the held manifest stays.
        """
        held = self.current
        if held is None:
            raise GenesisError("a manifest of a group that nobody here asked to join")
        if raw == held.raw:
            return Verdict.UNCHANGED
        manifest = self._read(raw)
        if manifest.version > held.version + 1:
            raise VersionGapError(f"version {manifest.version} does not follow {held.version}")
        if held.member(manifest.issuer) is None:
            raise UnknownIssuerError("the issuer is not a member of the manifest held")
        if manifest.version <= held.version:
            raise RollbackError(f"version {manifest.version}, held {held.version}")
        if manifest.prev != held.hash:
            raise VersionGapError("does not follow the manifest held")
        if manifest.mode != held.mode:
            raise MalformedError("a group's mode never changes")
        if manifest.epoch < held.epoch:
            raise RollbackError(f"epoch {manifest.epoch}, held {held.epoch}")
        self.current = manifest
        return Verdict.ACCEPTED

    def _read(self, raw: bytes) -> GroupManifest:
        manifest = read_manifest(raw)
        if manifest.group_id != self.group_id:
            raise GenesisError("a manifest of another group")
        return manifest


def verify_chain(raws: list[bytes]) -> GroupManifest:
    """Replay a chain of manifests from its genesis and return the last one.

    Raises:
        RemoteError: the rule that failed.
    """
    if not raws:
        raise MalformedError("an empty chain")
    first = read_manifest(raws[0])
    trust = GroupTrust(first.group_id, None)
    trust.create(first)
    for raw in raws[1:]:
        if trust.update(raw) is Verdict.UNCHANGED:
            raise RollbackError("a version stands twice in the chain")
    assert trust.current is not None
    return trust.current
