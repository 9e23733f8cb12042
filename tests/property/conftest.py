"""What Hypothesis makes once and keeps in `.hypothesis`: the first test would seem to compute for long."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st


@pytest.fixture(autouse=True, scope="session")
def _characters() -> None:
    """Have the table of all characters made: it takes a second where there is none yet."""
    st.characters(codec="utf-8").validate()
