"""`covey.core.history.acceptance`: what a device that holds some operations does with another one, by the vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from covey.adapters.sqlite.history.operations import OperationTables
from covey.adapters.sqlite.store import empty_history
from covey.core.group.manifest import manifest_hash
from covey.core.history.acceptance import Acceptance, Waits
from covey.core.history.operation import Log, LogEnd, Operation, Remains, read_operation, sign_operation
from covey.core.ids import GroupId, Incarnation, ManifestHash
from covey.errors import LimitError, NotForUsError, RemoteError
from covey.limits.history import LOGS_OF_ONE
from tests.vectors import load, vectors
from tests.vectors.makers.cast import ALICE, BOB, GROUP_ID
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.history import EDITED, FIRST, FORK, SECOND, THIRD_RIVAL


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


def _offer(operations: OperationTables, operation: Operation, *, wanted: bool = False) -> str | None:
    """Take an operation if that is what the rules say; return what became of it."""
    if operation.group_id != GROUP_ID:
        raise NotForUsError("of another group")
    judged = Acceptance(operations, _Manifests().manifest).judge(operation, wanted=wanted)
    if isinstance(judged, Waits):
        return "waits"
    operations.add(operation, judged.version, 0)
    return None


@pytest.mark.parametrize("vector", vectors("history", "scenarios"))
def test_scenarios(vector: dict[str, Any]) -> None:  # accepts: 003.28, 003.29, 003.30, 003.32, 003.33
    with empty_history() as operations:
        for raw in vector["held"]:
            assert _offer(operations, read_operation(bytes.fromhex(raw))) is None
        offered = read_operation(bytes.fromhex(vector["raw"]))
        try:
            outcome = _offer(operations, offered)
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
    monkeypatch.setattr("covey.core.history.acceptance.LOGS_OF_ONE", 1)
    with empty_history() as operations:
        place = Remains(FIRST.id, FIRST.log, 1, 1, WITH_CAROL.hash, FIRST.kind, False, len(FIRST.raw), (), b"")
        operations.places.remember(GROUP_ID, place, WITH_CAROL.version)
        assert operations.end_of(GROUP_ID, FIRST.log) == LogEnd(1, FIRST.id, len(FIRST.raw))
        assert _offer(operations, SECOND) is None


def test_a_manifest_that_is_held_no_more_is_looked_up_again() -> None:
    manifests = _Manifests()
    with empty_history() as operations:
        acceptance = Acceptance(operations, manifests.manifest)
        assert not isinstance(acceptance.judge(_of_log(1)), Waits)
        manifests.drop(WITH_CAROL.hash)
        acceptance.forget_named()
        assert isinstance(acceptance.judge(_of_log(2)), Waits)


def _of_log(number: int) -> Operation:
    log = Log(BOB.signing_public, Incarnation(number.to_bytes(8)))
    return sign_operation(Operation(GROUP_ID, log, 1, None, (), 1, WITH_CAROL.hash, 0, 1, FIRST.body), BOB)


def test_one_author_begins_so_many_logs_unless_others_follow_them() -> None:
    with empty_history() as operations:
        for number in range(LOGS_OF_ONE):
            assert _offer(operations, _of_log(number)) is None
        with pytest.raises(LimitError):
            _offer(operations, _of_log(LOGS_OF_ONE))
        assert _offer(operations, _of_log(LOGS_OF_ONE), wanted=True) is None
        assert _offer(operations, FIRST) is None, "others are not concerned"
        assert ALICE.signing_public == FIRST.author


def test_of_one_author_so_many_bytes_are_taken_unless_others_follow_them(monkeypatch: pytest.MonkeyPatch) -> None:
    length = len(_of_log(0).raw)
    monkeypatch.setattr("covey.core.history.acceptance.MAXIMUM_AUTHOR_BYTES", 2 * length)
    with empty_history() as operations:
        assert [_offer(operations, _of_log(number)) for number in range(2)] == [None, None]
        with pytest.raises(LimitError, match="its author's part"):
            _offer(operations, _of_log(2))
        assert _offer(operations, _of_log(2), wanted=True) is None
        assert _offer(operations, FIRST) is None, "others are not concerned"


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("bound", ["MAXIMUM_LOGS", "MAXIMUM_HISTORY_BYTES"])
def test_of_a_group_so_much_is_taken_whoever_follows_it(
    monkeypatch: pytest.MonkeyPatch, bound: str, *, wanted: bool
) -> None:
    most = 2 if bound == "MAXIMUM_LOGS" else 3 * len(_of_log(0).raw) - 1
    monkeypatch.setattr(f"covey.core.history.acceptance.{bound}", most)
    with empty_history() as operations:
        assert [_offer(operations, _of_log(number)) for number in range(2)] == [None, None]
        with pytest.raises(LimitError, match="the group's history is full"):
            _offer(operations, _of_log(2), wanted=wanted)


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
