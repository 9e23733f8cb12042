"""A group's whole history, taken from its genesis by one who holds nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.trust import GroupTrust, Verdict
from covey.errors import MalformedError, RollbackError


def replay(raws: Sequence[bytes]) -> GroupManifest:
    """Take manifests in their order, each after what it follows; return what they come to.

    Raises:
        RemoteError: the rule that failed.
    """
    manifests = [read_manifest(raw) for raw in raws]
    if not manifests:
        raise MalformedError("an empty chain")
    trust = GroupTrust(manifests[0].group_id, None)
    trust.create(manifests[0])
    followed = Counter(each for manifest in manifests for each in manifest.prev)
    for raw, manifest in zip(raws[1:], manifests[1:], strict=True):
        if trust.update(raw) is Verdict.UNCHANGED:
            raise RollbackError("a version stands twice in the chain")
        followed.subtract(manifest.prev)
        if not any(followed[each.hash] for each in trust.held() if each.hash != manifest.hash):
            trust.settle()
    assert trust.current is not None
    return trust.current
