"""`covey.core.history.acceptance`: what a device that holds some operations does with another one, by the vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from covey.adapters.sqlite.history.operations import OperationTables
from covey.adapters.sqlite.store import empty_history
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, manifest_hash, sign_manifest
from covey.core.history.acceptance import Acceptance, Waits
from covey.core.history.bodies import Merge
from covey.core.history.operation import Log, LogEnd, Operation, Remains, read_operation, sign_operation
from covey.core.ids import GroupId, Incarnation, ManifestHash
from covey.errors import LimitError, NotForUsError, RemoteError
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.history import LOGS_OF_ONE
from tests.fleet import identity
from tests.vectors import load, vectors
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID
from tests.vectors.makers.groups import WITH_CAROL, WITHOUT_BOB
from tests.vectors.makers.history import EDITED, FIRST, FORK, LED, SECOND, THIRD_RIVAL


class _Manifests:
    """The manifests of the vectors."""

    def __init__(self) -> None:
        raws = [bytes.fromhex(each) for each in load("history")["manifests"]]
        self._by_hash = {manifest_hash(raw): raw for raw in raws}

    def manifest(self, _group_id: GroupId, manifest_hash: ManifestHash) -> bytes | None:
        """Return one of them."""
        return self._by_hash.get(manifest_hash)

    def drop(self, manifest_hash: ManifestHash) -> None:
        """Hold one of them no more."""
        del self._by_hash[manifest_hash]


def _offer(
    operations: OperationTables, operation: Operation, *, followed: bool = False, present: GroupManifest = WITH_CAROL
) -> str | None:
    """Take an operation if that is what the rules say; return what became of it."""
    if operation.group_id != GROUP_ID:
        raise NotForUsError("of another group")
    judged = Acceptance(operations, _Manifests().manifest, lambda _: present).judge(operation, followed=followed)
    if isinstance(judged, Waits):
        return "waits"
    operations.add(operation, judged.version, 0)
    return None


@pytest.mark.parametrize("vector", vectors("history", "scenarios"))
def test_scenarios(vector: dict[str, Any]) -> None:  # accepts: 003.28, 003.29, 003.30, 003.32, 003.33
    with empty_history() as operations:
        for raw in vector["held"]:
            assert _offer(operations, read_operation(bytes.fromhex(raw))) is None
        offered = read_operation(bytes.fromhex(vector["bytes"]))
        try:
            outcome = _offer(operations, offered, followed=vector["follower"] is not None)
        except RemoteError as error:
            outcome = error.code
        assert outcome == vector["outcome"]


def test_a_fork_is_bounded_and_shown_whether_its_first_operation_was_forgotten_or_not() -> None:
    outcomes = []
    for forgets in (False, True):
        with empty_history() as operations:
            assert [_offer(operations, each) for each in (FIRST, SECOND, EDITED)] == [None] * 3
            if forgets:
                arrivals = {each.id: each.arrival for each in operations.in_order(GROUP_ID)}
                assert operations.forgotten.take([arrivals[SECOND.id]]) == 1
            assert _offer(operations, FORK) is None
            with pytest.raises(LimitError, match="under one number"):
                _offer(operations, THIRD_RIVAL)
            outcomes.append((operations.forks(GROUP_ID), operations.end_of(GROUP_ID, FIRST.log)))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == {ALICE.signing_public: 1}


def test_a_log_goes_on_whose_last_operation_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer is given places without words; a bound on logs must not count the log twice."""
    monkeypatch.setattr("covey.core.history.shares.LOGS_OF_ONE", 1)
    with empty_history() as operations:
        place = Remains(FIRST.id, FIRST.log, 1, 1, WITH_CAROL.hash, FIRST.kind, False, len(FIRST.raw), (), b"")
        operations.remember(GROUP_ID, place, WITH_CAROL.version)
        assert operations.end_of(GROUP_ID, FIRST.log) == LogEnd(1, FIRST.id, len(FIRST.raw))
        assert _offer(operations, SECOND) is None


def test_a_dropped_manifest_is_looked_up_again() -> None:
    manifests = _Manifests()
    with empty_history() as operations:
        acceptance = Acceptance(operations, manifests.manifest)
        assert not isinstance(acceptance.judge(_of_log(1)), Waits)
        manifests.drop(WITH_CAROL.hash)
        acceptance.forget_named()
        assert isinstance(acceptance.judge(_of_log(2)), Waits)


def _of_log(number: int, author: Identity = BOB, body: bytes = FIRST.body) -> Operation:
    log = Log(author.signing_public, Incarnation(number.to_bytes(8)))
    return sign_operation(Operation(GROUP_ID, log, 1, None, (), 1, WITH_CAROL.hash, 0, 1, body), author)


def test_an_author_begins_so_many_logs_and_others_are_not_concerned() -> None:
    with empty_history() as operations:
        for number in range(LOGS_OF_ONE):
            assert _offer(operations, _of_log(number)) is None
        with pytest.raises(LimitError, match="the author's share"):
            _offer(operations, _of_log(LOGS_OF_ONE))
        for number in range(LOGS_OF_ONE):
            assert _offer(operations, _of_log(number, CAROL)) is None
        assert _offer(operations, FIRST) is None, "a member that has written nothing yet has its whole share"


