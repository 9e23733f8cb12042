"""Reports of settings: what is sent, to whom, how often; and which of two counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from covey.core.ids import INCARNATION_BYTES, GroupId, Incarnation, OperationId
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from covey.core.wire import cbor
from covey.core.wire.message import MessageType
from covey.errors import LimitError, MalformedError, RemoteError
from covey.limits.settings import MAXIMUM_REPORTED_SETTINGS
from tests.fleet import Device, carry, found
from tests.vectors import vectors

_ID = OperationId(bytes(32))


def _setting(key: str, state: SettingState = SettingState.APPLIED) -> ReportedSetting:
    return ReportedSetting(key, _ID, state, 5, "", "")


def _report(author: Device, group_id: GroupId, hearer: Device | None, *settings: ReportedSetting) -> bool:
    with author.store.transaction():
        hearers = [] if hearer is None else [hearer.key]
        return author.node.setting_reports.queue(group_id, hearers, settings, author.now)


@pytest.mark.parametrize("vector", vectors("orders", "reports"))
def test_bodies(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        assert SettingReport.from_wire(body).to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        SettingReport.from_wire(body)
    assert caught.value.code == vector["code"]


def test_a_report_is_kept_and_the_last_one_counts(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    assert not _report(ann, group_id, ben, _setting("b"), _setting("a"))
    waiting = ann.store.outbox.totals()[0]
    assert _report(ann, group_id, ben, _setting("a", SettingState.REFUSED)), "it waits while another one does"
    assert ann.store.outbox.totals()[0] == waiting, "so who is away costs one row"
    carry(ann, ben)
    assert not _report(ann, group_id, ben, _setting("a", SettingState.REFUSED))
    carry(ann, ben)
    kept = ben.store.setting_reports.of(group_id, ann.key)
    assert kept is not None
    assert SettingReport.from_wire(kept.body).settings == (_setting("a", SettingState.REFUSED),)
    assert not _report(ann, group_id, ben, _setting("a", SettingState.REFUSED))
    assert ann.store.outbox.totals()[0] == 0, "the same is not said twice"


def test_nothing_is_said_of_nothing_but_where_something_was(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    _report(ann, group_id, ben)
    assert ann.store.outbox.totals()[0] == 0
    _report(ann, group_id, ben, _setting("a"))
    carry(ann, ben)
    _report(ann, group_id, ben)
    carry(ann, ben)
    kept = ben.store.setting_reports.of(group_id, ann.key)
    assert kept is not None
    assert SettingReport.from_wire(kept.body).settings == ()


def test_a_returning_operator_gets_all_reports(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    _report(ann, group_id, ben, _setting("a"))
    carry(ann, ben)
    ben.store.setting_reports.forget(group_id)  # it was removed, and has left
    _report(ann, group_id, None, _setting("a"))
    _report(ann, group_id, ben, _setting("a"))
    carry(ann, ben)
    assert ben.store.setting_reports.of(group_id, ann.key) is not None


def test_an_older_report_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    with ann.store.transaction():
        for key in ("old", "new"):
            body = SettingReport((_setting(key),)).to_wire()
            ann.node._queue.queue(ben.key, MessageType.SETTING_REPORT, group_id, body, ann.now)
    envelopes = [outgoing.envelope for outgoing in ann.node.envelopes_to_send(ann.now)]
    for envelope in reversed(envelopes):
        with ben.store.transaction():
            ben.node.receive_envelope(envelope, ben.now)
    kept = ben.store.setting_reports.of(group_id, ann.key)
    assert kept is not None
    assert SettingReport.from_wire(kept.body).settings[0].key == "new"


def test_a_restored_recipient_receives_reports_again(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    carry(ann, ben)
    copy = ben.copy_state()
    _report(ann, group_id, ben, _setting("a"))
    carry(ann, ben)
    ben.return_to(copy)
    assert ben.store.setting_reports.of(group_id, ann.key) is None
    ann.blob(group_id, b"its acknowledgement shows what is lacking")
    carry(ann, ben)
    _report(ann, group_id, ben, _setting("a"))
    carry(ann, ben)
    kept = ben.store.setting_reports.of(group_id, ann.key)
    assert kept is not None
    assert SettingReport.from_wire(kept.body).settings == (_setting("a"),)
    _report(ann, group_id, ben, _setting("a"))
    assert ann.store.outbox.totals()[0] == 0, "once"


def test_a_new_incarnation_reports_to_everybody_again(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    _report(ann, group_id, ben, _setting("a"))
    carry(ann, ben)
    with ann.store.transaction():
        ann.store.incarnations.renew(Incarnation(ann.rng(INCARNATION_BYTES)))
    ann.restart()
    for expected in (1, 0):
        _report(ann, group_id, ben, _setting("a"))
        assert ann.store.outbox.totals()[0] == expected
        carry(ann, ben)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([["b", bytes(32), 1, None, "", ""], ["a", bytes(32), 1, None, "", ""]], MalformedError),
        ([["a", bytes(32), 1, None, "", ""], ["a", bytes(32), 1, None, "", ""]], MalformedError),
        ([["a", bytes(31), 1, None, "", ""]], MalformedError),
        ([["a", bytes(32), 99, None, "", ""]], MalformedError),
        ([["a", bytes(32), 1, b"", "", ""]], MalformedError),
        ([["a", bytes(32), 1, "x" * 1025, "", ""]], LimitError),
        ([["a", bytes(32), 1, None, "x" * 33, ""]], LimitError),
        ([[f"{n:04}", bytes(32), 1, None, "", ""] for n in range(MAXIMUM_REPORTED_SETTINGS + 1)], LimitError),
        ("", MalformedError),
    ],
)
def test_a_malformed_report_is_refused(body: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        SettingReport.from_wire(cbor.encode(body))
