"""A device's documents survive the way through JSON, and say nothing that is only known on the device itself."""

from __future__ import annotations

import json

import pytest

from covey.app.checks.documents import (
    BytesByClass,
    MemberStatus,
    ObeyedOperator,
    OperatorsStatus,
    OutboxStatus,
    RelayStatus,
    SalvageStatus,
    Status,
)
from covey.app.documents import from_json, to_json
from covey.app.relays.documents import Outbox, WaitingMessage
from covey.errors import AgentVersionError

_NAME = "0123abcd"


def _status() -> Status:
    return Status(
        device=_NAME,
        label="gate",
        agent="running",
        relay=RelayStatus("mqtt://a", "up", 5),
        relays=(RelayStatus("mqtt://a", "up", 5), RelayStatus("mqtt://b", "refused", 1)),
        clock_synchronised=True,
        outbox=OutboxStatus(1, 90, 100, BytesByClass(0, 90, 0, 0, 0), 90_000),
        queues=(),
        members=(MemberStatus(_NAME, "", None, "unknown", None),),
        groups=(),
        boards=(),
        sensors=(),
        operators=OperatorsStatus(2, (ObeyedOperator(_NAME, "Kim", member=True),)),
        salvage=SalvageStatus(3, {"outbox": 1, "inbox": None}, "aside"),
        pending_joins=0,
        waiting_invitations=0,
        noise_key_seconds=None,
        landing_bytes=0,
        counters={"duplicates": 2},
        troubles=("the outbox is nearly full",),
    )


def test_a_status_comes_back_from_json() -> None:
    status = _status()
    assert from_json(Status, json.loads(json.dumps(to_json(status)))) == status


def test_a_word_of_python_is_a_key_without_its_underscore() -> None:
    outbox = Outbox(1, 9, (WaitingMessage(_NAME, "", 1, "data", 9, 0),))
    assert to_json(outbox)["shown"][0]["class"] == "data"
    assert from_json(Outbox, to_json(outbox)) == outbox


def test_documents_leave_out_internal_fields() -> None:
    reported = to_json(OutboxStatus(1, 9, 100, BytesByClass(0, 9, 0, 0, 0), 2, oldest_us=2_345_678))
    assert set(reported) == {"messages", "bytes", "maximum_bytes", "bytes_by_class", "oldest_seconds"}
    assert set(to_json(RelayStatus("mqtt://a", "agent not running", 0, noted="up"))) == {"url", "state", "seconds"}


def test_documents_ignore_unknown_fields_and_miss_lacking_ones() -> None:
    reported = to_json(_status())
    assert from_json(Status, {**reported, "weather": "fine"}) == _status()
    del reported["counters"]
    with pytest.raises(AgentVersionError):
        from_json(Status, reported)


@pytest.mark.parametrize(("size", "full", "nearly"), [(80, False, False), (81, False, True), (100, True, True)])
def test_an_outbox_says_how_full_it_is(size: int, full: bool, nearly: bool) -> None:
    outbox = OutboxStatus(1, size, 100, BytesByClass(0, size, 0, 0, 0), None)
    assert (outbox.full, outbox.nearly_full) == (full, nearly)
