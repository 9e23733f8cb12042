"""Each trouble is told once and with its end, a storm is one message, and a message waits until its target took it."""

from __future__ import annotations

import pytest

from covey.core.alerts import AlertBook, AlertFinding, AlertKind, AlertMessage, Notice, Subject, TargetQueue
from covey.limits.alerts import (
    ALERT_EPISODES,
    ALERT_MESSAGES,
    ALERT_PAUSE_US,
    ALERT_RETRY_MAXIMUM_US,
    ALERT_RETRY_US,
)

_START_US = 1_800_000_000_000_000
_SETTLE_US = 60_000_000
_SILENT = AlertFinding("gateway", "is silent", _START_US - 900_000_000)


def _subject(number: int = 1) -> Subject:
    return Subject(AlertKind.SILENT, f"{number:064x}")


def _look(book: AlertBook, found: dict[Subject, AlertFinding | None], now_us: int) -> list[Notice]:
    return book.look(found.items(), {f"{number:064x}" for number in range(500)}, now_us, _SETTLE_US)


def _message(number: int = 1) -> AlertMessage:
    return AlertMessage(f"id-{number}", "silent", ended=False, title="t", text="x", at_us=_START_US)


def test_a_lasting_trouble_is_reported_once_and_again_at_its_end() -> None:
    book = AlertBook()
    assert _look(book, {_subject(): _SILENT}, _START_US) == []
    (begun,) = _look(book, {_subject(): _SILENT}, _START_US + _SETTLE_US)
    assert (begun.kind, begun.ended, [subject for subject, _ in begun.episodes]) == ("silent", False, [_subject()])
    assert _look(book, {_subject(): _SILENT}, _START_US + 3_600_000_000) == []
    (ended,) = _look(book, {_subject(): None}, _START_US + 3_700_000_000)
    assert ended.ended
    assert ended.episodes[0][1].since_us == _SILENT.since_us
    assert _look(book, {_subject(): None}, _START_US + 9_000_000_000) == []
    assert book.episodes == {}


def test_a_trouble_that_ends_early_is_not_reported() -> None:
    book = AlertBook()
    _look(book, {_subject(): _SILENT}, _START_US)
    assert _look(book, {_subject(): None}, _START_US + 1) == []
    assert _look(book, {}, _START_US + 2 * _SETTLE_US) == []


def test_an_unknown_state_ends_no_alert() -> None:
    book = AlertBook()
    _look(book, {_subject(): _SILENT}, _START_US)
    _look(book, {_subject(): _SILENT}, _START_US + _SETTLE_US)
    assert _look(book, {}, _START_US + 10 * ALERT_PAUSE_US) == []
    (ended,) = book.look([], set(), _START_US + 11 * ALERT_PAUSE_US, _SETTLE_US)
    assert ended.ended


def test_an_episode_holds_as_long_as_it_was_found_to() -> None:
    book, until_us = AlertBook(), _START_US + 5 * ALERT_PAUSE_US
    lost = AlertFinding("gateway", "has lost 1 message", _START_US, until_us)
    _look(book, {_subject(): lost}, _START_US)
    _look(book, {_subject(): lost}, _START_US + _SETTLE_US)
    assert _look(book, {_subject(): None}, until_us - 1) == []
    assert len(_look(book, {_subject(): None}, until_us)) == 1


def test_a_storm_is_one_message_and_so_is_its_end() -> None:
    book, storm = AlertBook(), {_subject(number): _SILENT for number in range(400)}
    _look(book, {**storm}, _START_US)
    (begun,) = _look(book, {**storm}, _START_US + _SETTLE_US)
    assert len(begun.episodes) == 400
    (ended,) = _look(book, dict.fromkeys(storm), _START_US + 10 * ALERT_PAUSE_US)
    assert (ended.ended, len(ended.episodes)) == (True, 400)


def test_a_trickle_of_alerts_is_gathered() -> None:
    book, notices = AlertBook(), []
    for second in range(0, 900, 10):
        found: dict[Subject, AlertFinding | None] = {
            _subject(number): _SILENT for number in range(400) if number <= second
        }
        notices += _look(book, found, _START_US + second * 1_000_000)
    assert sum(len(each.episodes) for each in notices) == 400
    assert len(notices) <= 1 + 900_000_000 // ALERT_PAUSE_US


def test_a_clock_that_is_set_back_silences_no_alert_permanently() -> None:
    book = AlertBook()
    _look(book, {_subject(): _SILENT}, _START_US)
    assert len(_look(book, {_subject(): _SILENT}, _START_US - 86_400_000_000)) == 1


@pytest.mark.slow
def test_remembered_authors_are_bounded() -> None:
    book = AlertBook()
    found: dict[Subject, AlertFinding | None] = {_subject(number): _SILENT for number in range(ALERT_EPISODES + 1)}
    book.look(found.items(), {subject.device for subject in found}, _START_US, _SETTLE_US)
    assert len(book.episodes) == ALERT_EPISODES
    for number in range(ALERT_MESSAGES + 3):
        book.enqueue(_message(number), ["webhook"])
    queue = book.queue("webhook")
    assert (len(queue.waiting), queue.dropped, queue.waiting[0].id) == (ALERT_MESSAGES, 3, "id-3")


def test_a_message_waits_until_it_is_taken_and_the_waits_are_bounded() -> None:
    queue, now_us = TargetQueue([_message(1), _message(2)]), _START_US
    waits = []
    for _ in range(20):
        assert queue.due(now_us) == _message(1)
        queue.refused("no", now_us)
        assert queue.due(now_us) is None
        waits.append(queue.next_at_us - now_us)
        now_us = queue.next_at_us
    assert waits[:3] == [ALERT_RETRY_US, 2 * ALERT_RETRY_US, 4 * ALERT_RETRY_US]
    assert max(waits) == ALERT_RETRY_MAXIMUM_US
    queue.taken(_message(1))
    assert queue.due(now_us) == _message(2)
    assert (queue.attempts, queue.error) == (0, "")


def test_a_removed_target_is_forgotten() -> None:
    book = AlertBook()
    book.enqueue(_message(1), ["webhook", "mail"])
    book.enqueue(_message(2), ["mail"])
    assert {name: len(queue.waiting) for name, queue in book.queues.items()} == {"mail": 2}


def test_a_silenced_device_is_announced_when_its_silence_ends() -> None:
    book, subject = AlertBook(), Subject(AlertKind.LOST, f"{1:064x}")
    lost = {subject: AlertFinding("pump", "has lost 3 messages", _START_US)}

    def look(minute: int, *, quiet: bool, found: dict[Subject, AlertFinding | None]) -> list[Notice]:
        now_us = _START_US + minute * 60_000_000
        return book.look(found.items(), {subject.device}, now_us, 0, {subject.device} if quiet else ())

    assert look(0, quiet=True, found={**lost}) == []
    assert look(60, quiet=True, found={**lost}) == []
    assert [each.ended for each in look(61, quiet=False, found={**lost})] == [False]
    assert look(120, quiet=True, found={subject: None}) == []
    assert [each.ended for each in look(180, quiet=False, found={subject: None})] == [True]
