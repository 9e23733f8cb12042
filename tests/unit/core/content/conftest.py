"""What tests of files begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.content_members import Members
from tests.fleet import Make


@pytest.fixture
def members(make: Make, tmp_path: Path) -> Members:
    """Three of them."""
    return Members(make, tmp_path, "ann", "ben", "cat")
