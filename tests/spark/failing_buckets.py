"""Buckets of an object store that fail for some seconds: they refuse, cut off, do not say what they did, or lie."""

from __future__ import annotations

import time
from collections import deque

from tests.failing_s3 import FAILURES, LIES, FailingS3, Order
from tests.spark.strikes import Dice

_RARE_LIES = (*LIES, *(Order.OBEY,) * 45)
"""One request in ten is lied about: a micro-batch makes about as many, so that some of them go on."""


class FailingBuckets:
    """The buckets of one store: one that fails serves one request in four as it should; one that lies, most of them.

    `dice` decides how long a bucket fails, `requests` what becomes of each request meanwhile: how many there are is not
    the seed's to say.
    """

    def __init__(self, store: FailingS3, dice: Dice, requests: Dice) -> None:
        self._dice = dice
        self._requests = requests
        self._whole_at: dict[str, float] = {}
        self._true_at: dict[str, float] = {}
        store.orders = self._order
        store.moments = deque(maxlen=0)  # hours of them fit into no memory

    def fail(self, bucket: str) -> int:
        """Let requests to a bucket fail from now on."""
        self._whole_at[bucket] = time.monotonic() + self._dice.outage_seconds()
        return 1

    def lie(self, bucket: str) -> int:
        """Let a bucket lie from now on."""
        self._true_at[bucket] = time.monotonic() + self._dice.outage_seconds()
        return 1

    def mend(self) -> None:
        """Let no request fail any more, and no answer be a lie."""
        self._whole_at.clear()
        self._true_at.clear()

    def _order(self, _method: str, key: str) -> Order:
        bucket, now = key.partition("/")[0], time.monotonic()
        if now < self._whole_at.get(bucket, 0.0):
            return self._requests.one_of(FAILURES)
        if now < self._true_at.get(bucket, 0.0):
            return self._requests.one_of(_RARE_LIES)
        return Order.OBEY
