"""Where a test's tables go."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "tables"