def test_what_is_followed_is_accepted_beyond_its_authors_share() -> None:
    with empty_history() as operations:
        for number in range(LOGS_OF_ONE):
            assert _offer(operations, _of_log(number)) is None
        assert _offer(operations, _of_log(LOGS_OF_ONE), followed=True) is None
        for each in (FIRST, SECOND, FORK):
            assert _offer(operations, each) is None
        assert _offer(operations, THIRD_RIVAL, followed=True) is None


def test_a_device_does_not_limit_operators_that_its_owner_has_pinned() -> None:
    with empty_history() as operations:
        for number in range(LOGS_OF_ONE):
            assert _offer(operations, _of_log(number)) is None
        acceptance = Acceptance(operations, _Manifests().manifest, pinned=lambda _: frozenset({BOB.signing_public}))
        assert not isinstance(acceptance.judge(_of_log(LOGS_OF_ONE)), Waits)


def test_admins_are_outside_of_the_limits_as_long_as_they_are_admins() -> None:
    def by_an_admin(number: int) -> Operation:
        log = Log(BOB.signing_public, Incarnation(number.to_bytes(8)))
        return sign_operation(Operation(GROUP_ID, log, 1, None, (), 1, LED.hash, 0, 1, FIRST.body), BOB)

    with empty_history() as operations:
        for number in range(LOGS_OF_ONE + 1):
            assert _offer(operations, by_an_admin(number), present=LED) is None
        for present in (WITHOUT_BOB, WITH_CAROL):
            with pytest.raises(LimitError, match="the author's share"):
                _offer(operations, by_an_admin(LOGS_OF_ONE + 1), present=present)


def test_of_one_author_so_many_bytes_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    length = len(_of_log(0).raw)
    monkeypatch.setattr("covey.core.history.shares.MAXIMUM_AUTHOR_BYTES", 2 * length)
    with empty_history() as operations:
        assert [_offer(operations, _of_log(number)) for number in (1, 2)] == [None, None]
        with pytest.raises(LimitError, match="the author's share"):
            _offer(operations, _of_log(3))
        assert _offer(operations, _of_log(0)) is None, "a lower log comes first; what is beyond then is dropped later"
        assert _offer(operations, _of_log(3, CAROL)) is None, "others are not concerned"


@pytest.mark.parametrize("bound", ["LOGS_BEHIND", "BYTES_BEHIND"])
def test_one_operation_follows_only_so_much_of_one_author(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    logs = [_of_log(number) for number in range(4)]
    monkeypatch.setattr(f"covey.core.history.shares.{bound}", 3 * (len(logs[0].raw) if "BYTES" in bound else 1))
    with empty_history() as operations:
        for each in logs:
            assert _offer(operations, each) is None
        assert _offer(operations, _following(*logs[:3])) is None
        with pytest.raises(LimitError, match="follows more of one author"):
            _offer(operations, _following(*logs))
        assert _offer(operations, _following(logs[3])) is None, "which others follow is another matter"


def _following(*parents: Operation) -> Operation:
    log = Log(CAROL.signing_public, Incarnation(parents[-1].id[:8]))
    ids = tuple(sorted(each.id for each in parents))
    return sign_operation(Operation(GROUP_ID, log, 1, None, ids, 2, WITH_CAROL.hash, 0, 0, Merge().to_wire()), CAROL)


def test_the_manifest_that_holds_is_not_read_again() -> None:
    class Nowhere:
        """Manifests that cannot be read."""

        def manifest(self, _group_id: GroupId, _manifest_hash: ManifestHash) -> bytes | None:
            return None

    with empty_history() as operations:
        offered = _of_log(1)
        assert isinstance(Acceptance(operations, Nowhere().manifest).judge(offered), Waits)
        judged = Acceptance(operations, Nowhere().manifest, lambda _: WITH_CAROL).judge(offered)
        assert not isinstance(judged, Waits)
        assert judged.version == WITH_CAROL.version


def test_nothing_names_what_rivals_come_to_together() -> None:
    together = replace(WITH_CAROL, raw=b"", votes=())
    named = sign_operation(replace(_of_log(1), manifest=together.hash, raw=b""), BOB)
    with empty_history() as operations:
        judged = Acceptance(operations, _Manifests().manifest, lambda _: together).judge(named)
        assert isinstance(judged, Waits)
        assert judged.manifest


@pytest.mark.slow
def test_a_thousand_members_that_were_restored_twice_each_still_write() -> None:
    """All of them once shared 2,048 logs."""
    restored = [identity(f"member {number}") for number in range(MAXIMUM_MEMBERS)]
    draft = WITHOUT_BOB
    members = sorted((Member(each.keys) for each in restored), key=lambda each: each.keys.signing_public)
    everybody = sign_manifest(replace(draft, members=tuple(members), version=9), restored[0])

    def judged(operations: OperationTables, author: Identity, number: int) -> None:
        log = Log(author.signing_public, Incarnation(number.to_bytes(8)))
        made = sign_operation(Operation(GROUP_ID, log, 1, None, (), 1, everybody.hash, 0, 1, FIRST.body), author)
        accepted = acceptance.judge(made)
        assert not isinstance(accepted, Waits)
        operations.add(made, accepted.version, 0)

    with empty_history() as operations:
        acceptance = Acceptance(operations, lambda *_: everybody.raw, lambda _: everybody)
        for number in range(3):
            for author in restored[:-1]:
                judged(operations, author, number)
        for author in (restored[-1], restored[0]):
            judged(operations, author, 99)
