"""Results of commands go once more to who lacks them, and to nobody else; settings' reports do so by the same rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.sqlite.file.salvage import salvage
from covey.adapters.sqlite.orders import order_results
from covey.core.actions import reporting
from covey.core.actions.results import CommandState
from covey.core.ids import INCARNATION_BYTES, Incarnation, OperationId
from covey.limits.storage import OUTBOX_BYTES
from tests.fleet import admit
from tests.unit.app.orders.test_ordered_actions import Fleet, Machine


class Site(Fleet):
    """Ann operates, and what she kept may be gone; `copy` is her state before she ordered anything."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.obey()
        self.copy = self.ann.copy_state()

    def do(self, count: int = 1) -> list[OperationId]:
        """Have ben do some commands, and ann know of it."""
        orders = []
        for _ in range(count):
            orders.append(self.order())
            self.machine.turn()
            self.machine.become()
            self.carry()
        return orders

    def known(self) -> list[OperationId]:
        """Return of which commands ann knows what became of them, in the order in which she was told."""
        kept = self.ann.store.order_results.all(self.group_id)
        return [each.result.order for each in sorted(kept, key=lambda each: each.id)]

    def look(self) -> None:
        """Let a minute pass, in which ben says something."""
        self.ben.blob(self.group_id, b"its acknowledgement shows what is lacking")
        self.carry()
        self.machine.turn()
        self.carry()

    def waiting(self) -> int:
        """Return how much waits for ann."""
        return self.ben.store.outbox.totals()[0]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_restored_operator_receives_results_again_once(site: Site) -> None:
    [order] = site.do()
    site.ann.return_to(site.copy)
    assert site.known() == []
    site.look()
    [kept] = site.ann.store.order_results.of_order(site.group_id, order)
    assert (kept.result.state, kept.result.exit) == (CommandState.DONE, 0)
    assert (kept.output_bytes, kept.result.cut) == (0, True), "there was some output"
    site.machine.turn()
    assert site.waiting() == 0, "once"


def test_a_device_without_state_receives_results_again_once_readmitted(site: Site) -> None:
    orders = site.do(2)
    site.ann.return_to(None)
    admit(site.ben, site.ann, site.group_id)
    site.look()
    assert site.known() == orders


def test_a_power_cut_between_what_shows_it_and_the_answer_changes_nothing(site: Site) -> None:
    orders = site.do()
    site.ann.return_to(site.copy)
    site.ben.blob(site.group_id, b"its acknowledgement shows what is lacking")
    site.carry()
    site.machine.restart()
    site.machine.turn()
    site.machine.restart()
    site.carry()
    assert site.known() == orders


def test_all_go_again_once_from_another_incarnation(site: Site) -> None:
    orders = site.do(2)
    with site.ben.store.transaction():
        site.ben.store.incarnations.renew(Incarnation(site.ben.rng(INCARNATION_BYTES)))
    site.machine.restart()
    site.ann.return_to(site.copy)
    site.machine.turn()
    site.carry()
    assert site.known() == orders
    site.machine.turn()
    assert site.waiting() == 0


@pytest.mark.slow
def test_a_salvaged_state_remembers_who_received_reports(site: Site) -> None:
    orders = site.do()
    site.ben.stop()
    salvage(site.ben.path, site.ben.identity, Incarnation(site.ben.rng(INCARNATION_BYTES)), OUTBOX_BYTES, 1)
    site.machine.restart()
    site.ann.return_to(site.copy)
    site.machine.turn()
    site.carry()
    assert site.known() == orders


def test_a_minute_has_its_bound(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "RESULTS_RESENT", 2)
    orders = site.do(3)
    site.ann.return_to(site.copy)
    site.look()
    assert site.known() == orders[:2]
    site.machine.turn(1)
    assert site.waiting() == 0
    site.machine.turn()
    site.carry()
    assert site.known() == orders


def test_only_the_newest_results_are_sent_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_results, "RESULTS_OF_ONE", 2)
    orders = site.do(3)
    site.ann.return_to(site.copy)
    site.look()
    assert site.known() == orders[1:]


def test_a_device_that_may_no_longer_know_results_is_sent_none(site: Site) -> None:
    site.do()
    with site.ben.store.transaction():
        site.ben.store.sent_reports.note_lacking(site.ann.key, 1, 2**39)
        site.ben.store.database.run("UPDATE command SET author = x'00'")
    Machine(site.ben).turn()  # its owner has pinned nobody any more
    assert site.waiting() == 0
    assert site.ben.store.sent_reports.lacked(9, of_boards=False) == [], "it is forgotten"
