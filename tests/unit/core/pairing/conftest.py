"""Two machines that know the same code."""

from __future__ import annotations

import pytest

from tests.meeting import Meeting, inviter, joiner


@pytest.fixture
def meeting() -> Meeting:
    """Return them before either has said a word."""
    return Meeting(inviter(), joiner())
