"""Which operations a device accepts into a group's history (docs/protocol/history.md, "History"; rules 1 to 3:
`operation.py`).

4. It belongs to this group.
5. Its parents are here, and its height is one more than the highest of them. Until they are here, it waits.
6. It names a manifest that is here and lists its author, not as a board. The version of that manifest is at least the
   version of each manifest that its parents name, so a removed member cannot follow anything written after its removal
   was known. The resolver's result of rivals is unsigned, so no operation names it.
7. The operation before it in its log is here: same log, previous number, lower height. Until it is here, it waits.
8. A second operation under one number proves a fork; both are kept. A third is accepted only if it is followed (rule 9)
   or has a lower id.
9. It is in its author's share, or followed by an operation that is in the share of its own author; and what it follows
   of one author and of one family is within bounds (`shares.py`).
10. Its body has the shape of its kind. The content of kinds added after version 1 is not judged (`kinds.py`).
11. In a mode with admins, only admins write profiles and checkpoints.
13. Operations for a person's own devices belong only in a personal group, and a personal group has no checkpoints.

`standing.py` decides whether an accepted operation counts (rule 12).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.group.manifest import EQUAL_MODES, GroupManifest, Mode, Role, read_manifest
from covey.core.history.bodies import read_body
from covey.core.history.kinds import FIRST_UNJUDGED, KINDS, OperationKind, Place
from covey.core.history.operation import Operation
from covey.core.history.shares import HistoryShares, MayFollow
from covey.core.history.sponsors import Sponsors
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.errors import LimitError, MalformedError, NotAllowedError, NotAMemberError, RollbackError
from covey.limits.history import FORKS_OF_ONE

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords

_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class NamedManifest:
    """A manifest, as far as operations name it: its version, who may write under it, and who speak for the group."""

    version: int
    authors: frozenset[DeviceKey]
    describers: frozenset[DeviceKey]
    admins: frozenset[DeviceKey]
    """Those of a mode that knows admins."""
    is_personal: bool


@dataclass(frozen=True, slots=True)
class Waits:
    """What an operation rests on and is not here: operations by their ids, or the manifest."""

    operations: tuple[OperationId, ...]
    manifest: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """An acceptable operation, and the version of the manifest that it names."""

    version: int


def _read_as_named(manifest: GroupManifest) -> NamedManifest:
    writers, is_personal = manifest.writers, manifest.mode is Mode.PERSONAL
    if manifest.mode in {*EQUAL_MODES, Mode.ONE_TO_ONE}:
        return NamedManifest(manifest.version, writers, writers, frozenset(), is_personal)
    admins = frozenset(each.keys.signing_public for each in manifest.members if each.role is Role.ADMIN) & writers
    return NamedManifest(manifest.version, writers, admins, admins, is_personal)


class Acceptance:
    """The rules, over what is here."""

    def __init__(
        self,
        operations: OperationRecords,
        manifest: Callable[[GroupId, ManifestHash], bytes | None],
        present: Callable[[GroupId], GroupManifest | None] = lambda _: None,
        pinned: Callable[[GroupId], frozenset[DeviceKey]] = lambda _: frozenset(),
        at_version: Callable[[GroupId, int], Iterable[bytes]] = lambda *_: (),
    ) -> None:
        """`manifest` returns an accepted manifest, `present` the one that a group has now, already read.

        `pinned` returns the operators of a group that this device's owner has pinned, `at_version` the accepted
        manifests of a version.
        """
        self._operations = operations
        self._stored_manifest = manifest
        self._present = present
        self._pinned = pinned
        self.shares = HistoryShares(
            operations, self._is_unlimited, self._admins_of, Sponsors(self._manifest, at_version)
        )
        self._named: OrderedDict[ManifestHash, NamedManifest] = OrderedDict()
        """The manifests named last: reading one with 1,000 members takes a Pi milliseconds."""
        self._now: dict[GroupId, tuple[GroupManifest, NamedManifest]] = {}
        """The present manifest of each group, and the same as operations name it."""

    def forget_named(self) -> None:
        """Look manifests up again: one that rivals of its issuer have replaced is not held any more (rule 6)."""
        self._named.clear()
        self.shares.look_for_manifests()

    def named(self, group_id: GroupId, manifest_hash: ManifestHash) -> NamedManifest | None:
        """Return a manifest that is here."""
        found = self._named.get(manifest_hash)
        if found is None:
            manifest = self._manifest(group_id, manifest_hash)
            if manifest is None:
                return None
            if manifest is self._present(group_id):
                return self._named_now(group_id)
            found = self._named[manifest_hash] = _read_as_named(manifest)
            if len(self._named) > _REMEMBERED:
                self._named.popitem(last=False)
        return found

    def _manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> GroupManifest | None:
        present = self._present(group_id)
        if present is not None and present.raw and present.hash == manifest_hash:
            return present
        raw = self._stored_manifest(group_id, manifest_hash)
        return None if raw is None else read_manifest(raw, verify=False)

    def _named_now(self, group_id: GroupId) -> NamedManifest | None:
        """Return the authors and the admins of the present manifest."""
        present = self._present(group_id)
        if present is None:
            return None
        known = self._now.get(group_id)
        if known is None or known[0] is not present:
            known = self._now[group_id] = present, _read_as_named(present)
        return known[1]

    def _is_unlimited(self, group_id: GroupId, author: DeviceKey) -> bool:
        now = self._named_now(group_id)
        return (now is not None and author in now.admins) or author in self._pinned(group_id)

    def _admins_of(self, group_id: GroupId, manifest_hash: ManifestHash) -> frozenset[DeviceKey]:
        found = self.named(group_id, manifest_hash)
        return frozenset() if found is None else found.admins

    def judge(
        self, operation: Operation, *, followed: bool = False, bounded: bool = True, own: bool = False
    ) -> Accepted | Waits:
        """Apply rules 5 to 13; say how an acceptable operation is taken, or what it waits for.

        `followed` says that an operation in its author's share follows it. Unless `bounded`, the group vouches for the
        operation, and rules 8 and 9 do not apply. What this device's `own` operation follows was chosen within bounds.

        Raises:
            RemoteError: the rule that it breaks.
        """
        group_id, records = operation.group_id, self._operations
        before = () if operation.previous is None else (operation.previous,)
        rests_on = {each: records.held(group_id, each) for each in (*operation.parents, *before)}
        missing = tuple(sorted(each for each, held in rests_on.items() if held is None))
        manifest = self.named(group_id, operation.manifest)
        if missing or manifest is None:
            return Waits(missing, manifest is None)
        held = [found for each, found in rests_on.items() if found is not None and each in operation.parents]
        if operation.height != 1 + max((each.height for each in held), default=0):
            raise MalformedError("an operation's height must be one above its highest parent")
        if operation.author not in manifest.authors:
            raise NotAMemberError("the operation's manifest does not allow its author to write")
        if any(each.manifest_version > manifest.version for each in held):
            raise RollbackError("the operation names an older manifest than its parents")
        for previous in (rests_on[each] for each in before):
            assert previous is not None, "nothing is missing"
            if (previous.log, previous.number + 1) != (operation.log, operation.number):
                raise MalformedError("the operation does not name its predecessor in its log")
            if previous.height >= operation.height:
                raise MalformedError("an operation must be higher than its predecessor in its log")
        if bounded and self._check_share(operation, followed=followed, own=own) is MayFollow.UNKNOWN:
            return Waits((), manifest=True)
        self.shares.note(group_id, operation.author, operation.manifest)
        if operation.kind >= FIRST_UNJUDGED:
            return Accepted(manifest.version)
        read_body(operation)
        kind = OperationKind(operation.kind)
        traits = KINDS[kind]
        if traits.by_admins and operation.author not in manifest.describers:
            raise NotAllowedError(f"a {kind.word} by a member that is not an admin")
        if traits.place is (Place.SHARED if manifest.is_personal else Place.PERSONAL):
            raise NotAllowedError(f"a {kind.word} in a group of another mode")
        return Accepted(manifest.version)

    def _check_share(self, operation: Operation, *, followed: bool, own: bool) -> MayFollow:
        """Check rules 8 and 9, as far as what is here allows.

        Raises:
            LimitError: it breaks one.
        """
        if not followed and not self.shares.has_number(operation):
            raise LimitError(f"more than {FORKS_OF_ONE} operations under one number")
        if not followed and not self.shares.has_log(operation):
            raise LimitError("the author's share of the group's history is full")
        if own:
            return MayFollow.WITHIN
        before = () if operation.previous is None else (operation.previous,)
        found = self.shares.may_follow(operation.group_id, operation.author, (*operation.parents, *before))
        if found is MayFollow.BEYOND:
            raise LimitError("it follows more of one author, or of one family, than an operation may")
        return found
