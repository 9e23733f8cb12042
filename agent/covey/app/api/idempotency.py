"""A request that is tried again queues nothing more, where it names a key of its own.

1. The key, what the request was, and what came of it are kept in the commit that queues: whoever got no answer asks
   again with the same key, and gets the answer of the first time, through the agent or on the state.
2. The same key with anything else is refused.
3. The latest `IDEMPOTENCY_KEYS` are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.errors import IdempotencyError, UsageError
from covey.limits.storage import IDEMPOTENCY_KEY_LENGTH

if TYPE_CHECKING:
    from covey.adapters.sqlite.idempotency import Idempotency


_DIGEST_BYTES = 16


def check_key(key: str | None) -> None:
    """Check what a request names itself by, if it does, whether or not there is anything to do for it.

    Raises:
        UsageError: it is no key.
    """
    if key is not None and not (key.isascii() and key.isprintable() and 0 < len(key) <= IDEMPOTENCY_KEY_LENGTH):
        raise UsageError(f"an idempotency key has 1 to {IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")


def once(records: Idempotency, key: str | None, request: tuple[object, ...], work: Callable[[], int]) -> int:
    """Do the work, unless the request that names this key was done before; return its result. Inside a transaction.

    Raises:
        IdempotencyError: another request named this key.
        UsageError: it is no key.
    """
    check_key(key)
    if key is None:
        return work()
    digest = hashlib.blake2b(repr(request).encode(), digest_size=_DIGEST_BYTES).digest()
    found = records.find(key)
    if found is None:
        result = work()
        records.keep(key, digest, result)
        return result
    if found[0] != digest:
        raise IdempotencyError(
            "another request named this idempotency key", hint="draw a key for each request; repeat it to try again"
        )
    return found[1]
