"""Which operations a device accepts into a group's history (docs/protocol/history.md, "History"; rules 1 to 3:
`operation.py`).

4. It belongs to this group.
5. Its parents are here, and its height is one more than the highest of them. Until they are here, it waits.
6. It names a manifest that is here and lists its author, not as a board. The version of that manifest is at least the
   version of each manifest that its parents name, so a removed member cannot follow anything written after its removal
   was known. The resolver's result of rivals is unsigned, so no operation names it.
7. The operation before it in its log is here: same log, previous number, lower height. Until it is here, it waits.
8. A second operation under one number proves a fork; both are kept. A third is accepted only if another author pays for
   it (rule 9).
9. Every author has its own share: `LOGS_OF_ONE` logs and `AUTHOR_SHARE_BYTES`, whatever others have written. Beyond
   these bytes it may use room that the present members share, up to `MAXIMUM_AUTHOR_BYTES`, while all of them together
   use at most `COMMON_HISTORY_BYTES`. Former members use none of that room: all of them together have `FORMER_LOGS`
   and `FORMER_HISTORY_BYTES`, so no member fills the history with devices that it admits and removes. Whoever is an
   admin in the named and in the present manifest is exempt from these limits.
   Anything more is accepted only if an operation of another author follows it and that author pays: it may pay for
   `LOGS_OF_ONE` logs, `LOGS_OF_ONE` forks and `MAXIMUM_AUTHOR_BYTES` of each other author. A device itself pays in this
   way for the operators that it has pinned.
   For what exceeds the former members' room, only present members pay.
   So no author can use up another's share, and paying reduces what an author can still pay.
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
from covey.core.history.operation import Lift, Operation
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.errors import LimitError, MalformedError, NotAllowedError, NotAMemberError, RollbackError
from covey.limits.history import (
    AUTHOR_SHARE_BYTES,
    COMMON_HISTORY_BYTES,
    FORKS_OF_ONE,
    FORMER_HISTORY_BYTES,
    FORMER_LOGS,
    LOGS_OF_ONE,
    MAXIMUM_AUTHOR_BYTES,
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
    """An acceptable operation: the version of the manifest that it names, and what another author pays for it."""

    version: int
    lift: Lift | None = None


def _read_as_named(manifest: GroupManifest) -> NamedManifest:
    authors = [member for member in manifest.members if not member.is_board]
    equal = manifest.mode in {*EQUAL_MODES, Mode.ONE_TO_ONE}
    describers = [member for member in authors if equal or member.role is Role.ADMIN]
    return NamedManifest(
        manifest.version,
        frozenset(member.keys.signing_public for member in authors),
        frozenset(member.keys.signing_public for member in describers),
        frozenset() if equal else frozenset(member.keys.signing_public for member in describers),
        manifest.mode is Mode.PERSONAL,
    )


class Acceptance:
    """The rules, over what is here."""

    def __init__(
        self,
        operations: OperationRecords,
        manifest: Callable[[GroupId, ManifestHash], bytes | None],
        present: Callable[[GroupId], GroupManifest | None] = lambda _: None,
        own_payer: Callable[[GroupId, DeviceKey], DeviceKey | None] = lambda _, __: None,
    ) -> None:
        """`manifest` returns an accepted manifest, `present` the one that a group has now, already read.

        `own_payer` returns this device where it pays for an author (rule 9).
        """
        self._operations = operations
        self._stored_manifest = manifest
        self._present = present
        self._own_payer = own_payer
        self._named: OrderedDict[ManifestHash, NamedManifest] = OrderedDict()
        """The manifests named last: reading one with 1,000 members takes a Pi milliseconds."""
        self._now: dict[GroupId, tuple[GroupManifest, NamedManifest]] = {}
        """The present manifest of each group, and the same as operations name it."""

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

    def may_pay(self, operation: Operation) -> bool:
        """Say whether the author of a following operation may pay for what it follows: it was a member."""
        manifest = self.named(operation.group_id, operation.manifest)
        return manifest is not None and operation.author in manifest.authors

    def judge(
        self, operation: Operation, payers: Iterable[DeviceKey] = (), *, bounded: bool = True
    ) -> Accepted | Waits:
        """Apply rules 5 to 13; say how an acceptable operation is taken, or what it waits for.

        `payers` are other authors whose operations follow it, the nearest first. Unless `bounded`, the group vouches
        for the operation, and rules 8 and 9 do not apply.

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
        lift = self._lift(operation, manifest, payers) if bounded else None
        if operation.kind >= FIRST_UNJUDGED:
            return Accepted(manifest.version, lift)
        read_body(operation)
        kind = OperationKind(operation.kind)
        traits = KINDS[kind]
        if traits.by_admins and operation.author not in manifest.describers:
            raise NotAllowedError(f"a {kind.word} by a member that is not an admin")
        if traits.place is (Place.SHARED if manifest.is_personal else Place.PERSONAL):
            raise NotAllowedError(f"a {kind.word} in a group of another mode")
        return Accepted(manifest.version, lift)

    def _lift(self, operation: Operation, manifest: NamedManifest, payers: Iterable[DeviceKey]) -> Lift | None:
        """Rules 8 and 9: return what another author pays for an operation; None where its author's own share will do.

        Raises:
            LimitError: nobody pays for it.
        """
        group_id, author, records = operation.group_id, operation.author, self._operations
        end = records.end_of(group_id, operation.log)
        is_rival = end is not None and operation.number <= end.number
        is_crowded = is_rival and records.numbered(group_id, operation.log, operation.number) >= FORKS_OF_ONE
        is_new, length = end is None, len(operation.raw)
        now = self._named_now(group_id)
        is_former = now is not None and author not in now.authors
        has_room = not is_former or self._former_have_room(group_id, length, is_new=is_new)
        if not is_crowded and has_room:
            if author in manifest.admins and (now is None or author in now.admins):
                return None
            own = records.totals(group_id, author)
            may_begin = not is_new or own.logs < LOGS_OF_ONE
            if is_former and may_begin and own.length + length <= MAXIMUM_AUTHOR_BYTES:
                return None
            if not is_former and may_begin and self._has_room(group_id, own.length, length):
                return None
        own_payer = self._own_payer(group_id, author)
        for payer in (*payers, *(() if own_payer is None else (own_payer,))):
            if not has_room and now is not None and payer not in now.authors:
                continue
            paid = records.paid(group_id, payer, author)
            if (
                paid.logs + is_new <= LOGS_OF_ONE
                and paid.forks + is_crowded <= LOGS_OF_ONE
                and paid.length + length <= MAXIMUM_AUTHOR_BYTES
            ):
                return Lift(payer, int(is_new), int(is_crowded), length)
        if is_crowded:
            raise LimitError(f"more than {FORKS_OF_ONE} operations under one number")
        raise LimitError("the author's share of the group's history is full")

    def _former_have_room(self, group_id: GroupId, length: int, *, is_new: bool) -> bool:
        """Say whether former members, all together, may add an operation of so many bytes (rule 9)."""
        now = self._named_now(group_id)
        assert now is not None, "somebody is a former member"
        used = self._operations.lengths(group_id)
        if sum(held for author, held in used.items() if author not in now.authors) + length > FORMER_HISTORY_BYTES:
            return False
        if not is_new:
            return True
        return sum(log.author not in now.authors for log, _ in self._operations.logs(group_id)) < FORMER_LOGS

    def _has_room(self, group_id: GroupId, held: int, length: int) -> bool:
        """Say whether an author that has `held` bytes may add `length` more (rule 9)."""
        if held + length <= AUTHOR_SHARE_BYTES:
            return True
        if held + length > MAXIMUM_AUTHOR_BYTES:
            return False
        now = self._named_now(group_id)
        used = self._operations.lengths(group_id)
        if now is not None:  # former members give their part of the room back
            used = {author: bytes_used for author, bytes_used in used.items() if author in now.authors}
        common = sum(max(0, each - AUTHOR_SHARE_BYTES) for each in used.values())
        more = held + length - max(held, AUTHOR_SHARE_BYTES)
        return common + more <= COMMON_HISTORY_BYTES
