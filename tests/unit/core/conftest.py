from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.board_fleet import Fleet, behind_two_gateways


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Return a board behind a gateway, known to its collector."""
    return behind_two_gateways(tmp_path)
