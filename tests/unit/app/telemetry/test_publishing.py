"""What `covey publish` gives an agent is what it has read, with its age where it has no time."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from covey.app.api.answering_agent import record_of
from covey.app.telemetry.publishing import readings_of_lines
from covey.core.telemetry.reading import Reading

_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9\-:./_]{0,30}", fullmatch=True)
_VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.text(max_size=20), st.binary(max_size=20)
)
_TIMES = st.one_of(st.none(), st.integers(2**28 * 1_000_000, 2**32 * 1_000_000))
_NOW_US = 9_000_000


@given(st.builds(Reading, _NAMES, st.sampled_from(["", "Cel", "%RH"]), _TIMES, _VALUES), st.integers(0, 9_000))
def test_a_record_says_what_was_read(reading: Reading, age_ms: int) -> None:
    line = json.dumps(record_of(reading, age_ms / 1000)).encode()
    [second] = readings_of_lines([line], _NOW_US)
    assert second is not None
    assert (second.name, second.unit, second.value) == (reading.name, reading.unit, reading.value)
    assert type(second.value) is type(reading.value)
    if reading.time_us is None:
        assert second.time_us == _NOW_US - age_ms * 1000
    else:
        assert second.time_us == reading.time_us
