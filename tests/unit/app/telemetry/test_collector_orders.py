"""`covey.app.telemetry.collector`: what operators order and devices report lands as readings do."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.bodies import Note
from covey.core.history.operation import Operation, is_operation, read_operation
from covey.core.history.orders import SettingOrder
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from covey.core.wire.message import MessageType, read_message
from tests.fleet import carry
from tests.vault_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _order(site: Site, value: str = "eco") -> Operation:
    with site.ann.store.transaction():
        order = site.ann.node.history.write(site.group_id, SettingOrder(EVERYBODY, "app.mode", value), site.ann.now)
    _carry(site)
    return order


def _report(site: Site, kind: MessageType, body: bytes) -> None:
    with site.ann.store.transaction():
        site.ann.node._queue.queue(site.gate.key, kind, site.group_id, body, site.ann.now)
    _carry(site)


def _carry(site: Site) -> None:
    for _ in range(3):
        carry(site.ann, site.gate)
        site.ann.wait(1)
        site.gate.wait(1)


def test_an_order_lands_as_it_was_signed_and_once(site: Site) -> None:
    with site.ann.store.transaction():
        site.ann.node.history.write(site.group_id, Note("text/plain", b"for people"), site.ann.now)
    order = _order(site)
    site.land()
    assert site.records() == [order.raw]
    assert read_operation(site.records()[0]).id == order.id  # which verifies
    site.start()
    site.land()
    later = _order(site, "fast")
    site.land()
    assert site.records() == [order.raw, later.raw]
    site.send(b"one")
    site.land()
    assert [is_operation(raw) for raw in site.records()] == [True, True, False]


@pytest.mark.slow
def test_orders_from_before_the_collector_began_land(site: Site) -> None:
    orders = [_order(site, str(number)) for number in range(40)]
    site.start()
    site.land()
    assert site.records() == [order.raw for order in orders]


@pytest.mark.slow
def test_a_landing_that_is_full_takes_orders_later(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [_order(site, "x" * 500) for _ in range(6)]
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_BYTES", 2_000)
    for _ in range(4):
        site.land()
    assert site.records() == [order.raw for order in orders]


def test_reports_are_acknowledged_once_the_vault_has_them(site: Site) -> None:
    order = _order(site)
    settings = SettingReport((ReportedSetting("app.mode", order.id, SettingState.APPLIED),)).to_wire()
    result = OrderResult(order.id, CommandState.REFUSED, 1, 2, code="action_not_defined").to_wire()
    _report(site, MessageType.SETTING_REPORT, settings)
    assert site.ann.store.outbox.totals()[0] == 1
    site.land()
    _carry(site)
    assert site.ann.store.outbox.totals()[0] == 0
    assert site.gate.store.setting_reports.of(site.group_id, site.ann.key) is not None
    assert [read_message(raw).type for raw in site.records() if not is_operation(raw)] == [MessageType.SETTING_REPORT]
    _report(site, MessageType.ORDER_RESULT, result)  # of a setting, which nobody does
    _report(site, MessageType.SETTING_REPORT, b"\x81\x00")
    site.land()
    _carry(site)
    assert site.ann.store.outbox.totals()[0] == 0
    assert len(site.records()) == 2  # what is refused is set aside here, and does not land
    assert site.gate.store.counters.values()["quarantined_malformed"] == 1
