"""`covey.cli.quantities`: sizes and times as people write them."""

from __future__ import annotations

import pytest

from covey.cli.quantities import read_seconds, read_us
from covey.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("1s", 1.0), ("0", 0.0), ("0.5", 0.5), ("10m", 600.0), ("1h", 3600.0)]
)
def test_seconds_need_no_unit(text: str, seconds: float) -> None:
    assert read_seconds("--timeout", text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "nan", "inf", "1y", "1e3"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a quantity") as refused:
        read_seconds("--timeout", text)
    assert refused.value.hint == "write it like 90, 90s, 10m or 1h"


def test_a_duration_needs_a_unit() -> None:
    assert read_us("--keep", "30d", 10**15) == 30 * 86_400_000_000
    with pytest.raises(UsageError, match="'30' is not a quantity"):
        read_us("--keep", "30", 10**15)
