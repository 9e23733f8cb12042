"""Which operations a device takes into a group's history (docs/protocol.md, "History"; rules 1 to 3: `operation.py`).

4. It is of the group in question.
5. Its parents are here, and it is one higher than the highest of them. Until they are, it waits.
6. It names a manifest that is here and lists its author, not as a board; that manifest is of no lower version than
   those that its parents name. So whoever was removed can follow nothing that was written in knowledge of that.
   What rivals come to together is signed by nobody: nothing names it.
7. The operation before it in its log is here; until it is, it waits. It is of the same log, of the number before, and
   lower.
8. A second operation under one number proves a fork; both are kept. A third is taken only if another author's
   operation follows it.
9. Of one author at most `LOGS_OF_ONE` logs and `MAXIMUM_AUTHOR_BYTES` are taken, and more only where another
   author's operation follows it; of a group `MAXIMUM_LOGS` and `MAXIMUM_HISTORY_BYTES`, and no more.
10. Its body is of a kind that this device knows, and of that kind's shape.
11. A profile, and a checkpoint, is an admin's where the mode of the group knows admins.
13. What a person's devices say to each other is of a personal group alone, and such a group has no checkpoint.

Whether what is taken counts (rule 12) is decided in `standing.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.group.manifest import EQUAL_MODES, GroupManifest, Mode, Role, read_manifest
from covey.core.history.bodies import read_body
from covey.core.history.kinds import KINDS, OperationKind, Place
from covey.core.history.operation import Operation
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.errors import LimitError, MalformedError, NotAllowedError, NotAMemberError, RollbackError
from covey.limits.history import (
    FORKS_OF_ONE,
    LOGS_OF_ONE,
    MAXIMUM_AUTHOR_BYTES,
    MAXIMUM_HISTORY_BYTES,
    MAXIMUM_LOGS,
)

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords

_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class NamedManifest:
    """A manifest, as far as operations name it: its version, who may write under it, and who speak for the group."""

    version: int
    authors: frozenset[DeviceKey]
    describers: frozenset[DeviceKey]
    is_personal: bool


@dataclass(frozen=True, slots=True)
class Waits:
    """What an operation rests on and is not here: operations by their ids, or the manifest."""

    operations: tuple[OperationId, ...]
    manifest: bool


class Acceptance:
    """The rules, over what is here."""

    def __init__(
        self,
        operations: OperationRecords,
        manifest: Callable[[GroupId, ManifestHash], bytes | None],
        present: Callable[[GroupId], GroupManifest | None] = lambda _: None,
    ) -> None:
        """`manifest` returns an accepted manifest, `present` the one that a group has now, already read."""
        self._operations = operations
        self._stored_manifest = manifest
        self._present = present
        self._named: OrderedDict[ManifestHash, NamedManifest] = OrderedDict()
        """The manifests named last: reading one with 1,000 members takes a Pi milliseconds."""

    def forget_named(self) -> None:
        """Look manifests up again: one that rivals of its issuer have replaced is not held any more (rule 6)."""
        self._named.clear()

    def named(self, group_id: GroupId, manifest_hash: ManifestHash) -> NamedManifest | None:
        """Return a manifest that is here."""
        found = self._named.get(manifest_hash)
        if found is None:
            manifest = self._manifest(group_id, manifest_hash)
            if manifest is None:
                return None
            authors = [member for member in manifest.members if not member.is_board]
            equal = manifest.mode in {*EQUAL_MODES, Mode.ONE_TO_ONE}
            describers = [member for member in authors if equal or member.role is Role.ADMIN]
            found = self._named[manifest_hash] = NamedManifest(
                manifest.version,
                frozenset(member.keys.signing_public for member in authors),
                frozenset(member.keys.signing_public for member in describers),
                manifest.mode is Mode.PERSONAL,
            )
            if len(self._named) > _REMEMBERED:
                self._named.popitem(last=False)
        return found

    def _manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> GroupManifest | None:
        present = self._present(group_id)
        if present is not None and present.raw and present.hash == manifest_hash:
            return present
        raw = self._stored_manifest(group_id, manifest_hash)
        return None if raw is None else read_manifest(raw, verify=False)

    def judge(self, operation: Operation, *, wanted: bool = False) -> NamedManifest | Waits:
        """Apply rules 5 to 10; return the manifest that an acceptable operation names, or what it waits for.

        `wanted` says that another author's operation follows it (rule 8).

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
            raise MalformedError("an operation is one higher than the highest that it follows")
        if operation.author not in manifest.authors:
            raise NotAMemberError("the manifest that an operation names does not let its author write")
        if any(each.manifest_version > manifest.version for each in held):
            raise RollbackError("an operation names a manifest before the one that it follows")
        for previous in (rests_on[each] for each in before):
            assert previous is not None, "nothing is missing"
            if (previous.log, previous.number + 1) != (operation.log, operation.number):
                raise MalformedError("what an operation names as the one before it in its log is another one")
            if previous.height >= operation.height:
                raise MalformedError("an operation is higher than the one before it in its log")
        self._check_bounds(operation, wanted=wanted)
        read_body(operation)
        kind = OperationKind(operation.kind)
        traits = KINDS[kind]
        if traits.by_admins and operation.author not in manifest.describers:
            raise NotAllowedError(f"a {kind.word} by a member that is no admin")
        if traits.place is (Place.SHARED if manifest.is_personal else Place.PERSONAL):
            raise NotAllowedError(f"a {kind.word} in a group of another mode")
        return manifest

    def _check_bounds(self, operation: Operation, *, wanted: bool) -> None:
        """Rules 8 and 9."""
        group_id, records = operation.group_id, self._operations
        end = records.end_of(group_id, operation.log)
        new, length = int(end is None), len(operation.raw)
        group = records.totals(group_id)
        if group.logs + new > MAXIMUM_LOGS or group.length + length > MAXIMUM_HISTORY_BYTES:
            raise LimitError("the group's history is full")
        if wanted:
            return
        author = records.totals(group_id, operation.author)
        if author.logs + new > LOGS_OF_ONE or author.length + length > MAXIMUM_AUTHOR_BYTES:
            raise LimitError("its author's part of the group's history is full")
        rival = end is not None and operation.number <= end.number
        if rival and records.numbered(group_id, operation.log, operation.number) >= FORKS_OF_ONE:
            raise LimitError(f"more than {FORKS_OF_ONE} operations under one number")
