"""A power cut while a release begins: every group has its file and its order, or none of them has either."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from covey.adapters.sqlite.content import ContentState
from covey.app.content import content, offering
from covey.app.orders import releases
from covey.cli.main import main
from covey.core.history.history import History
from covey.core.history.kinds import OperationKind
from covey.errors import LocalError
from covey.limits.content import OFFERED_WITHIN_US
from tests.operated_fleet import OperatedFleet

pytestmark = pytest.mark.processes

_CUT = 9
_WRITES = 7
"""A file and an order in each of three groups, and the plan."""


@pytest.fixture(scope="module")
def made_fleet(tmp_path_factory: pytest.TempPathFactory) -> OperatedFleet:
    return OperatedFleet(tmp_path_factory.mktemp("fleet"), groups=3, devices=2, phone=False)


@pytest.fixture
def fleet(made_fleet: OperatedFleet, tmp_path: Path) -> OperatedFleet:
    return made_fleet.copied(tmp_path)


def _release(fleet: OperatedFleet, folder: Path, cut: Callable[[], None]) -> int:
    """Begin a release in a process of its own, in which `cut` has put the power cut; return how that ended."""
    file = folder / "model.bin"
    file.write_bytes(b"model" * 1000)
    child = os.fork()
    if child == 0:
        try:
            cut()
            main(
                ["release", "create", str(file), "--fleet", "--health", "reported", "--state", str(fleet.laptop.state)]
            )
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _cut_at_write(number: int) -> Callable[[], None]:
    """Cut the power at the so many-th operation that is written."""
    write, calls = History.write, 0

    def cutting(self: History, *words: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            os._exit(_CUT)
        return write(self, *words)  # type: ignore[arg-type]

    def cut() -> None:
        History.write = cutting  # type: ignore[assignment,method-assign]

    return cut


def _cut_after_the_commit() -> None:
    vars(releases)["release"] = lambda *_: os._exit(_CUT)


def _cut_while_the_last_file_is_sealed() -> None:
    seal, calls = content.make_room, 0

    def cutting(*words: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            os._exit(_CUT)
        seal(*words)  # type: ignore[arg-type]

    vars(offering)["make_room"] = cutting


def _written(fleet: OperatedFleet) -> list[tuple[int, int]]:
    """Return for each group how many files it was offered, and how many orders were given."""
    with fleet.open(fleet.laptop) as opened:
        count = opened.store.operations.of_kind
        return [
            (len([*count(each, OperationKind.FILE)]), len([*count(each, OperationKind.COMMAND)]))
            for each in fleet.groups
        ]


def _states(fleet: OperatedFleet) -> list[ContentState]:
    with fleet.open(fleet.laptop) as opened:
        return [each.state for each in opened.store.content.all()]


@pytest.mark.parametrize("number", range(1, _WRITES + 1))
def test_a_cut_between_the_offers_and_the_orders_leaves_neither(
    fleet: OperatedFleet, tmp_path: Path, number: int
) -> None:
    assert _release(fleet, tmp_path, _cut_at_write(number)) == _CUT
    assert _written(fleet) == [(0, 0)] * 3
    assert fleet.laptop.json("release", "list") == []


def test_a_cut_after_the_commit_leaves_a_release_that_can_be_resumed(fleet: OperatedFleet, tmp_path: Path) -> None:
    assert _release(fleet, tmp_path, _cut_after_the_commit) == _CUT
    assert _written(fleet) == [(1, 1)] * 3
    assert _states(fleet) == [ContentState.HERE] * 3
    [found] = fleet.laptop.json("release", "list")
    assert (found["state"], len(found["groups"]), found["missing"]) == ("under way", 3, [])


def test_what_was_sealed_before_a_cut_is_deleted_a_day_later(fleet: OperatedFleet, tmp_path: Path) -> None:
    assert _release(fleet, tmp_path, _cut_while_the_last_file_is_sealed) == _CUT
    assert _written(fleet) == [(0, 0)] * 3
    assert _states(fleet) == [ContentState.SEALED] * 2
    with fleet.open(fleet.laptop) as opened:
        kept, now_us = opened.store.content, opened.now().wall_us
        kept.sweep(now_us)
        assert kept.files.used_bytes() > 2 * 5000, "another command may be about to offer it"
        kept.sweep(now_us + OFFERED_WITHIN_US + 1_000_000)
        assert kept.all() == []
        assert kept.files.used_bytes() == 0


def test_a_release_that_cannot_begin_leaves_no_file(
    fleet: OperatedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"model")

    def refusing(self: History, *words: object) -> None:
        raise LocalError("no room in the history")

    monkeypatch.setattr(History, "write", refusing)
    assert "no room in the history" in fleet.laptop.fails("release", "create", str(file), "--fleet", code=1)
    assert (_states(fleet), _written(fleet)) == ([], [(0, 0)] * 3)
