"""Tests of the tests: that a mistake in the product is noticed, and that each benchmark and each model runs.

They say nothing new of the product, or need what is too large for each run (Home Assistant, an image of another
architecture, a second kind of cluster), so `./dev test` leaves them out; `./dev prove` runs them, with further examples
of tests of the product (`tests/examples.py`). CI runs an eighth of them for each change.

1. They are marked `proof`.
2. What makes a mistake, or starts a benchmark, a model or what is too large, calls `begins`. A test that does so
   without the mark fails, and so does one with the mark that never does: tests of the product stay in `./dev test`.
3. A further example has the mark `proof(more=True)`, which only `tests/examples.py` gives: `./dev test` has others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_begun: list[None] = []


def begins() -> None:
    """Note that the test that runs is about the tests."""
    _begun.append(None)


@contextmanager
def expected(test: str, *, marked: bool) -> Iterator[None]:
    """Fail a test whose mark does not say whether it is about the tests."""
    outer = _begun.copy()
    _begun.clear()
    yield
    begun, _begun[:] = bool(_begun), outer
    assert marked or not begun, f"{test} tests the tests: mark it `proof`"
    assert begun or not marked, (
        f"{test} makes no mistake and runs no benchmark, model or what is too large: it is no `proof`"
    )


def a_world_notices(
    mistake: object,
    run: Callable[[Path, int], Any],
    folder: Path,
    seeds: Iterable[int],
    errors: type[Exception] | tuple[type[Exception], ...] = AssertionError,
) -> None:
    """Check that a mistake, which the product has now, fails the world of one of these seeds."""
    begins()
    for seed in seeds:
        (folder / str(seed)).mkdir()
        try:
            run(folder / str(seed), seed)
        except errors:
            return
    pytest.fail(f"nothing noticed: {mistake}")
