"""Signed manifests and profiles of one group, for the tests of what a vault says of memberships."""

from __future__ import annotations

from dataclasses import replace

from covey.core.group.manifest import GroupManifest, Member, genesis, secret_id, sign_manifest
from covey.core.history.bodies import GroupProfile
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.ids import GroupId, Incarnation, ManifestHash, OperationId
from tests.fleet import identity

ANN, BEN = identity("ann"), identity("ben")
GROUP = GroupId(bytes(range(32)))
NOON_US = 1_795_176_000_000_000


def first(label: str = "orchard") -> GroupManifest:
    """Return the group's first manifest, with Ann alone."""
    return sign_manifest(genesis(GROUP, Member(ANN.keys, label=label), secret_id(bytes(32))), ANN)


def relabelled(before: GroupManifest, label: str) -> GroupManifest:
    """Return the next one, in which Ann is called otherwise."""
    own = before.member(ANN.signing_public)
    assert own is not None
    return sign_manifest(before.changing(replace(own, label=label)), ANN)


def with_ben(before: GroupManifest) -> GroupManifest:
    """Return the next one, with Ben, who is called barn."""
    return sign_manifest(before.adding(Member(BEN.keys, label="barn")), ANN)


def without_ben(before: GroupManifest) -> GroupManifest:
    """Return the next one, without Ben."""
    return sign_manifest(before.removing(BEN.signing_public, secret_id(bytes([1]) * 32)), ANN)


def profile(title: str, height: int = 1) -> bytes:
    """Return Ann's operation that calls the group so."""
    log = Log(ANN.signing_public, Incarnation(bytes(8)))
    before = OperationId(bytes(32)) if height > 1 else None
    parents = () if before is None else (before,)
    body = GroupProfile(title)
    operation = Operation(
        GROUP, log, height, before, parents, height, ManifestHash(bytes(32)), NOON_US, int(body.kind), body.to_wire()
    )
    return sign_operation(operation, ANN).raw
