"""`covey.core.link.rates`: what an author, and all of them, may make a device do in a time."""

from __future__ import annotations

import pytest

from covey.core.ids import DeviceKey
from covey.core.link.rates import ReceivingRates, TokenBucket
from covey.limits.rate import (
    ALL_TOKENS,
    AUTHOR_TOKENS,
    AUTHOR_TOKENS_PER_SECOND,
    NEWS_TOKENS,
    RATED_AUTHORS,
    WORTHLESS_TOKENS,
)

SECOND = 1_000_000


def test_a_bucket_fills_with_time_and_never_beyond_its_bound() -> None:
    bucket = TokenBucket(10, 100)
    bucket.spend(100, 0)
    assert bucket.wait_us(0) == SECOND // 10
    assert bucket.wait_us(SECOND // 10) == 0
    bucket.spend(1, SECOND // 10)
    assert bucket.wait_us(SECOND // 10) > 0
    assert bucket.wait_us(1_000 * SECOND) == 0
    bucket.spend(100, 1_000 * SECOND)
    assert bucket.wait_us(1_000 * SECOND) > 0


def test_a_bucket_in_debt_says_when_it_is_out_of_it() -> None:
    bucket = TokenBucket(10, 100)
    bucket.spend(150, 0)
    wait_us = bucket.wait_us(0)
    assert bucket.wait_us(wait_us - 1) == 1
    assert bucket.wait_us(wait_us) == 0


def test_a_clock_that_stops_or_goes_back_adds_no_tokens() -> None:
    bucket = TokenBucket(10, 100)
    bucket.spend(100, 5 * SECOND)
    assert bucket.wait_us(4 * SECOND) == bucket.wait_us(5 * SECOND) == SECOND // 10


def test_worthless_envelopes_end_an_authors_tokens_and_nobody_elses() -> None:
    rates = ReceivingRates()
    sent = 0
    while not rates.exhausted(DeviceKey(b"mal"), 0):
        rates.spend(DeviceKey(b"mal"), WORTHLESS_TOKENS, 0)
        sent += 1
    assert sent == AUTHOR_TOKENS // WORTHLESS_TOKENS
    assert not rates.exhausted(DeviceKey(b"ann"), 0)
    assert rates.wait_us(0) == 0
    assert not rates.exhausted(DeviceKey(b"mal"), SECOND)


@pytest.mark.slow
def test_a_thousand_devices_that_come_back_meet_no_bound() -> None:
    """Each with a window of news and a few repetitions, as fast as a large machine takes them."""
    rates, devices, now_us = ReceivingRates(), [b"%d" % number for number in range(1_000)], 0
    for device in devices:
        for _ in range(1_024):
            rates.spend(DeviceKey(device), NEWS_TOKENS, now_us)
            now_us += 100  # ten thousand a second
        for _ in range(8):
            rates.spend(DeviceKey(device), WORTHLESS_TOKENS, now_us)
        assert rates.wait_us(now_us) == 0
    assert not any(rates.exhausted(DeviceKey(device), now_us) for device in devices)


def test_all_together_wait_when_strangers_send_too_much() -> None:
    rates = ReceivingRates()
    for _ in range(2 * ALL_TOKENS // WORTHLESS_TOKENS):
        rates.spend(None, WORTHLESS_TOKENS, 0)
    wait_us = rates.wait_us(0)
    assert 0 < wait_us <= 10 * SECOND
    assert rates.wait_us(wait_us) == 0


def test_remembered_authors_are_bounded() -> None:
    rates = ReceivingRates()
    for number in range(2 * RATED_AUTHORS):
        rates.spend(DeviceKey(b"%d" % number), AUTHOR_TOKENS + AUTHOR_TOKENS_PER_SECOND, 0)
    assert len(rates._authors) == RATED_AUTHORS
    assert rates.exhausted(DeviceKey(b"%d" % (2 * RATED_AUTHORS - 1)), 0)
