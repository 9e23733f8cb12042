"""Buckets of an object store that fail for some seconds: they refuse, cut off, or do as asked and do not say so."""

from __future__ import annotations

import time
from collections import deque

from tests.failing_s3 import FAILURES, FailingS3, Order
from tests.spark.strikes import Dice


class FailingBuckets:
    """The buckets of one store: of one that was struck, one request in four is served as it should be.

    `dice` decides how long a bucket fails, `requests` what becomes of each request meanwhile: how many there are is not
    the seed's to say.
    """

    def __init__(self, store: FailingS3, dice: Dice, requests: Dice) -> None:
        self._dice = dice
        self._requests = requests
        self._whole_at: dict[str, float] = {}
        store.orders = self._order
        store.moments = deque(maxlen=0)  # hours of them fit into no memory

    def fail(self, bucket: str) -> int:
        """Let requests to a bucket fail from now on."""
        self._whole_at[bucket] = time.monotonic() + self._dice.outage_seconds()
        return 1

    def mend(self) -> None:
        """Let no request fail any more."""
        self._whole_at.clear()

    def _order(self, _method: str, key: str) -> Order:
        if time.monotonic() > self._whole_at.get(key.partition("/")[0], 0.0):
            return Order.OBEY
        return self._requests.one_of(FAILURES)
