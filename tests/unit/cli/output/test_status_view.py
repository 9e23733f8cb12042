"""`covey.cli.output.status_view`: what of a history is here, and what is missing, in a line for people."""

from __future__ import annotations

import pytest

from covey.app.checks.documents import (
    BytesByClass,
    CatchUpStatus,
    HistoryStatus,
    OperatorsStatus,
    OtherHeads,
    OutboxStatus,
    RelayStatus,
    Status,
    WrittenStatus,
)
from covey.cli.output.status_view import history_line, overview, thinned_text, what_came

FETCHED = CatchUpStatus("0a1b2c3d", "pump", 240, 0, more=1_060, seconds=1)
WAITING = CatchUpStatus("0a1b2c3d", "pump", 5, 3, more=0, seconds=1)


@pytest.mark.parametrize(
    ("history", "line"),
    [
        (HistoryStatus(0, 0, (), (), ()), "0 operations"),
        (HistoryStatus(9_900, 0, (), (), (), 9_120), "9900 operations (9120 of them deleted)"),
        (HistoryStatus(1, 1, (), (), ()), "1 operation, same as the one member seen"),
        (HistoryStatus(9, 3, (), ("0a1b2c3d",), ()), "9 operations, same as all 3 members seen, 1 not seen yet"),
        (HistoryStatus(9, 0, (), (), (FETCHED,)), "9 operations, fetching from 0a1b2c3d pump: 240 of 1,300"),
        (
            HistoryStatus(9, 1, (OtherHeads("0a1b2c3d", "pump", 7_200),), (), (WAITING,)),
            (
                "9 operations, 3 from 0a1b2c3d pump wait for earlier ones, "
                "same as 1 of 2 members seen; differs from 0a1b2c3d pump for 2 h"
            ),
        ),
    ],
)
def test_a_history_in_a_line(history: HistoryStatus, line: str) -> None:
    assert history_line(history) == line


def test_the_results_of_orders_fit_one_line() -> None:
    assert what_came({"duplicates": 4}) == ""
    counters = {"attempts_not_an_operator": 2, "attempts_was_removed": 1, "commands_done": 37, "commands_failed": 2}
    expected = "; commands: 37 done, 2 failed; 3 orders refused: covey order refused"
    assert what_came(counters) == expected


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (WrittenStatus(0, 600, None, 0), "written  0 B to storage in 10 min"),
        (WrittenStatus(1_200_000, 600, None, 600_000), "written  1.1 MiB to storage in 10 min (50 % to the database)"),
        (
            WrittenStatus(70_000_000, 604_800, 10_000_000, 63_000_000),
            "written  9.5 MiB a day to storage, 286.1 MiB in 30 days (90 % to the database; last 7 days of running)",
        ),
    ],
)
def test_the_wear_of_a_card_in_a_line(written: WrittenStatus, line: str) -> None:
    status = Status(
        device="0123abcd",
        label="gate",
        agent="running",
        relay=RelayStatus("mqtt://a", "up", 5),
        relays=(),
        clock_synchronised=True,
        outbox=OutboxStatus(0, 0, 100, BytesByClass(0, 0, 0, 0, 0), None),
        queues=(),
        members=(),
        groups=(),
        boards=(),
        sensors=(),
        operators=OperatorsStatus(1, ()),
        salvage=None,
        pending_joins=0,
        waiting_invitations=0,
        noise_key_seconds=None,
        landing_bytes=0,
        counters={},
        troubles=(),
        written=written,
    )
    assert line in list(overview(status))


def test_what_a_full_outbox_has_thinned_is_one_line() -> None:
    assert thinned_text({"published_readings": 7}) == ""
    counters = {"thinned_messages": 1, "thinned_readings": 91}
    assert thinned_text(counters) == "91 readings of 1 batch replaced by summaries, as the outbox was full"
